"""The most recent events of a run, in a ring buffer that all readers share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

from lorebind_bindings.workflow.events.events import VERSION, RunEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from lorebind_bindings.workflow.events.events import EventType

Record: TypeAlias = "tuple[EventType, str, str, Mapping[str, Any]]"
"""Type, task, path and data. Readers create the `RunEvent`, which costs much more."""


class EventRing:
    """A ring buffer for as many events as the readers may fall behind.

    Each reader remembers its own position. So adding an event costs the same for any number of
    readers, active or idle. Readers hold the lock while they call the methods.
    """

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.seq = 0
        """Number of events so far."""
        self.is_closed = False
        # Reentrant: the garbage collector may close a reader in a thread that holds the lock.
        self.lock = threading.RLock()
        self.readers: list[object] = []
        self._ring: list[Record | None] = [None]
        """As long as the largest capacity, or a single entry without readers, to save memory."""
        self._wakers: list[Callable[[], object]] = []

    def add(self, kind: EventType, task: str, path: str, data: Mapping[str, Any]) -> None:
        with self.lock:
            if self.is_closed:
                return
            seq = self.seq + 1
            ring = self._ring
            ring[seq % len(ring)] = (kind, task, path, data)
            self.seq = seq
            if self._wakers:
                self._wake()

    def close(self) -> None:
        """End the events: readers receive the remaining ones, and then the end."""
        with self.lock:
            self.is_closed = True
            self.readers.clear()
            self._wake()

    def admit(self, reader: object, capacity: int) -> None:
        """Add a reader, for which this many events are stored from now on."""
        if not self.is_closed:
            self.readers.append(reader)
            self._resize(max(capacity, len(self._ring)))

    def forget(self, reader: object) -> None:
        if reader in self.readers:
            self.readers.remove(reader)
            if not self.readers:
                self._resize(1)
        self._wake()

    def event(self, seq: int) -> RunEvent:
        """Return an event that is still in the ring."""
        record = self._ring[seq % len(self._ring)]
        assert record is not None
        kind, task, path, data = record
        return RunEvent(kind, VERSION, seq, self.thread_id, task, path, data)

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Call `wake` once, as soon as there is another event or the end."""
        self._wakers.append(wake)

    def no_longer_wake_with(self, wake: Callable[[], object]) -> None:
        with self.lock:
            if wake in self._wakers:
                self._wakers.remove(wake)

    def _wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def _resize(self, size: int) -> None:
        if size == len(self._ring):
            return
        ring: list[Record | None] = [None] * size
        for seq in range(self.seq, max(0, self.seq - min(size, len(self._ring))), -1):
            ring[seq % size] = self._ring[seq % len(self._ring)]
        self._ring = ring
