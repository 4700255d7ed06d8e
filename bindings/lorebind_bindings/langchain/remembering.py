"""Recent search results of an agent, stored outside its state, which is displayed and saved."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lorebind_bindings.injecting import Injection

Key: TypeAlias = tuple[str, str | None, int]

_MOST = 256


@dataclass(frozen=True, slots=True)
class Found:
    """The search results for a question."""

    question: str
    injection: Injection


class PromptHistory:
    """The most recent results, by tenant, id of the user's message, and first passage number.

    Results that were removed are searched for again. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, Found] = OrderedDict()

    def get(self, key: Key) -> Found | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: Key, found: Found) -> None:
        with self._lock:
            self._found[key] = found
            self._found.move_to_end(key)
            if len(self._found) > _MOST:
                self._found.popitem(last=False)
