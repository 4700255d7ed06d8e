"""The rate limiter: how many calls it allows, for any arrival of callers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.resilience.limits import RateLimiter


class Clock:
    """A clock that tests set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 600), st.lists(st.floats(0, 30), max_size=120))
def test_any_arrival(per_minute: int, pauses: list[float]) -> None:
    """For any arrival of callers, none waits forever, and no minute has too many calls."""
    clock, at = Clock(1e6), list[float]()
    limiter = RateLimiter(per_minute / 60, max(1, per_minute / 60), clock)
    for pause in pauses:
        clock.now += pause
        for _ in range(4):
            wait = limiter.take().wait
            if not wait:
                break
            clock.now += wait
        else:
            raise AssertionError("still no token after waiting for it")
        at.append(clock.now)
    for first in range(len(at)):
        within = [time for time in at[first:] if time < at[first] + 60 - 1e-3]
        assert len(within) <= per_minute + max(1, per_minute / 60)


def test_a_clock_that_goes_back() -> None:
    """A clock that goes back neither adds nor removes tokens."""
    clock = Clock(100)
    limiter = RateLimiter(1, clock=clock)
    assert limiter.take().wait == 0
    for now, wait in ((50, 1), (100, 1), (101, 0)):
        clock.now = now
        assert limiter.take().wait == pytest.approx(wait)


def test_tokens_are_reserved_within_the_longest_wait() -> None:
    """Later callers wait longer; a caller that would wait too long takes nothing."""
    limiter = RateLimiter(2, burst=2, clock=Clock(0))
    turns = [limiter.take("a", longest_wait=1) for _ in range(5)]
    assert turns == [(0, 1), (0, 0), (0.5, -1), (1, -2), (1.5, -2)]
    assert limiter.take("b") == (0, 1)


def test_the_least_recently_used_keys_are_forgotten() -> None:
    """Memory is bounded, and a key that is used often keeps its count."""
    limiter = RateLimiter(1, clock=Clock(0))
    limiter.take("first")
    for number in range(30_000):
        limiter.take(str(number))
        if number % 5000 == 0:
            assert limiter.take("first").wait
    assert len(limiter._buckets) == 10_000
    assert limiter.take("0").wait == 0
