"""Edits of a text: where each of its characters is afterwards."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class TextEdit:
    """A text with parts replaced, and the new offsets of its characters."""

    def __init__(self, text: str, edits: Iterable[tuple[int, int, str]]) -> None:
        """`edits` are start, end and replacement of each part, in order, without overlaps."""
        self.starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = []  # change of the offsets after each edit
        edited = io.StringIO()
        position = shift = 0
        for start, end, replacement in edits:
            edited.write(text[position:start])
            edited.write(replacement)
            shift += len(replacement) - (end - start)
            self.starts.append(start)
            self._ends.append(end)
            self._shifts.append(shift)
            position = end
        edited.write(text[position:])
        self.text = edited.getvalue()

    def moved(self, offset: int) -> int:
        """Return the new offset; of a removed character, that of the end of its edit."""
        before = bisect_left(self.starts, offset) - 1
        return offset if before < 0 else max(offset, self._ends[before]) + self._shifts[before]

    def keeps(self, offset: int) -> bool:
        """Return whether a character stays, or is the first one of an edit."""
        before = bisect_left(self.starts, offset) - 1
        return before < 0 or offset >= self._ends[before]


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with all texts in it changed, also the keys of mappings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): change_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        changed = (change_texts(inner, change) for inner in value)
        return list(changed) if isinstance(value, list) else tuple(changed)
    return value
