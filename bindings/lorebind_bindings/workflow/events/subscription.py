"""A subscriber to the events of a run. It loses the oldest events if it reads too slowly."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from lorebind_bindings.workflow.events import VERSION, RunEvent

if TYPE_CHECKING:
    from lorebind_bindings.workflow.events import EventType

Record: TypeAlias = "tuple[int, EventType, str, str, Mapping[str, Any]]"
"""Number, type, task, path and data. Readers create the `RunEvent`, which costs much more."""


class Subscription:
    """The events of one run, from the time of the subscription until the bus is closed.

    Iterate over it with `for` or `async for`, in any thread or event loop, one reader at a time. A
    reader that falls behind by more than `capacity` events loses the oldest ones. It then receives
    a `diagnostic` with the number of lost events, followed by the next event.

    To stop early, call `close`, or use the subscription as a context manager.
    """

    def __init__(
        self, thread_id: str, capacity: int, seq: int, leave: Callable[[Subscription], object]
    ) -> None:
        """
        Args:
            thread_id: the thread of the run.
            capacity: maximum number of unread events.
            seq: number of the last event before the subscription.
            leave: called when the reader stops.
        """
        self.unread: deque[Record] = deque(maxlen=capacity)
        self.wake: Callable[[], object] | None = None
        """Wakes the reader that waits. The bus calls `wake_up` after it has added an event."""
        self.dropped = 0
        """Number of events that it has lost so far."""
        self._thread_id, self._leave = thread_id, leave
        self._read = seq
        """Number of the last event that was read or lost."""
        self._after_notice: RunEvent | None = None
        self._closed = self._ended = False

    def wake_up(self) -> None:
        """Wake the reader if it waits."""
        wake, self.wake = self.wake, None
        if wake is not None:
            wake()

    def end(self) -> None:
        """End after the events that are unread."""
        self._ended = True
        self.wake_up()

    def close(self) -> None:
        """Stop reading. An iteration that waits in another thread ends."""
        self._closed = True
        self._leave(self)
        self.end()

    @property
    def has_more(self) -> bool:
        """Whether the next event is available."""
        return not self._closed and (self._after_notice is not None or bool(self.unread))

    def __iter__(self) -> Iterator[RunEvent]:
        return self

    def __next__(self) -> RunEvent:
        while not self.has_more:
            woken = threading.Event()
            if self._is_over(woken.set):
                raise StopIteration
            woken.wait()
        return self._next()

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self

    async def __anext__(self) -> RunEvent:
        while not self.has_more:
            woken = asyncio.Event()
            if self._is_over(_waker(asyncio.get_running_loop(), woken)):
                raise StopAsyncIteration
            await woken.wait()
        return self._next()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _is_over(self, wake: Callable[[], object]) -> bool:
        """Check whether there are no more events; if there may be, `wake` is called."""
        # Set first: an event that comes before the next check then wakes the reader at once.
        self.wake = wake
        # Read before the events: no event comes after the end.
        ended = self._ended
        if self.has_more:
            wake()
            return False
        return ended

    def _next(self) -> RunEvent:
        event, self._after_notice = self._after_notice, None
        if event is not None:
            return event
        seq, kind, task, path, data = self.unread.popleft()
        lost, self._read = seq - self._read - 1, seq
        event = RunEvent(kind, VERSION, seq, self._thread_id, task, path, data)
        if not lost:
            return event
        # The notice and the event after it are taken together. If events could be lost between the
        # two, a slow reader of a fast producer would receive only notices.
        self.dropped += lost
        self._after_notice = event
        message = f"{lost} events were lost: the subscriber reads too slowly"
        notice = {"message": message, "dropped": lost}
        return RunEvent("diagnostic", VERSION, seq - 1, self._thread_id, "", "", notice)


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> Callable[[], object]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(woken.set)
        except RuntimeError:  # the reader's event loop is closed, so nobody waits any longer
            return

    return wake
