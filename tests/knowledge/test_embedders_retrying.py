"""Retries, waits, limits and halved batches, on a clock that the tests control."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.errors import EmbedderError, MissingDependencyError
from lorebind_knowledge.embedders.base import Embedder, Fingerprint, embed_documents, embed_query
from lorebind_knowledge.embedders.retrying import RetryingEmbedder
from lorebind_knowledge.embedders.sparse import base as sparse
from lorebind_knowledge.records import SparseVector
from lorebind_knowledge.resilience import limits as slots_module
from lorebind_knowledge.resilience.limits import FairSemaphore


class Clock:
    """Time that only passes during a sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def __call__(self) -> float:
        return self.now


class ProviderError(Exception):
    """An exception in the form of clients: with a status and a response with headers."""

    def __init__(self, status: int, message: str = "", **headers: str) -> None:
        super().__init__(message or f"status {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-").lower(): value for name, value in headers.items()}


class Provider(Embedder):
    """Fails as often as requested, then answers with the lengths of the texts."""

    batch_size = 8

    def __init__(self, *failures: Exception, most_texts: int = 1000) -> None:
        self.failures = list(failures)
        self.most_texts = most_texts
        self.calls: list[list[str]] = []
        self.at: list[float] = []
        self.clock: Callable[[], float] = lambda: 0.0

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("fake", "lengths", dimension=2)

    def count_truncated(self, texts: Sequence[str]) -> int:
        return 5

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        self.at.append(self.clock())
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        if len(texts) > self.most_texts or "too long" in texts:
            raise ProviderError(413)
        return [[len(text), 1.0] for text in texts]

    async def embed_query(self, text: str) -> Any:
        return (await self.embed_documents([text]))[0]


def steady(provider: Provider, clock: Clock | None = None, **settings: Any) -> RetryingEmbedder:
    clock = clock or Clock()
    provider.clock = clock
    fixed = {"sleep": clock.sleep, "clock": clock, "random": lambda: 1.0}
    return RetryingEmbedder(provider, **(fixed | settings))


# Retries.


async def test_it_is_the_embedder_it_wraps() -> None:
    """Fingerprint, sizes and counts are those of the inner embedder."""
    provider = Provider()
    wrapped = steady(provider)
    assert wrapped.fingerprint == provider.fingerprint
    assert wrapped.batch_size == 8
    assert wrapped.count_truncated(["a"]) == 5


async def test_what_passes_is_tried_again() -> None:
    """Two transient failures cost two waits, the second twice as long as the first."""
    clock = Clock()
    provider = Provider(ProviderError(500), ProviderError(429))
    vectors = await embed_documents(steady(provider, clock), ["a", "bcd"])
    assert vectors.tolist() == [[1, 1], [3, 1]]
    assert clock.slept == [0.2, 0.4]
    assert len(provider.calls) == 3


async def test_questions_are_tried_again_too() -> None:
    """A question is retried in the same way."""
    provider = Provider(ProviderError(503), ConnectionResetError())
    assert (await embed_query(steady(provider), "abc")).tolist() == [3, 1]


async def test_tries_are_bounded() -> None:
    """The final error gives the number of attempts, and keeps the provider's own error."""
    failures = [ProviderError(503, f"down {number}") for number in range(9)]
    provider = Provider(*failures)
    with pytest.raises(EmbedderError, match=r"down 3; gave up after 4 attempts; .*later") as caught:
        await embed_documents(steady(provider, retry=RetryConfig(attempts=4)), ["a"])
    assert len(provider.calls) == 4
    assert caught.value.__cause__ is failures[3]
    assert "fake/lengths" in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_will_not_pass_is_raised_at_once(status: int) -> None:
    """A refusal is raised without a retry."""
    clock = Clock()
    provider = Provider(ProviderError(status))
    with pytest.raises(EmbedderError, match=f"status {status}; [a-z]"):
        await embed_query(steady(provider, clock), "a")
    assert (len(provider.calls), clock.slept) == (1, [])


async def test_errors_of_ours_pass() -> None:
    """A missing extra is neither retried nor renamed."""
    provider = Provider(MissingDependencyError("install it"))
    with pytest.raises(MissingDependencyError, match=r"^install it$"):
        await embed_query(steady(provider), "a")
    assert len(provider.calls) == 1


