"""Limits of calls: a number of calls per second or minute, and a number of concurrent calls."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import NamedTuple

_KEYS = 10_000
"""Maximum number of keys in memory; the least recently used ones are forgotten."""
_NEARLY = 1e-6
"""Tolerance for rounding: a caller that waits for exactly one token must get it."""


class Turn(NamedTuple):
    """The answer to a call that a rate limits."""

    wait: float
    """Seconds until the call may begin; 0 if it may begin now."""
    tokens: float
    """The tokens that are left. Below 0 if earlier calls still wait for theirs."""


class RateLimiter:
    """Allows `per_second` calls on average for each key, and bursts of `burst` calls after a pause.

    Safe to share among threads and event loops.
    """

    def __init__(
        self, per_second: float, burst: float = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            per_second: the average number of calls per second and key.
            burst: the number of calls that may begin at the same time; at least 1.
            clock: the time in seconds.
        """
        self._per_second, self._burst, self._clock = per_second, float(burst), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key, the tokens and the time of the last call."""
        # Calls come from all event loops and threads of the process.
        self._lock = threading.Lock()

    def take(self, key: str = "", longest_wait: float = 0.0) -> Turn:
        """Take a token, unless it becomes available only after the longest wait.

        A token that is not available yet is reserved: the caller waits, and later callers wait
        longer. With `longest_wait` 0 nothing is reserved, and the caller may call again after the
        wait.
        """
        with self._lock:
            now = self._clock()
            # Taken out and put back, so that the keys are in the order of their last use.
            tokens, then = self._buckets.pop(key, (self._burst, now))
            gained = max(0.0, now - then) * self._per_second
            tokens = min(self._burst, tokens + gained)
            wait = 0.0 if tokens >= 1 - _NEARLY else (1 - tokens) / self._per_second
            if wait <= longest_wait:
                tokens -= 1
            self._buckets[key] = tokens, max(now, then)
            if len(self._buckets) > _KEYS:
                self._buckets.popitem(last=False)
            return Turn(wait, tokens)


class Pace:
    """When the calls of a provider may begin: at most `per_minute`, and none while it asks to wait.

    Safe to share among threads and event loops.
    """

    def __init__(
        self,
        per_minute: float | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            per_minute: the maximum number of calls per minute; None means no limit.
            sleep, clock: the time in seconds.
        """
        self.per_minute, self.sleep, self.clock = per_minute, sleep, clock
        self.per_second = None if per_minute is None else per_minute / 60
        self.burst = max(1.0, self.per_second or 1.0)
        """Spread evenly: a burst holds at most one second's worth of calls."""
        self._limiter = self.per_second and RateLimiter(self.per_second, self.burst, clock)
        self._held_until = -math.inf

    async def turn(self) -> None:
        """Wait until the next call may begin. May be cancelled at any time."""
        while (wait := self._held_until - self.clock()) > 0:
            await self.sleep(wait)
        while self._limiter and (wait := self._limiter.take().wait):
            await self.sleep(wait)

    async def hold_back(self, seconds: float) -> None:
        """Let no call begin for some seconds."""
        self._held_until = max(self._held_until, self.clock() + seconds)


class FairSemaphore:
    """A limit of `count` concurrent holders, first come first served: `async with slots:`.

    A waiter that is cancelled leaves the queue, and passes on a slot that it received at the same
    moment. After a fork, all slots are free in the child: their holders exist only in the parent.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._begin()

    async def __aenter__(self) -> None:
        # In a forked child, those who hold slots or wait for them do not exist.
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            waiter: Future[None] = Future()
            self._waiting.append(waiter)
        try:
            await asyncio.wrap_future(waiter)
        except BaseException:
            # It had been given a slot already, which the next one gets.
            if not waiter.cancel():
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._free = self._count
        self._waiting: deque[Future[None]] = deque()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                waiter = self._waiting.popleft()
                if waiter.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        # Outside of the lock, because callbacks run in here, and may want it.
        waiter.set_result(None)
