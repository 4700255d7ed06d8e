"""An in-memory cache of task outcomes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_bindings.workflow.results import Outcome

_MOST = 1024
"""Maximum number of outcomes that a project caches."""


class TaskCache:
    """Outcomes by cache key, each with an expiry time."""

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
