"""The bus that carries the events of one run from tasks to subscribers and sinks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.events.ring import EventRing
from lorebind_bindings.workflow.events.sink_worker import SinkWorker
from lorebind_bindings.workflow.events.subscription import Subscription
from lorebind_knowledge.bridge import call_daemon
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_bindings.workflow.events.events import EventType
    from lorebind_bindings.workflow.events.sink_worker import SinkHealth
    from lorebind_bindings.workflow.events.sinks import Sink

CAPACITY = 1024
CLOSE_SECONDS = 5.0
"""How long `close` waits for sinks."""


class EventBus:
    """The events of one run."""

    def __init__(self, thread_id: str, capacity: int = CAPACITY) -> None:
        self.thread_id = thread_id
        self._ring = EventRing(thread_id)
        self._capacity = capacity
        self._workers: list[SinkWorker] = []

    @property
    def seq(self) -> int:
        """How many events there were."""
        return self._ring.seq

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is told."""
        return self._ring.is_closed

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens; models are streamed only then."""
        return bool(self._ring.readers)

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
        self._ring.add(kind, task, path, data)

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
        return Subscription(self._ring, size)

    def attach(self, sink: Sink) -> None:
        """Write all events from now on to a sink, in a thread of its own."""

        def tell(message: str, name: str) -> None:
            self.emit("diagnostic", message=message, sink=name)

        self._workers.append(SinkWorker(self.subscribe(), sink, tell))

    @property
    def health(self) -> list[SinkHealth]:
        """How many events each sink has written, and its last error, in the order of `attach`."""
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
            self._ring.close()

    def _finish_sinks(self) -> None:
        deadline = time.monotonic() + CLOSE_SECONDS
        # Subscriptions are still open, so that the others hear of a sink that fails meanwhile.
        while any(worker.is_busy for worker in self._workers) and time.monotonic() < deadline:
            time.sleep(0.001)
        self._ring.close()
        for worker in self._workers:
            worker.finish(deadline)
