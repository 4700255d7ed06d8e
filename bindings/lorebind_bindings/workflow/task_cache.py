"""The outputs of tasks that may be used again, in the memory of the process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_bindings.workflow.results import Outcome

_MOST = 1024
"""Outputs that a project remembers at a time."""


class TaskCache:
    """Outcomes by what they are of, each until its time is over."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Outcome]] = {}

    def get(self, key: str) -> Outcome | None:
        until, outcome = self._found.get(key, (0.0, None))
        return outcome if until > time.monotonic() else None

    def put(self, key: str, outcome: Outcome, seconds: float) -> None:
        self._found.pop(key, None)
        self._found[key] = time.monotonic() + seconds, outcome
        while len(self._found) > _MOST:
            del self._found[next(iter(self._found))]
