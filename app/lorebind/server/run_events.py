"""The events of one run, for several readers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from lorebind.plain_data import as_data
from lorebind_knowledge.events import HOOKS, Event, Extension

_KEPT = 1024
"""Number of events that are stored for late and slow readers."""


class RunEvents(Extension):
    """The latest events of a run, each with a larger number than the one before.

    Numbers are times in microseconds, so they keep increasing if another server resumes the run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._events: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=_KEPT)
        self.last = 0
        """The number of the last event."""
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        return self.last > 0

    async def first(self) -> None:
        """Wait for the first event."""
        while not self._events and not self._ended:
            await self._changed.wait()

    async def after(self, number: int) -> AsyncIterator[tuple[int, str, dict[str, Any]]]:
        """Yield the events after a number until the end, each as number, hook and data."""
        while True:
            changed = self._changed  # read first: a later event replaces it
            for event in list(self._events):
                if event[0] > number:
                    number = event[0]
                    yield event
            if self._ended and (not self._events or self._events[-1][0] <= number):
                return
            if self._changed is changed:
                await changed.wait()

    async def end(self) -> None:
        """Mark the end of the events."""
        self._ended = True
        self._wake()

    def _tell(self, hook: str, event: Event) -> None:
        if event.run_id != self._run_id:
            return
        self.last = max(self.last + 1, time.time_ns() // 1000)
        self._events.append((self.last, hook, as_data(dict(event.data))))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _telling(hook: str) -> Callable[[RunEvents, Event], None]:
    def tell(self: RunEvents, event: Event) -> None:
        self._tell(hook, event)

    tell.__doc__ = f"Keep a `{hook}`."
    return tell


for _hook in HOOKS:
    setattr(RunEvents, _hook, _telling(_hook))
