"""A semaphore that works across event loops and threads; asyncio's own belongs to one loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from concurrent.futures import Future


class FairSemaphore:
    """A limit of `count` concurrent holders, first come first served: `async with slots:`.

    A waiter that is cancelled leaves the queue, and passes on a slot that it received at the same
    moment. After a fork, all slots are free in the child: their holders exist only in the parent.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._begin()

    async def __aenter__(self) -> None:
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
        waiter.set_result(None)
