"""Marks in the text of a document, such as headings and pages, and edits that move them."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple


class Heading(NamedTuple):
    """A heading: its start, its level (1 is the top), and its title."""

    start: int
    level: int
    title: str


class Table(NamedTuple):
    """A table with a header, whose rows are lines: its start, where its rows start, its end."""

    start: int
    """Start of the header, and of the caption above it, if any."""
    rows: int
    end: int

    def moved(self, shift: int) -> Table:
        """Return the table in a text in which it begins `shift` characters later."""
        return Table(self.start + shift, self.rows + shift, self.end + shift)


class Record(NamedTuple):
    """The start of a part with metadata of its own, such as a row; it ends where the next starts.

    A passage never contains parts of two records.
    """

    start: int
    metadata: Mapping[str, Any]


class Cue(NamedTuple):
    """A part of a transcript's text, with the time when it is spoken, in seconds."""

    start: int
    end: int
    time_start: float
    time_end: float


class Scan(NamedTuple):
    """A part of the text that OCR has recognized."""

    start: int
    end: int


class Anchor(NamedTuple):
    """The start of a part that citations name: `page 4`, `slide 4`, `sheet Prices, rows 2-40`."""

    start: int
    kind: Literal["page", "slide", "cell", "chapter", "sheet"]
    name: int | str
    """Its number, or its title as citations show it; for a page always its number.

    For a sheet, the first line of the text is its name, and each further line is a row.
    """

    @property
    def stands_alone(self) -> bool:
        """Whether no passage continues into the next part: not so for pages and cells."""
        return self.kind in ("slide", "sheet", "chapter")


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