async def test_a_wrong_answer_is_not_asked_for_again() -> None:
    """Vectors of the wrong shape raise an error immediately, for each part of the texts."""

    class Wrong(Provider):
        async def embed_documents(self, texts: Sequence[str]) -> Any:
            self.calls.append(list(texts))
            return [[1.0, 1.0]] * (len(texts) + (1 if len(self.calls) == 1 else -1))

    provider = Wrong()
    with pytest.raises(EmbedderError, match=r"shape \(9, 2\) for 8 texts"):
        await embed_documents(steady(provider), ["a"] * 16)
    assert len(provider.calls) == 1


async def test_retry_after_is_honoured() -> None:
    """The wait that a provider asks for is respected, with the jitter added to it."""
    clock = Clock()
    provider = Provider(ProviderError(429, Retry_After="7"))
    await embed_query(steady(provider, clock, random=lambda: 0.5), "a")
    assert clock.slept == [7.1]


async def test_retry_after_is_bounded() -> None:
    """If a provider asks for an hour, the wait is the allowed maximum; the error mentions it."""
    clock = Clock()
    provider = Provider(*[ProviderError(429, Retry_After="3600")] * 3)
    retry = RetryConfig(attempts=3, max_backoff_ms=2000)
    with pytest.raises(
        EmbedderError, match=r"asks to wait 3600 s, and .*max_backoff_ms allows 2 s"
    ):
        await embed_query(steady(provider, clock, retry=retry), "a")
    assert clock.slept == [2, 2]


async def test_who_waits_keeps_the_place() -> None:
    """While a call waits for its retry, no other call takes its slot."""
    calls: list[int] = []

    async def sleep(seconds: float) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        calls.append(len(provider.calls))

    provider = Provider(ProviderError(429))
    embedder = steady(provider, sleep=sleep, max_concurrent=1)
    await asyncio.gather(*(embed_query(embedder, "a") for _ in range(3)))
    assert calls == [1]
    assert len(provider.calls) == 4


async def test_waiting_can_be_cancelled() -> None:
    """A call that is cancelled between two attempts stops there, and frees its slot."""
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    provider = Provider(ProviderError(500))
    embedder = steady(provider, sleep=sleep, max_concurrent=1)
    task = asyncio.create_task(embed_query(embedder, "a"))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(provider.calls) == 1
    assert (await embed_query(embedder, "ab")).tolist() == [2, 1]


# Batches that are too large.


async def test_batches_are_halved() -> None:
    """A batch that is too large is sent in parts; rows stay in order and the new size is kept."""
    provider = Provider(most_texts=3)
    embedder = steady(provider)
    texts = ["x" * length for length in range(1, 9)]
    assert (await embed_documents(embedder, texts))[:, 0].tolist() == list(range(1, 9))
    assert list(map(len, provider.calls)) == [8, 4, 2, 2, 2, 2]
    assert embedder.batch_size == 2
    await embed_documents(embedder, texts)
    assert list(map(len, provider.calls[6:])) == [2, 2, 2, 2]


async def test_sparse_embedders_are_retried_and_halved() -> None:
    """A sparse embedder is retried and gets smaller batches too; its vectors stay in order."""

    class SparseProvider(Provider):
        async def embed_documents(self, texts: Sequence[str]) -> Any:
            rows = await super().embed_documents(texts)
            return [SparseVector(np.array([1]), np.array([row[0]])) for row in rows]

        def terms(self, ids: Sequence[int]) -> list[str]:
            return ["length" for _ in ids]

    provider: Any = SparseProvider(ProviderError(503), most_texts=3)
    embedder = steady(provider)
    texts = ["x" * length for length in range(1, 9)]
    vectors = await sparse.embed_documents(embedder, texts)
    assert [vector.weights.tolist() for vector in vectors] == [[length] for length in range(1, 9)]
    assert list(map(len, provider.calls)) == [8, 8, 4, 2, 2, 2, 2]
    assert await sparse.embed_documents(embedder, []) == []
    provider.failures = [ProviderError(503)]
    assert (await sparse.embed_query(embedder, "ab")).weights.tolist() == [2]
    assert embedder.terms([1]) == ["length"]


@given(st.integers(0, 40), st.integers(1, 12))
def test_any_number_of_texts_in_batches_of_any_size(count: int, most: int) -> None:
    """Each text gets its row, however many texts the provider accepts per call."""
    provider = Provider(most_texts=most)
    texts = ["x" * number for number in range(count)]
    matrix = asyncio.run(embed_documents(steady(provider), texts))
    assert matrix[:, 0].tolist() == list(range(count))


async def test_one_text_that_is_too_large() -> None:
    """The error names the text as the cause, and later batches are as large as before."""
    provider = Provider()
    embedder = steady(provider)
    with pytest.raises(EmbedderError, match=r"lower chunking\.size"):
        await embed_documents(embedder, ["a", "b", "too long", "c"])
    assert embedder.batch_size == 8
    await embed_documents(embedder, ["x"] * 8)
    assert len(provider.calls[-1]) == 8


