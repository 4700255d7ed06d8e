"""The retry loop: call something again after a transient failure, with exponential backoff."""

from __future__ import annotations

import asyncio
import random as random_numbers
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from lorebind_knowledge.resilience.failures import Failure, classify

if TYPE_CHECKING:
    from lorebind_config.declarations.embedders import RetryConfig

R = TypeVar("R")
E = TypeVar("E", bound=Exception)


def backoff(limits: RetryConfig, failures: int, retry_after: float | None, chance: float) -> float:
    """Return the seconds to wait after this many failures in a row.

    Exponential with full jitter, which spreads out callers that failed together
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).

    Args:
        limits: the attempts and the waits.
        failures: 1 after the first failure.
        retry_after: the seconds that the provider asks to wait; the jitter is added to them.
        chance: a random number in [0, 1).
    """
    longest = limits.max_backoff_ms / 1000
    jitter = chance * min(longest, limits.backoff_ms / 1000 * 2.0 ** (failures - 1))
    return min(longest, (retry_after or 0.0) + jitter)


@dataclass(frozen=True, kw_only=True)
class Retries(Generic[E]):
    """Retries calls that fail with transient errors. Calls may be cancelled at any time."""

    limits: RetryConfig
    on: type[E]
    """The errors to classify; others are raised at once."""
    classify: Callable[[E], Failure] = classify
    final_error: Callable[[E, Failure, int], Exception] = lambda error, *_: error
    """Returns the error to raise, from the last one, its failure, and the number of attempts."""
    before_wait: Callable[[E, float], object] = lambda *_: None
    """Called with an error and the seconds until the next attempt. May raise, to stop retrying."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random_numbers.random
    """Returns a number in [0, 1)."""

    async def call(self, function: Callable[[], Awaitable[R]]) -> R:
        """Return the result of the first attempt that succeeds.

        Raises:
            Exception: what `final_error` returns, or an error that is not one of `on`.
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                return await function()
            except self.on as error:
                wait = self._wait_or_raise(error, attempts)
            await self.sleep(wait)

    def call_sync(self, function: Callable[[], R]) -> R:
        """Do what `call` does, on a thread that may block; `sleep` is not used."""
        attempts = 0
        while True:
            attempts += 1
            try:
                return function()
            except self.on as error:
                wait = self._wait_or_raise(error, attempts)
            time.sleep(wait)

    def _wait_or_raise(self, error: E, attempts: int) -> float:
        failure = self.classify(error)
        if failure.kind != "again" or attempts >= self.limits.attempts:
            final = self.final_error(error, failure, attempts)
            if final is error:
                raise error
            # The cause is the exception of the provider, and the error only its name in our words.
            raise final from error.__cause__ or error
        wait = backoff(self.limits, attempts, failure.wait, self.random())
        self.before_wait(error, wait)
        return wait
