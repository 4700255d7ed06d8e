"""One reader of a bus: it holds so many events, and loses the oldest when it reads too slowly."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from lorebind_bindings.workflow.events.events import VERSION, RunEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Self

    from lorebind_bindings.workflow.events.bus import EventBus


class Subscription:
    """Events of one run, from when the subscription was made until the bus is closed.

    Iterate over it with `for` or `async for`, in any thread or event loop. It holds no events of
    its own: it remembers how far it has read in the ring of the bus, so that a reader which sleeps
    costs the producers nothing. A reader that falls behind by more than `capacity` events loses the
    oldest. It then receives a `diagnostic` that says how many, and after it the next event.

    A reader that stops early calls `close`, or uses the subscription as a context manager.
    """

    def __init__(self, bus: EventBus, capacity: int) -> None:
        self.capacity = capacity
        self.dropped = 0
        """How many events it has lost so far."""
        self._bus = bus
        self._next = bus.seq + 1
        self._after_notice: RunEvent | None = None
        self._waits = False
        self._closed = False

    def close(self) -> None:
        """Stop listening; a reader that waits meanwhile is at its end."""
        with self._bus.lock:
            self._closed = True
            self._bus.forget(self)

    @property
    def is_waiting(self) -> bool:
        """Whether everything was read, and the reader waits for more."""
        with self._bus.lock:
            return self._waits and not self.has_more

    @property
    def has_more(self) -> bool:
        """Whether the next event is there already."""
        return self._after_notice is not None or self._next <= self._bus.seq

    def __iter__(self) -> Iterator[RunEvent]:
        return self

    def __next__(self) -> RunEvent:
        while True:
            woken = threading.Lock()
            woken.acquire()
            with self._bus.lock:
                if (event := self._taken()) is not None:
                    return event
                if self._is_over():
                    raise StopIteration
                self._bus.wake_with(woken.release)
            woken.acquire()

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self

    async def __anext__(self) -> RunEvent:
        while True:
            with self._bus.lock:
                if (event := self._taken()) is not None:
                    return event
                if self._is_over():
                    raise StopAsyncIteration
                loop = asyncio.get_running_loop()
                woken = asyncio.Event()
                wake = _waker(loop, woken)
                self._bus.wake_with(wake)
            try:
                await woken.wait()
            finally:
                self._bus.no_longer_wake_with(wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _is_over(self) -> bool:
        self._waits = not (self._closed or self._bus.is_closed)
        return not self._waits

    def _taken(self) -> RunEvent | None:
        """The next event, if it is there. The lock is held."""
        if self._closed or not self.has_more:
            return None
        self._waits = False
        event, self._after_notice = self._after_notice, None
        if event is not None:
            return event
        oldest = self._bus.seq - self.capacity + 1
        if (lost := oldest - self._next) <= 0:
            return self._read()
        # The notice and the event after it are taken at once. If more were lost between the two,
        # a slow reader of a fast producer would receive nothing but notices.
        self.dropped += lost
        self._next = oldest
        self._after_notice = self._read()
        message = f"{lost} events were lost: the subscriber reads too slowly"
        data = {"message": message, "dropped": lost}
        return RunEvent("diagnostic", VERSION, oldest - 1, self._bus.thread_id, "", "", data)

    def _read(self) -> RunEvent:
        record = self._bus.record(self._next)
        self._next += 1
        return RunEvent(*record)


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> Callable[[], object]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(woken.set)
        except RuntimeError:  # the loop of the reader is closed: nobody reads any more
            return

    return wake
