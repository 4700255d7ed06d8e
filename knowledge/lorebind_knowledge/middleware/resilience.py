"""Retries of calls of vector databases, and a limit of searches per second for each tenant."""

from __future__ import annotations

import asyncio
import random as random_numbers
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from lorebind_config.errors import RateLimitError, StoreError
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.resilience.limits import RateLimiter
from lorebind_knowledge.resilience.retries import Retries
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from lorebind_config.declarations.embedders import RetryConfig
    from lorebind_knowledge.middleware import Retrieval, Retrieve
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.resilience.failures import Failure
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")


class StoreRetries(Wrapper):
    """Retries the calls that the store protocol allows to repeat: all except `close`."""

    def __init__(
        self,
        retry: RetryConfig,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        """
        Args:
            retry: attempts and waits.
            sleep, random: the time in seconds, and random numbers in [0, 1).
        """
        self.retries = Retries(
            limits=retry, on=StoreError, final_error=_final, sleep=sleep, random=random
        )

    def store(self, inner: VectorStore) -> VectorStore:
        return _Retried(inner, self.retries)


class _Retried(StoreWrapper):
    def __init__(self, inner: VectorStore, retries: Retries[StoreError]) -> None:
        super().__init__(inner)
        self._retries = retries

    async def wrap_call(self, request: StoreCall, call_next: Callable[[], Awaitable[R]]) -> R:
        return await (call_next() if request.name == "close" else self._retries.call(call_next))


def _final(error: StoreError, _: Failure, attempts: int) -> StoreError:
    return error if attempts == 1 else StoreError(f"{error}; gave up after {attempts} attempts")


class RateLimit(Wrapper):
    """Limits searches without a queue.

    Each search takes the next turn of its tenant, so that searches begin in the order of their
    calls. A tenant's turns are `1 / per_second` apart, except that `burst` searches may begin at
    the same time after a pause.
    """

    def __init__(
        self,
        per_second: float,
        *,
        burst: int = 1,
        longest_wait: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """
        Args:
            per_second: the average number of searches per second and tenant.
            burst: how many searches may begin at the same time.
            longest_wait: seconds; a search that would wait longer is refused. 0 never waits.
            clock, sleep: the time, in seconds.
        """
        self._per_second, self._longest_wait, self._sleep = per_second, longest_wait, sleep
        self._limiter = RateLimiter(per_second, burst, clock)

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def limited(retrieval: Retrieval) -> QueryResult:
            if wait := self.take(retrieval.tenant):
                await self._sleep(wait)
            return await inner(retrieval)

        return limited

    def take(self, tenant: str) -> float:
        """Take a tenant's next turn, and return the seconds until it comes.

        Raises:
            RateLimitError: the turn comes too late; it is not taken.
        """
        wait, _ = self._limiter.take(tenant, self._longest_wait)
        if wait > self._longest_wait:
            later = wait - self._longest_wait
            raise RateLimitError(
                f"tenant {tenant!r} searches more often than {self._per_second:g} times a second; "
                f"try again in {later:.3g} s",
                later,
            )
        return wait
