"""The bus that carries the events of one run from tasks to subscribers and sinks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.events.ring import EventRing
from lorebind_bindings.workflow.events.sink_worker import SinkWorker
from lorebind_bindings.workflow.events.subscription import Subscription
from lorebind_config.errors import UsageError
from lorebind_knowledge.bridge import call_daemon

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_bindings.workflow.events.events import EventType
    from lorebind_bindings.workflow.events.sink_worker import SinkHealth
    from lorebind_bindings.workflow.events.sinks import Sink

CAPACITY = 1024
CLOSE_SECONDS = 5.0
"""Maximum number of seconds that `close` waits for sinks."""


class EventBus:
    """The events of one run."""

    def __init__(self, thread_id: str, capacity: int = CAPACITY) -> None:
        self.thread_id = thread_id
        self._ring = EventRing(thread_id)
        self._capacity = capacity
        self._workers: list[SinkWorker] = []

    @property
    def seq(self) -> int:
        """Number of events so far."""
        return self._ring.seq

    @property
    def is_closed(self) -> bool:
        """Whether the bus is closed, so that further events are ignored."""
        return self._ring.is_closed

    @property
    def is_heard(self) -> bool:
        """Whether anyone has subscribed. Models are streamed only in this case."""
        return bool(self._ring.readers)

    def emit(self, kind: EventType, /, task: str = "", path: str = "", **data: Any) -> None:
        """Send an event to all subscribers. It never waits and never raises. Thread-safe.

        Args:
            kind: the type of the event.
            task: the id of the task.
            path: the path of the task.
            data: plain JSON, which must not change afterwards. For keys that users choose, which
                may be `task` or `path`, see `publish`.
        """
        self.publish(kind, task, path, data)

    def publish(self, kind: EventType, task: str, path: str, data: Mapping[str, Any]) -> None:
        """Send an event whose data is one mapping, which must not change afterwards."""
        self._ring.add(kind, task, path, data)

    def subscribe(self, capacity: int | None = None) -> Subscription:
        """Subscribe to all later events.

        Args:
            capacity: maximum number of unread events; None means that of the bus.

        Raises:
            UsageError: the capacity is below 1.
        """
        size = self._capacity if capacity is None else capacity
        if size < 1:
            raise UsageError(f"a subscription holds at least 1 event, not {size}")
        return Subscription(self._ring, size)

    def attach(self, sink: Sink) -> None:
        """Write all later events to a sink, in a separate thread."""

        def tell(message: str, name: str) -> None:
            self.emit("diagnostic", message=message, sink=name)

        self._workers.append(SinkWorker(self.subscribe(), sink, tell))

    @property
    def health(self) -> list[SinkHealth]:
        """The counts and the last error of each sink, in the order of `attach`."""
        return [worker.health for worker in self._workers]

    async def close(self) -> None:
        """Close the bus after `run_end`. Events that are emitted later are ignored.

        Subscribers receive the remaining events, and then the end. When this returns, sinks have
        written and flushed everything. A sink that takes longer than a few seconds is given up, and
        its health says so. If a sink fails only now, its `diagnostic` comes after `run_end`.
        Closing again does nothing.
        """
        try:
            if any(not worker.is_done for worker in self._workers):
                await call_daemon(self._finish_sinks)
        finally:
            self._ring.close()

    def _finish_sinks(self) -> None:
        deadline = time.monotonic() + CLOSE_SECONDS
        # Subscriptions stay open until here, so that they receive the errors of failing sinks.
        while any(worker.is_busy for worker in self._workers) and time.monotonic() < deadline:
            time.sleep(0.001)
        self._ring.close()
        for worker in self._workers:
            worker.finish(deadline)
