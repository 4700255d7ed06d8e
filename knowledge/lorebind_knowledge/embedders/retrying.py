"""An embedder that is asked again when it fails in passing, and never more often than it allows."""

from __future__ import annotations

import asyncio
import functools
import random as random_numbers
import time
from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.declarations.embedders import RetryConfig
from lorebind_knowledge.embedders import base
from lorebind_knowledge.embedders.concurrency import Slots
from lorebind_knowledge.embedders.failures import Failure, classify
from lorebind_knowledge.embedders.pacing import TokenBucket, backoff
from lorebind_knowledge.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_knowledge.embedders.base import Embedder, Fingerprint
    from lorebind_knowledge.embedders.tokens import TokenCount
    from lorebind_knowledge.records import Matrix, Vector

R = TypeVar("R")


class _TooLargeError(EmbedderError):
    """A call was refused for its size."""


class SteadyEmbedder(base.Embedder):
    """Wraps an embedder that calls a provider.

    - What passes (limits, overload, timeouts, lost connections) is tried again, after the wait that
      the provider asks for or an exponential one with jitter; anything else is raised at once.
    - A batch that is refused for its size is sent in halves; `batch_size` is then the smaller one.
    - Calls at a time and calls in a minute are bounded, over all tasks, threads and event loops. A
      call that waits for its next try keeps its place, so that others do not add to an overload.

    May be cancelled at any time.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        retry: RetryConfig | None = None,
        max_concurrent: int = 4,
        requests_per_minute: int | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        """
        Args:
            inner: what is called.
            retry: how often and how patiently; the defaults of the YAML when left out.
            max_concurrent: the most calls at a time.
            requests_per_minute: the most calls in a minute, tries included; None for no bound.
            sleep, clock, random: the time and the dice, in seconds and in [0, 1).
        """
        self.inner = inner
        self.batch_size = inner.batch_size
        self.hit_score = inner.hit_score
        self._retry = retry or RetryConfig()
        self.max_concurrent = max_concurrent
        self._slots = Slots(max_concurrent)
        self._sleep, self._clock, self._random = sleep, clock, random
        self._bucket: TokenBucket | None = None
        if requests_per_minute is not None:
            self._bucket = TokenBucket(requests_per_minute, clock())

    @property
    def fingerprint(self) -> Fingerprint:
        return self.inner.fingerprint

    def count_truncated(self, texts: Sequence[str]) -> int:
        return self.inner.count_truncated(texts)

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        return self.inner.count_tokens(texts)

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        parts: list[Matrix] = []
        done, size = 0, self.batch_size
        while done < len(texts):
            part = texts[done : done + self.batch_size]
            ask = functools.partial(base.embed_documents, self.inner, part)
            try:
                parts.append(await self._tried(ask))
            except _TooLargeError:
                if len(part) == 1:
                    self.batch_size = size  # it was the text: batches had the right size
                    raise
                self.batch_size = min(self.batch_size, (len(part) + 1) // 2)
            else:
                done += len(part)
        if not parts:
            return await base.embed_documents(self.inner, texts)
        return np.concatenate(parts)

    async def embed_query(self, text: str) -> Vector:
        return await self._tried(functools.partial(base.embed_query, self.inner, text))

    async def _tried(self, ask: Callable[[], Awaitable[R]]) -> R:
        tries = 0
        async with self._slots:
            while True:
                await self._wait_for_turn()
                try:
                    return await ask()
                except EmbedderError as error:
                    tries += 1
                    failure = classify(error, time.time())
                    if failure.kind != "again" or tries >= self._retry.attempts:
                        raise self._final(error, failure, tries) from error.__cause__ or error
                await self._sleep(backoff(self._retry, tries, failure.wait, self._random()))

    async def _wait_for_turn(self) -> None:
        while self._bucket is not None and (wait := self._bucket.take(self._clock())):
            await self._sleep(wait)

    def _final(self, error: EmbedderError, failure: Failure, tries: int) -> EmbedderError:
        """The error with what was tried, and what can be done."""
        said = [str(error)]
        if tries > 1:
            said.append(f"gave up after {tries} tries")
        longest = self._retry.max_backoff_ms / 1000
        if failure.wait is not None and failure.wait > longest:
            said.append(
                f"the provider asks to wait {failure.wait:g} s, "
                f"and retry.max_backoff_ms allows {longest:g} s"
            )
        if failure.advice:
            said.append(failure.advice)
        kind = _TooLargeError if failure.kind == "smaller" else EmbedderError
        return kind("; ".join(said))
