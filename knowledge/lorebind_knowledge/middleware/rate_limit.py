"""A limit of searches per second for each tenant."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from lorebind_config.errors import RateLimitError
from lorebind_knowledge.middleware.base import Wrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.middleware.base import Retrieval, Retrieve
    from lorebind_knowledge.records import QueryResult

_TENANTS = 10_000
"""Maximum number of tenants to remember; those whose last search is oldest are dropped first."""


class RateLimit(Wrapper):
    """The generic cell rate algorithm (ITU-T I.371), which limits searches without a queue.

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
        self._gap = 1 / per_second
        self._ahead = (burst - 1) * self._gap
        self._longest_wait = longest_wait
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._next: OrderedDict[str, float] = OrderedDict()
        """By tenant, the time of the next free turn, as if there were no burst."""

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def limited(asked: Retrieval) -> QueryResult:
            if wait := self.take(asked.tenant):
                await self._sleep(wait)
            return await inner(asked)

        return limited

    def take(self, tenant: str) -> float:
        """Take a tenant's next turn, and return the seconds until it comes.

        Raises:
            RateLimitError: the turn comes too late; it is not taken.
        """
        with self._lock:
            now = self._clock()
            due = max(self._next.get(tenant, now), now)
            wait = max(0.0, due - self._ahead - now)
            if wait > self._longest_wait:
                later = wait - self._longest_wait
                raise RateLimitError(
                    f"tenant {tenant!r} searches more often than {1 / self._gap:g} times a second; "
                    f"try again in {later:.3g} s",
                    later,
                )
            self._next[tenant] = due + self._gap
            self._next.move_to_end(tenant)
            while len(self._next) > _TENANTS:
                self._next.popitem(last=False)
            return wait
