"""The bus of a run's events: its subscribers, and the thread that calls its sinks."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.events import EVENT_BUFFER
from lorebind_bindings.workflow.events.sinks import Sink
from lorebind_bindings.workflow.events.subscription import Subscription
from lorebind_config.errors import UsageError
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.plumbing.bridge import callers_loop, only_errors

if TYPE_CHECKING:
    from lorebind_bindings.workflow.events import EventType
    from lorebind_bindings.workflow.events.sinks import SinkOrFunction

log = logging.getLogger("lorebind.events")

CLOSE_SECONDS = 5.0
"""Maximum number of seconds that the end of a run waits for its sinks."""


@dataclass(slots=True)
class SinkHealth:
    """The counts of events that a sink has received, and its last error.

    At the end of the run, the three counts add up to the number of its events. Notices of lost
    events are not counted.
    """

    sink: str
    """The name of the sink."""
    written: int = 0
    """Number of events that the sink has received."""
    failed: int = 0
    """Number of events for which the sink raised an error."""
    dropped: int = 0
    """Number of events that were lost because a sink was too slow or was given up."""
    last_error: str = ""
    """The last error; empty if there was none."""


class SinkThread:
    """Calls all sinks of a run with its events, one after the other, until the events end."""

    def __init__(self, bus: EventBus, sinks: Sequence[SinkOrFunction]) -> None:
        self._bus, self._events = bus, bus.subscribe()
        self.health = [SinkHealth(_name_of(sink)) for sink in sinks]
        writes = [sink.write if isinstance(sink, Sink) else sink for sink in sinks]
        self._sinks = list(zip(writes, sinks, self.health, strict=True))
        self._is_given_up = False
        self._called = ""
        """The name of the sink that is called now, or was called last."""
        self._loop = callers_loop()
        """The event loop of async sinks; None means a loop in this thread."""
        self._own_loop = asyncio.Runner()  # creates its event loop at its first use
        self._awaited: Future[None] | None = None
        self._finished: Future[None] = Future()
        self._finished.set_running_or_notify_cancel()  # a cancelled future could not be set
        # Sinks see the context of the caller, such as the tenant. The thread is a daemon, so that
        # the process can end while a sink hangs.
        work, name = contextvars.copy_context().run, "lorebind-sinks"
        threading.Thread(target=work, args=[self._work], name=name, daemon=True).start()

    async def finish(self) -> None:
        """Wait until the sinks have all events and are closed or given up."""
        self._events.end()
        finished = asyncio.wrap_future(self._finished)
        try:
            await asyncio.wait([finished], timeout=CLOSE_SECONDS)
        finally:
            finished.cancel()
        if self._finished.done():
            return
        self._is_given_up = True
        self._events.close()
        log.warning("sink %s was given up: it took too long to finish", self._called)
        error = f"given up: sink {self._called} took too long to finish"
        self.health = [  # copies, because the thread may still change its own counts
            replace(
                health, dropped=self._bus.seq - health.written - health.failed, last_error=error
            )
            for health in self.health
        ]
        if self._awaited is not None:
            self._awaited.cancel()

    def _work(self) -> None:
        for event in self._events:
            for write, sink, health in self._sinks:
                succeeded = self._call(write, sink, health, event)
                if event.dropped:
                    health.dropped += event.dropped
                elif succeeded:
                    health.written += 1
                else:
                    health.failed += 1
        for _, sink, health in self._sinks:
            if close := getattr(sink, "close", None):
                self._call(close, sink, health)
        self._own_loop.close()
        self._finished.set_result(None)

    def _call(
        self, function: Callable[..., Any], sink: SinkOrFunction, health: SinkHealth, *event: object
    ) -> bool:
        """Call a function of a sink; return whether it succeeded."""
        self._called = health.sink
        try:
            result = function(*event)
            if inspect.isawaitable(result):
                self._wait_for(result)
        except BaseException as error:  # even SystemExit must not end this thread
            is_first = not health.last_error
            health.last_error = redacted_message(error, holder=sink)
            if is_first and not self._is_given_up:
                message = f"sink {health.sink} failed: {health.last_error}"
                log.warning("%s; it continues with the next event", message)
                self._bus.emit("diagnostic", message=message, sink=health.sink)
            return False
        return True

    def _wait_for(self, awaitable: Awaitable[Any]) -> None:
        async def awaited() -> None:
            with only_errors():
                await awaitable

        if self._loop is None:
            self._own_loop.run(awaited())
        else:
            self._awaited = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
            self._awaited.result()


def _name_of(sink: object) -> str:
    return str(getattr(sink, "name", None) or getattr(sink, "__qualname__", type(sink).__name__))


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
            subscription = Subscription(self.thread_id, self._event_buffer, self.seq, self._forget)
            if self.is_closed:
                subscription.end()
            else:
                self._subscribers = (*self._subscribers, subscription)
            return subscription

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
            self._subscribers = tuple(
                subscriber for subscriber in self._subscribers if subscriber is not subscription
            )