async def test_more_texts_than_a_call_may_carry() -> None:
    """They are sent in calls of `batch_size` texts."""
    provider = Provider()
    matrix = await steady(provider).embed_documents(["x"] * 20)
    assert matrix.shape == (20, 2)
    assert matrix.dtype == np.float32
    assert list(map(len, provider.calls)) == [8, 8, 4]


# Concurrent calls.


class Busy(Provider):
    """Counts concurrent calls; each ends when `together` of them have started."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self.barrier = threading.Barrier(together)
        self.lock = threading.Lock()
        self.now, self.most = 0, 0

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        await asyncio.to_thread(self.barrier.wait, 20)
        with self.lock:
            self.now -= 1
        return [[1.0, 1.0]]


async def test_calls_at_a_time() -> None:
    """Of many tasks, exactly as many as allowed run at the same time."""
    provider = Busy(together=4)
    embedder = RetryingEmbedder(provider, max_concurrent=4)
    await asyncio.gather(*(embed_documents(embedder, ["a"]) for _ in range(20)))
    assert provider.most == 4


def test_calls_at_a_time_over_event_loops() -> None:
    """The limit holds across threads that each have their own event loop."""
    provider = Busy(together=3)
    embedder = RetryingEmbedder(provider, max_concurrent=3)

    async def several() -> None:
        await asyncio.gather(*(embed_documents(embedder, ["a"]) for _ in range(3)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(several()), range(4)))
    assert provider.most == 3


async def _holding(slots: FairSemaphore, order: list[int], number: int) -> None:
    async with slots:
        order.append(number)
        await asyncio.sleep(0)


async def test_first_come_first_served() -> None:
    """The caller that has waited longest is next."""
    slots, order = FairSemaphore(1), list[int]()
    await asyncio.gather(*(_holding(slots, order, number) for number in range(6)))
    assert order == list(range(6))


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_waiter_loses_no_slot(granted: bool) -> None:
    """A waiter that is cancelled in the queue, or as it gets its slot, leaves it to the next."""
    slots, order = FairSemaphore(1), list[int]()
    await slots.__aenter__()
    waiter = asyncio.create_task(_holding(slots, order, 1))
    following = asyncio.create_task(_holding(slots, order, 2))
    await asyncio.sleep(0)
    if granted:
        await slots.__aexit__()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    if not granted:
        await slots.__aexit__()
    await asyncio.wait_for(following, 20)
    await asyncio.wait_for(_holding(slots, order, 3), 20)
    assert order == [2, 3]


async def test_a_child_process_has_all_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that were held before a fork are free in the child."""
    slots, order = FairSemaphore(1), list[int]()
    await slots.__aenter__()
    monkeypatch.setattr(slots_module.os, "getpid", lambda: -1)
    await asyncio.wait_for(_holding(slots, order, 1), 20)
    assert order == [1]


# Calls per minute.


async def test_calls_in_a_minute() -> None:
    """Calls are spread over the minute, retries included."""
    clock = Clock()
    provider = Provider(ProviderError(500))
    embedder = steady(provider, clock, requests_per_minute=6, random=lambda: 0.0)
    for _ in range(4):
        await embed_query(embedder, "a")
    assert provider.at == pytest.approx([0, 10, 20, 30, 40])


async def test_a_wait_that_the_provider_asks_for_holds_for_all_calls() -> None:
    """While a provider asks to wait, no call begins, up to the longest backoff."""
    for asked, waited in (("30", 30), ("300", 60)):
        clock = Clock()
        provider = Provider(ProviderError(429, retry_after=asked))
        retry = RetryConfig(attempts=1, max_backoff_ms=60_000)
        embedder = steady(provider, clock, max_concurrent=8, retry=retry)
        with pytest.raises(EmbedderError):
            await embed_query(embedder, "a")
        await asyncio.gather(*(embed_query(embedder, "b") for _ in range(5)))
        assert provider.at[0] == 0
        assert min(provider.at[1:]) == waited


async def test_calls_in_a_minute_over_tasks() -> None:
    """Tasks that start at the same time are let through one after the other."""
    clock = Clock()
    provider = Provider()
    embedder = steady(provider, clock, requests_per_minute=60, max_concurrent=8)
    await asyncio.gather(*(embed_query(embedder, "a") for _ in range(30)))
    assert len(provider.at) == 30
    assert clock.now >= 29 - 1e-3
