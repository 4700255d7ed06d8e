"""The bus that carries the events of one run from tasks to subscribers and sinks."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.events.sink_thread import SinkThread
from lorebind_bindings.workflow.events.subscription import Subscription
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from lorebind_bindings.workflow.events.events import EventType
    from lorebind_bindings.workflow.events.sink_thread import SinkHealth
    from lorebind_bindings.workflow.events.sinks import SinkOrFunction

EVENT_BUFFER = 1024
"""Default maximum number of unread events of a subscriber."""


class EventBus:
    """The events of one run. Each subscriber has a bounded buffer, so producers never wait."""

    def __init__(self, thread_id: str, event_buffer: int = EVENT_BUFFER) -> None:
        """
        Args:
            thread_id: the thread of the run.
            event_buffer: maximum number of unread events of each subscriber.

        Raises:
            UsageError: `event_buffer` is below 1.
        """
        if event_buffer < 1:
            raise UsageError(f"event_buffer must be at least 1, got {event_buffer}")
        self.thread_id = thread_id
        self.seq = 0
        """Number of events so far."""
        self.is_closed = False
        """Whether further events are ignored."""
        self._event_buffer = event_buffer
        self._subscribers: tuple[Subscription, ...] = ()
        self._sinks: SinkThread | None = None
        # Reentrant: the garbage collector may close a subscription in a thread that holds the lock.
        self._lock = threading.RLock()

    @property
    def is_heard(self) -> bool:
        """Whether anyone has subscribed. Models are streamed only in this case."""
        return bool(self._subscribers)

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
        with self._lock:  # all subscribers receive the events of all producers in one order
            if self.is_closed:
                return
            self.seq += 1
            if self._subscribers:
                record = self.seq, kind, task, path, data
                for subscriber in self._subscribers:
                    subscriber.unread.append(record)
                    if subscriber.wake is not None:
                        subscriber.wake_up()

    def subscribe(self) -> Subscription:
        """Subscribe to all later events."""
        with self._lock:
            made = Subscription(self.thread_id, self._event_buffer, self.seq, self._forget)
            if self.is_closed:
                made.end()
            else:
                self._subscribers = (*self._subscribers, made)
            return made

    def attach(self, sinks: Sequence[SinkOrFunction]) -> None:
        """Write all events to sinks, in one separate thread. Called before the first event."""
        if sinks:
            self._sinks = SinkThread(self, sinks)

    @property
    def health(self) -> list[SinkHealth]:
        """The counts and the last error of each sink, in the order of `attach`."""
        return [] if self._sinks is None else self._sinks.health

    async def close(self) -> None:
        """Close the bus after `run_end`. Events that are emitted later are ignored.

        Subscribers receive the remaining events, and then the end. When this returns, sinks have
        written and flushed everything. Sinks that take longer than a few seconds are given up, and
        their health says so. If a sink fails only now, its `diagnostic` comes after `run_end`.
        Closing again does nothing.
        """
        if self.is_closed:
            return
        try:
            if self._sinks is not None:
                await self._sinks.finish()
        finally:
            with self._lock:
                self.is_closed = True
                subscribers, self._subscribers = self._subscribers, ()
            for subscriber in subscribers:
                subscriber.end()

    def _forget(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscribers = tuple(one for one in self._subscribers if one is not subscription)
