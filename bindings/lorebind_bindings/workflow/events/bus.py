"""The events of one run, from those who make them to those who listen."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from lorebind_bindings.workflow.events.events import VERSION
from lorebind_bindings.workflow.events.sink_worker import SinkWorker
from lorebind_bindings.workflow.events.subscription import Subscription
from lorebind_knowledge.bridge import call_daemon
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorebind_bindings.workflow.events.events import EventType
    from lorebind_bindings.workflow.events.sink_worker import SinkHealth
    from lorebind_bindings.workflow.events.sinks import Sink

CAPACITY = 1024
CLOSE_SECONDS = 5.0
"""How long `close` waits for sinks."""

Record: TypeAlias = "tuple[EventType, int, int, str, str, str, Mapping[str, Any]]"
"""The fields of an event. Readers make it into an `RunEvent`, which costs ten times as much."""
_SEQ = 2


class EventBus:
    """The events of one run.

    The last events stand in a ring, and subscriptions remember how far they have read. So `emit`
    costs the same whether nobody, one or ten listen, and whether they are awake.
    """

    def __init__(self, thread_id: str, capacity: int = CAPACITY) -> None:
        self.thread_id = thread_id
        self.seq = 0
        """How many events there were."""
        self.is_closed = False
        # Reentrant: a reader that the garbage collector finds is closed wherever that runs.
        self.lock = threading.RLock()
        self._capacity = capacity
        self._subscriptions: list[Subscription] = []
        self._ring: list[Record | None] = [None]
        """As long as the largest capacity; one place if nobody listens, so that it holds little."""
        self._wakers: list[Callable[[], object]] = []
        self._workers: list[SinkWorker] = []

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens; models are streamed only then."""
        return bool(self._subscriptions)

    def emit(self, kind: EventType, /, task: str = "", path: str = "", **data: Any) -> None:
        """Tell all subscribers. It never waits for them, and never raises; any thread may call it.

        Args:
            kind: the type of the event.
            task: the id of the task.
            path: where the task runs.
            data: plain JSON, which nobody changes afterwards. For keys that others choose, and
                that may be `task` or `path`, see `publish`.
        """
        self.publish(kind, task, path, data)

    def publish(self, kind: EventType, task: str, path: str, data: Mapping[str, Any]) -> None:
        """The same with the data as one mapping, which nobody changes afterwards."""
        with self.lock:
            if self.is_closed:
                return
            seq = self.seq + 1
            ring = self._ring
            ring[seq % len(ring)] = (kind, VERSION, seq, self.thread_id, task, path, data)
            self.seq = seq
            if self._wakers:
                self._wake()

    def subscribe(self, capacity: int | None = None) -> Subscription:
        """Listen from now on.

        Args:
            capacity: how many events it holds; None means that of the bus.

        Raises:
            UsageError: the capacity is below 1.
        """
        size = self._capacity if capacity is None else capacity
        if size < 1:
            raise UsageError(f"a subscription holds at least 1 event, not {size}")
        with self.lock:
            subscription = Subscription(self, size)
            if not self.is_closed:
                self._subscriptions.append(subscription)
                self._resize(max(size, len(self._ring)))
            return subscription

    def attach(self, sink: Sink) -> None:
        """Write all events from now on to a sink, in a thread of its own."""
        self._workers.append(SinkWorker(self, sink))

    @property
    def health(self) -> list[SinkHealth]:
        """How each sink does, in the order in which they were attached."""
        return [worker.health for worker in self._workers]

    async def close(self) -> None:
        """End the run's events, after `run_end`; nothing is emitted afterwards.

        Subscribers receive what is left, and then their end. Sinks have written and flushed
        everything when this returns. It waits for them for a few seconds; a sink that takes longer
        is given up, and its health says so. A `diagnostic` of a sink that fails only now comes
        after `run_end`. Closing again does nothing.
        """
        try:
            if any(not worker.is_done for worker in self._workers):
                await call_daemon(self._finish_sinks)
        finally:
            self._end()

    def _finish_sinks(self) -> None:
        deadline = time.monotonic() + CLOSE_SECONDS
        # Before the end is told: one that fails meanwhile is a `diagnostic` for all the others.
        while any(worker.is_busy for worker in self._workers) and time.monotonic() < deadline:
            time.sleep(0.001)
        self._end()
        for worker in self._workers:
            worker.finish(deadline)

    def _end(self) -> None:
        with self.lock:
            self.is_closed = True
            self._subscriptions.clear()
            self._wake()

    # For subscriptions, which hold the lock.

    def record(self, seq: int) -> Record:
        record = self._ring[seq % len(self._ring)]
        assert record is not None  # it is among the last that the ring holds
        return record

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Call this once, as soon as there is another event or the end."""
        self._wakers.append(wake)

    def no_longer_wake_with(self, wake: Callable[[], object]) -> None:
        with self.lock:
            if wake in self._wakers:
                self._wakers.remove(wake)

    def forget(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            if not self._subscriptions:
                self._resize(1)
        self._wake()

    def _wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def _resize(self, size: int) -> None:
        if size == len(self._ring):
            return
        ring: list[Record | None] = [None] * size
        for record in self._ring:
            if record is not None and record[_SEQ] > self.seq - size:
                ring[record[_SEQ] % size] = record
        self._ring = ring
