"""A thread that writes events to one sink, so that a slow or failing sink never blocks the run."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_config.redaction import redacted_message
from lorebind_knowledge.bridge import callers_loop, only_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

    from lorebind_bindings.workflow.events.events import RunEvent
    from lorebind_bindings.workflow.events.sinks import Sink
    from lorebind_bindings.workflow.events.subscription import Subscription

log = logging.getLogger("lorebind.events")

_FLUSH_AFTER = 256


@dataclass(frozen=True, slots=True)
class SinkHealth:
    """The counts of events that a sink has written, and its last error.

    When the bus is closed, the three counts add up to the number of events since the sink was
    attached. Notices of lost events are not counted.
    """

    sink: str
    """The name of the sink."""
    written: int
    """Number of events that were written and flushed."""
    failed: int
    """Number of events for which the sink raised an error."""
    dropped: int
    """Number of events that were lost because the sink was too slow or was given up."""
    last_error: str
    """The last error; empty if there was none."""


class SinkWorker:
    """Writes events to a sink until the events end."""

    def __init__(
        self, events: Subscription, sink: Sink, tell: Callable[[str, str], object]
    ) -> None:
        """
        Args:
            events: the events to write.
            sink: the sink.
            tell: called once if the sink fails, with a message and the sink's name.
        """
        self._tell = tell
        self._sink = sink
        self._name = str(getattr(sink, "name", type(sink).__name__))
        self._events = events
        self._loop = callers_loop()
        """The event loop of async sinks; None means a loop in this thread."""
        self._own_loop = asyncio.Runner()  # creates its event loop at its first use
        self._awaited: Future[None] | None = None
        self._written = self._failed = self._unflushed = 0
        self._last_error = ""
        self._given_up: SinkHealth | None = None
        self._has_failed = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=[self._work], name="lorebind-sink", daemon=True
        )
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the sink is closed or was given up."""
        return self._given_up is not None or not self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        """Whether there are events left to write."""
        return not (self.is_done or self._events.is_waiting)

    @property
    def health(self) -> SinkHealth:
        return self._given_up or SinkHealth(
            self._name, self._written, self._failed, self._events.dropped, self._last_error
        )

    def finish(self, deadline: float) -> None:
        """Wait until the sink is closed; give it up after the deadline."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self.is_done:
            return
        self._events.close()
        rest = self._events.told - self._written - self._failed
        self._given_up = SinkHealth(
            self._name, self._written, self._failed, rest, "given up: it took too long to finish"
        )
        log.warning("sink %s was given up: it took too long to finish", self._name)
        if self._awaited is not None:
            self._awaited.cancel()

    def _work(self) -> None:
        for event in self._events:
            if self._does("write", event) and not event.dropped:
                self._unflushed += 1
            elif not event.dropped:
                self._failed += 1
            if self._unflushed >= _FLUSH_AFTER or not self._events.has_more:
                self._flush()
        self._flush()
        self._does("close")
        self._own_loop.close()

    def _flush(self) -> None:
        if not self._unflushed:
            return
        if self._does("flush"):
            self._written += self._unflushed
        else:
            self._failed += self._unflushed
        self._unflushed = 0

    def _does(self, name: str, *arguments: RunEvent) -> bool:
        """Call a method of the sink if it has one; return whether it succeeded."""
        method: Callable[..., Awaitable[object] | object] | None = getattr(self._sink, name, None)
        if method is None:
            return True
        try:
            result = method(*arguments)
            if inspect.isawaitable(result):
                self._wait_for(result)
        except BaseException as error:  # even SystemExit must not end this thread
            self._note(error)
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

    def _note(self, error: BaseException) -> None:
        self._last_error = redacted_message(error, holder=self._sink)
        if self._has_failed or self._given_up is not None:
            return
        self._has_failed = True
        message = f"sink {self._name} failed: {self._last_error}"
        log.warning("%s; it continues with the next event", message)
        self._tell(message, self._name)
