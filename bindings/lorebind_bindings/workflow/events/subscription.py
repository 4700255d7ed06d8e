"""A reader of a bus. It loses the oldest events if it reads too slowly."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from lorebind_bindings.workflow.events.events import VERSION, RunEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Self

    from lorebind_bindings.workflow.events.ring import EventRing


class Subscription:
    """The events of one run, from the time of the subscription until the bus is closed.

    Iterate over it with `for` or `async for`, in any thread or event loop. It stores no events: it
    remembers its position in the ring, so an idle reader costs the producers nothing. A reader that
    falls behind by more than `capacity` events loses the oldest ones. It then receives a
    `diagnostic` with the number of lost events, followed by the next event.

    To stop early, call `close`, or use the subscription as a context manager.
    """

    def __init__(self, ring: EventRing, capacity: int) -> None:
        self.capacity = capacity
        self.dropped = 0
        """Number of events that it has lost so far."""
        self._ring = ring
        self._after_notice: RunEvent | None = None
        self._waits = False
        self._closed = False
        with ring.lock:
            self._first = self._next = ring.seq + 1
            ring.admit(self, capacity)

    def close(self) -> None:
        """Stop reading. An iteration that waits in another thread ends."""
        with self._ring.lock:
            self._closed = True
            self._ring.forget(self)

    @property
    def told(self) -> int:
        """Number of events since it was created."""
        return self._ring.seq - self._first + 1

    @property
    def is_waiting(self) -> bool:
        """Whether all events were read and the reader waits for more."""
        with self._ring.lock:
            return self._waits and not self.has_more

    @property
    def has_more(self) -> bool:
        """Whether the next event is available."""
        return self._after_notice is not None or self._next <= self._ring.seq

    def __iter__(self) -> Iterator[RunEvent]:
        return self

    def __next__(self) -> RunEvent:
        while True:
            woken = threading.Lock()
            woken.acquire()
            with self._ring.lock:
                if (event := self._taken()) is not None:
                    return event
                if self._is_over():
                    raise StopIteration
                self._ring.wake_with(woken.release)
            woken.acquire()

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self

    async def __anext__(self) -> RunEvent:
        while True:
            with self._ring.lock:
                if (event := self._taken()) is not None:
                    return event
                if self._is_over():
                    raise StopAsyncIteration
                loop = asyncio.get_running_loop()
                woken = asyncio.Event()
                wake = _waker(loop, woken)
                self._ring.wake_with(wake)
            try:
                await woken.wait()
            finally:
                self._ring.no_longer_wake_with(wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _is_over(self) -> bool:
        self._waits = not (self._closed or self._ring.is_closed)
        return not self._waits

    def _taken(self) -> RunEvent | None:
        """Return the next event if it is available. The caller holds the lock."""
        if self._closed or not self.has_more:
            return None
        self._waits = False
        event, self._after_notice = self._after_notice, None
        if event is not None:
            return event
        oldest = self._ring.seq - self.capacity + 1
        if (lost := oldest - self._next) <= 0:
            return self._read()
        # The notice and the event after it are taken together. If events could be lost between the
        # two, a slow reader of a fast producer would receive only notices.
        self.dropped += lost
        self._next = oldest
        self._after_notice = self._read()
        message = f"{lost} events were lost: the subscriber reads too slowly"
        data = {"message": message, "dropped": lost}
        return RunEvent("diagnostic", VERSION, oldest - 1, self._ring.thread_id, "", "", data)

    def _read(self) -> RunEvent:
        self._next += 1
        return self._ring.event(self._next - 1)


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> Callable[[], object]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(woken.set)
        except RuntimeError:  # the reader's event loop is closed, so nobody waits any longer
            return

    return wake
