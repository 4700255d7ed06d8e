"""So many searches a second for each tenant."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import RateLimitError
from lorebind_knowledge.middleware.base import Wrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.middleware.base import Retrieval, Retrieve
    from lorebind_knowledge.records import QueryResult

_TENANTS = 10_000
"""Of which the limit is remembered; more are forgotten, those first that asked longest ago."""


class RateLimit(Wrapper):
    """The generic cell rate algorithm (ITU-T I.371), which queues without keeping a queue.

    Each search takes the next turn of its tenant, so that they begin in the order in which they
    asked. A tenant's turns are `1 / per_second` apart, but for `burst` at once after a pause.
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
            per_second: searches of one tenant in the long run.
            burst: how many may begin at once.
            longest_wait: seconds; a search that would wait longer is refused. 0 never waits.
            clock, sleep: the time, in seconds.
        """
        self._gap = 1 / per_second
        self._ahead = (burst - 1) * self._gap
        self._longest_wait = longest_wait
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._next: OrderedDict[str, float] = OrderedDict()
        """By tenant: when the turn after the last one taken would be without a burst."""

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def limited(asked: Retrieval) -> QueryResult:
            if wait := self.take(asked.tenant):
                await self._sleep(wait)
            return await inner(asked)

        return limited

    def take(self, tenant: str) -> float:
        """Take a tenant's next turn; returns the seconds until it comes.

        Raises:
            RateLimitError: it comes too late; it is not taken then.
        """
        with self._lock:
            now = self._clock()
            due = max(self._next.get(tenant, now), now)
            wait = max(0.0, due - self._ahead - now)
            if wait > self._longest_wait:
                later = wait - self._longest_wait
                raise RateLimitError(
                    f"tenant {tenant!r} searches more often than {1 / self._gap:g} times a second; "
                    f"ask again in {later:.3g} s",
                    later,
                )
            self._next[tenant] = due + self._gap
            self._next.move_to_end(tenant)
            while len(self._next) > _TENANTS:
                self._next.popitem(last=False)
            return wait
