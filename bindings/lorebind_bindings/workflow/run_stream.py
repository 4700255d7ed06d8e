"""A run of a workflow as a stream: first its events, then its result."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.events import EVENT_BUFFER
from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_config.errors import UsageError
from lorebind_knowledge.plumbing.bridge import run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator

    from lorebind_bindings.workflow.events import RunEvent
    from lorebind_bindings.workflow.events.bus import SinkHealth
    from lorebind_bindings.workflow.results import RunResult


class RunStream:
    """The events of a run while it runs. Iterate over it once, with `for` or `async for`.

    The run starts when the iteration starts, and does not wait for the reader. A reader that falls
    behind by more than `event_buffer` events loses the oldest ones, and a `diagnostic` event says
    how many. After the last event, `result` holds the result. If the run failed, the iteration
    raises its error instead. If you stop reading early, the run is cancelled.
    """

    def __init__(
        self,
        start: Callable[[EventBus], Coroutine[Any, Any, RunResult]],
        thread_id: str | None = None,
        event_buffer: int = EVENT_BUFFER,
    ) -> None:
        """
        Args:
            start: runs the workflow and emits its events, `run_end` last; the bus is closed after.
            thread_id: the id of the thread; None creates a new one.
            event_buffer: maximum number of unread events of the reader and of the sinks.

        Raises:
            UsageError: `event_buffer` is below 1.
        """
        self.thread_id = uuid.uuid4().hex if thread_id is None else thread_id
        self._bus = EventBus(self.thread_id, event_buffer)
        self._start = start
        self._begun = False
        self._ended = False
        """Whether the reader has reached the end of the run, so that nothing is cancelled."""
        self._run: asyncio.Task[RunResult] | None = None

    @property
    def result(self) -> RunResult:
        """The result of the run.

        Raises:
            UsageError: the stream has not been read to its end.
            LorebindError: the run failed.
        """
        if self._run is None or not self._run.done() or self._run.cancelled():
            other = f", or resume thread {self.thread_id!r}" if self._begun else ""
            raise UsageError(f"there is no result; read the stream to its end first{other}")
        return self._run.result()

    @property
    def health(self) -> list[SinkHealth]:
        """The number of events that each sink of the run has written, and its last error."""
        return self._bus.health

    async def __aiter__(self) -> AsyncGenerator[RunEvent, None]:
        self._begin()
        with self._bus.subscribe() as events:
            try:
                await self._launch()
                async for event in events:
                    self._ended = self._ended or event.type == "run_end"
                    yield event
                self._ended = True
            finally:
                await self._settle()
        self._raise()

    def __iter__(self) -> Iterator[RunEvent]:
        self._begin()
        with self._bus.subscribe() as events:
            try:
                run(self._launch())
                for event in events:
                    self._ended = self._ended or event.type == "run_end"
                    yield event
                self._ended = True
            finally:
                run(self._settle())
        self._raise()

    def _raise(self) -> None:
        """Raise the error of the run, if it failed."""
        if self._run is not None:
            self._run.result()

    def _begin(self) -> None:
        if self._begun:
            raise UsageError("a stream can be read only once; start another run to read it again")
        self._begun = True

    async def _launch(self) -> None:
        self._run = asyncio.create_task(self.unread())

    async def unread(self) -> RunResult:
        """Run to the end, and return the result; only the sinks receive the events."""
        try:
            return await self._start(self._bus)
        finally:
            await self._bus.close()

    async def _settle(self) -> None:
        """Wait until the run has ended. Cancel it first if its end was not reached."""
        if self._run is None:
            return
        if not self._ended:
            self._run.cancel()
        await asyncio.wait([self._run])
        if not self._run.cancelled():
            self._run.exception()  # otherwise the event loop logs an error that nobody retrieved
