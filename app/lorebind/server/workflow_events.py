"""The events of workflow runs in the background: numbered here, stored, and read by anyone."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING

from lorebind.server.failure_log import OutageLog
from lorebind.server.state.run_events import (
    MOST_CHARACTERS,
    MOST_EVENTS,
    NewEvents,
    StoredEvent,
)
from lorebind_config.errors import StoreError
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from lorebind.server.state.run_events import StoredEvents
    from lorebind.server.state.runs import RequestedRun
    from lorebind_bindings.workflow.events import RunEvent

_PAUSE_SECONDS = 0.05
"""Seconds between two transactions, in which more events gather."""
_OUTAGE_SECONDS = 1.0
"""Seconds between two attempts while the state cannot be reached."""
_LAST_SECONDS = 5.0
"""Seconds that the end of a run waits until its events are stored."""


class EventWriter:
    """Stores the events of all runs of this server, those of many runs in one transaction."""

    def __init__(self, stored: StoredEvents, owner: str) -> None:
        """
        Args:
            stored: where to store them.
            owner: the id of this server, see `RequestedRuns`.
        """
        self._stored, self._owner = stored, owner
        self._unwritten: set[WorkflowEvents] = set()
        self._writing: asyncio.Task[None] | None = None
        self._outages = OutageLog("events cannot be stored", "events can be stored again")

    async def sizes(self, run: RequestedRun) -> list[tuple[int, int]]:
        return await call(self._stored.sizes, run)

    def write(self, events: WorkflowEvents) -> None:
        """Store the new events of a run soon."""
        self._unwritten.add(events)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._unwritten:
            batch, self._unwritten = self._unwritten, set()
            new = [events.take() for events in batch]
            try:
                await call(self._stored.append, self._owner, new)
                self._outages.worked()
            except StoreError as error:
                self._outages.failed(error)
                for events, item in zip(batch, new, strict=True):
                    events.put_back(item)
                self._unwritten |= batch
                await asyncio.sleep(_OUTAGE_SECONDS)
                continue
            for events in batch:
                events.wake()
            await asyncio.sleep(_PAUSE_SECONDS)


class WorkflowEvents:
    """The events of a run that is carried out here. Numbers continue after a takeover."""

    def __init__(self, run: RequestedRun, writer: EventWriter) -> None:
        self._run, self._writer = run, writer
        self._base = 0
        """The number of the last event of the servers before."""
        self._unwritten: deque[StoredEvent] = deque()
        self._is_written = asyncio.Event()
        self._sizes: deque[tuple[int, int]] = deque()
        self._characters = 0
        self.has_begun = False
        self._first = asyncio.Event()
        """Set by the first event, or by the end."""
        self._changed = asyncio.Event()

    async def continue_numbers(self) -> None:
        """Number the events after those that another server has stored."""
        self._sizes.extend(await self._writer.sizes(self._run))
        self._characters = sum(size for _, size in self._sizes)
        self._base = self._sizes[-1][0] if self._sizes else 0

    def add(self, event: RunEvent) -> None:
        number = self._base + event.seq
        text = json.dumps(event.as_json() | {"seq": number})
        self._sizes.append((number, len(text)))
        self._characters += len(text)
        while len(self._sizes) > 1 and (
            len(self._sizes) > MOST_EVENTS or self._characters > MOST_CHARACTERS
        ):
            self._characters -= self._sizes.popleft()[1]
        while self._unwritten and self._unwritten[0].number < self._sizes[0][0]:
            self._unwritten.popleft()  # the state could not be reached for long
        self._unwritten.append(StoredEvent(number, event.type, text))
        self._is_written.clear()
        self.has_begun = True
        self._first.set()
        self._writer.write(self)

    def take(self) -> NewEvents:
        """Return the events to store now."""
        events, self._unwritten = self._unwritten, deque()
        return NewEvents(self._run, events, self._sizes[0][0])

    def put_back(self, new: NewEvents) -> None:
        """Store these events later, before those that came since."""
        self._unwritten.extendleft(reversed(new.events))

    @property
    def changed(self) -> asyncio.Event:
        """Set when more events are stored, or the run has ended. Read it before the events."""
        return self._changed

    def wake(self) -> None:
        if not self._unwritten:
            self._is_written.set()
        self._changed.set()
        self._changed = asyncio.Event()

    async def first(self) -> None:
        await self._first.wait()

    async def stored(self) -> None:
        """Wait until all events are stored, or for a while if the state cannot be reached."""
        if self.has_begun:
            waiting = asyncio.create_task(self._is_written.wait())
            try:
                await asyncio.wait({waiting}, timeout=_LAST_SECONDS)
            finally:
                waiting.cancel()

    async def end(self) -> None:
        self._first.set()
        self.wake()
