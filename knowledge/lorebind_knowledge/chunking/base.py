"""What a chunker is: a function from a text to the spans of its passages."""

from __future__ import annotations

from typing import Protocol, TypeAlias

Interval: TypeAlias = tuple[int, int]
"""Offsets in characters, the end excluded."""


class Chunker(Protocol):
    """Splits a text. It ends on every input, and all but white space is in some interval."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text could be split differently."""
        ...

    def split(self, text: str, start: int, end: int) -> list[Interval]:
        """Intervals of `text` within [start, end), in order of their starts."""
        ...
