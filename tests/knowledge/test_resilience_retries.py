"""The retry loop: which failures it retries, after which waits, and the error that it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.declarations.embedders import RetryConfig
from lorebind_knowledge.resilience import retries as retries_module
from lorebind_knowledge.resilience.failures import Failure
from lorebind_knowledge.resilience.retries import Retries, backoff

LIMITS = RetryConfig(attempts=3, backoff_ms=1000)


class Flaky:
    """Fails with the given errors, then returns the number of calls."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


@pytest.fixture(params=["call", "call_sync"])
def retry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a function with retries, and return its result and the waits."""

    async def with_retries(function: Flaky, **settings: Any) -> tuple[int, list[float]]:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        async def attempt() -> int:
            return function()

        monkeypatch.setattr(retries_module.time, "sleep", waits.append)
        defaults = {"limits": LIMITS, "on": OSError, "sleep": sleep, "random": lambda: 1.0}
        retries: Retries[OSError] = Retries(**(defaults | settings))
        if request.param == "call":
            return await retries.call(attempt), waits
        return retries.call_sync(function), waits

    return with_retries


async def test_transient_failures_are_retried(retry: Any) -> None:
    """The waits double, and each attempt calls the function once."""
    assert await retry(Flaky(ConnectionError(), TimeoutError())) == (3, [1, 2])


async def test_other_errors_are_raised_at_once(retry: Any) -> None:
    """Final failures and errors of other classes are raised as they are, after one attempt."""
    for error in (FileNotFoundError("no file"), ValueError("HTTP 503")):
        flaky = Flaky(error)
        with pytest.raises(type(error)) as caught:
            await retry(flaky)
        assert (caught.value, flaky.calls, error.__cause__) == (error, 1, None)


async def test_the_last_error_is_replaced(retry: Any) -> None:
    """`final_error` gets the last error, its failure and the number of attempts."""
    errors = [ConnectionError(str(number)) for number in range(4)]

    def final_error(error: OSError, failure: Failure, attempts: int) -> Exception:
        return RuntimeError(f"{error}, {failure.kind}, {attempts}")

    flaky = Flaky(*errors)
    with pytest.raises(RuntimeError, match=r"^2, again, 3$") as caught:
        await retry(flaky, final_error=final_error)
    assert caught.value.__cause__ is errors[2]
    assert flaky.calls == 3


async def test_before_wait_may_stop_the_retries(retry: Any) -> None:
    """It is called with each error and wait; an error that it raises ends the retries."""
    calls: list[tuple[str, float]] = []

    def before_wait(error: OSError, wait: float) -> None:
        calls.append((str(error), wait))
        if wait > 5:
            raise error

    def classify(error: OSError) -> Failure:
        return Failure("again", wait=float(str(error)))

    flaky = Flaky(OSError("2"), OSError("7"))
    with pytest.raises(OSError, match=r"^7$"):
        await retry(flaky, before_wait=before_wait, classify=classify)
    assert calls == [("2", 3), ("7", 9)]
    assert flaky.calls == 2


@given(
    st.integers(0, 600_000),
    st.integers(0, 600_000),
    st.integers(1, 20),
    st.none() | st.floats(0, 1e9),
    st.floats(0, 1, exclude_max=True),
)
def test_backoff(base: int, more: int, failures: int, after: float | None, chance: float) -> None:
    """The wait is never above the maximum, nor below what the provider asks for within it."""
    longest = min(base + more, 600_000)
    retry = RetryConfig(backoff_ms=base, max_backoff_ms=max(base, longest))
    wait = backoff(retry, failures, after, chance)
    assert min(retry.max_backoff_ms / 1000, after or 0) <= wait <= retry.max_backoff_ms / 1000
    if after is None:
        assert wait <= base / 1000 * 2 ** (failures - 1)
