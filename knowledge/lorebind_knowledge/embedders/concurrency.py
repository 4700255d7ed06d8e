"""A semaphore that holds across event loops and threads; asyncio's own belongs to one loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from concurrent.futures import Future


class Slots:
    """At most so many at a time, first come first served: `async with slots:`.

    Whoever is cancelled while waiting leaves the queue, and passes on a slot that it was given in
    the same moment. After a fork the child has all the slots: what held them is not there.
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
