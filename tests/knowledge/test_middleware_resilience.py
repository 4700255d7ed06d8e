"""Rate limits: how often a tenant may search, and the refusal of further searches."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import RateLimitError
from lorebind_config.namespace import tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.middleware.resilience import RateLimit


class Time:
    """A clock that only advances during a sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def _limit(time: Time, per_second: float, **more: Any) -> RateLimit:
    return RateLimit(per_second, clock=time.clock, sleep=time.sleep, **more)


@given(
    st.floats(0.1, 50),
    st.integers(1, 5),
    st.lists(st.floats(0, 3), min_size=1, max_size=40),
)
def test_never_more_than_the_rate(per_second: float, burst: int, pauses: list[float]) -> None:
    """In any period, at most as many searches begin as the rate and the burst allow."""
    time = Time()
    limit = _limit(time, per_second, burst=burst, longest_wait=1e9)
    begun: list[float] = []
    for pause in pauses:
        time.now += pause
        begun.append(time.now + limit.take("a"))
    assert begun == sorted(begun)
    for first in range(len(begun)):
        for last in range(first, len(begun)):
            allowed = (begun[last] - begun[first]) * per_second + burst
            assert last - first + 1 <= allowed + 1e-6


def test_a_refusal_says_when_to_ask_again_and_takes_no_turn() -> None:
    """A caller that tries again at the stated time succeeds, after any number of refusals."""
    time = Time()
    limit = _limit(time, 2, burst=2)
    assert limit.take("a") == limit.take("a") == 0
    for _ in range(3):
        with pytest.raises(RateLimitError, match=r"'a' .* 2 times a second; try .* 0\.5") as caught:
            limit.take("a")
    assert caught.value.retry_after == pytest.approx(0.5)
    time.now += caught.value.retry_after
    assert limit.take("a") == 0


def test_tenants_do_not_wait_for_each_other() -> None:
    """Each tenant has its own limit."""
    limit = _limit(Time(), 1)
    assert limit.take("a") == limit.take("b") == 0
    with pytest.raises(RateLimitError):
        limit.take("a")


def test_the_longest_wait_bounds_what_is_queued() -> None:
    """Searches that would wait longer are refused, in the order of their calls."""
    limit = _limit(Time(), 1, longest_wait=2)
    assert [limit.take("a") for _ in range(3)] == pytest.approx([0, 1, 2])
    with pytest.raises(RateLimitError) as caught:
        limit.take("a")
    assert caught.value.retry_after == pytest.approx(1)


async def test_searches_wait_their_turn() -> None:
    """Searches begin one by one, in the order of their calls; refused ones do not begin."""
    time = Time()
    begun: list[tuple[int, float]] = []

    async def inner(request: Any) -> Any:
        begun.append((request.number, time.now))

    retrieve = _limit(time, 4, longest_wait=5).retrieval(inner)
    for number in range(3):
        await retrieve(SimpleNamespace(tenant="a", number=number))  # type: ignore[arg-type]
    assert begun == [(0, 0.0), (1, 0.25), (2, 0.5)]


async def test_a_project_refuses_by_tenant(tmp_path: Path) -> None:
    """A limit declared in YAML counts the searches of the call's tenant."""
    data = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": "memory"}],
        "knowledge_bases": [
            {
                "id": "docs",
                "ingest": "on_start",
                "sources": [{"type": "inline", "documents": [{"id": "a", "text": "alpha"}]}],
            }
        ],
        "wrappers": [
            {"type": "rate_limit", "queries_per_second": 0.001, "when_exceeded": "refuse"}
        ],
    }
    service = KnowledgeService(build_project(data, root=tmp_path))
    docs = service.open("docs")
    assert len(await docs.query("alpha")) == 1
    with pytest.raises(RateLimitError) as caught:
        await docs.query("alpha")
    assert 0 < caught.value.retry_after <= 1000
    with tenant("other"):
        results = await asyncio.gather(
            *(docs.query("alpha") for _ in range(2)), return_exceptions=True
        )
    assert sorted(type(result).__name__ for result in results) == ["QueryResult", "RateLimitError"]
    await service.close()
