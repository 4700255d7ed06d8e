"""What happens in one run, for those who watch it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from lorebind.plain_data import as_data
from lorebind_knowledge.events import Event, Extension

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_KEPT = 1024
"""How many events are kept for those who come later, or read slowly."""

_HOOKS = [
    name for name, value in vars(Extension).items() if callable(value) and not name.startswith("_")
]


class RunEvents(Extension):
    """The last events of a run; each has a number that is larger than the one before.

    Numbers are times in microseconds, so that they grow on when another server goes on with a run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._events: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=_KEPT)
        self.last = 0
        """The number of the last event."""
        self._ended = False
        self._changed = asyncio.Event()

    async def first(self) -> None:
        """Wait for the first event."""
        while not self._events and not self._ended:
            await self._changed.wait()

    async def after(self, number: int) -> AsyncIterator[tuple[int, str, dict[str, Any]]]:
        """The events after a number, each as its number, its hook and its data, until the end."""
        while True:
            changed = self._changed
            for event in list(self._events):
                if event[0] > number:
                    number = event[0]
                    yield event
            if self._ended and (not self._events or self._events[-1][0] <= number):
                return
            if self._changed is changed:
                await changed.wait()

    def end(self) -> None:
        """Nothing more happens."""
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


for _hook in _HOOKS:
    setattr(RunEvents, _hook, _telling(_hook))
