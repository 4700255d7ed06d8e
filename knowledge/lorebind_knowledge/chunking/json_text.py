"""The strategy `json`: splits between records, then members, at the outermost level that fits.

It works on any text of records: JSON on one or several lines, JSON Lines, or other lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.recursive import before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.chunking.recursive import Level

# A string without a closing quotation mark ends with its line, so no text is scanned twice.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[\[\]{},\n]')
_DEPTHS = 8
"""Number of nesting levels to tell apart; below them, all commas are treated alike."""


def _after_outermost(mark: str) -> Level:
    """Return a level that cuts after the marks with the least nesting, outside of strings."""

    def places(text: str, start: int, end: int) -> Iterable[int]:
        depth, least = 0, 0
        found: list[int] = []
        for token in _TOKEN.finditer(text, start, end):
            character = token[0]
            if character in "[{":
                depth += 1
            elif character in "]}":
                depth -= 1
            elif character == mark and token.end() < end:
                if not found or depth < least:
                    found, least = [], depth
                if depth == least:
                    found.append(token.end())
        return found

    return places


def _after(mark: str) -> Level:
    def places(text: str, start: int, end: int) -> Iterable[int]:
        while (found := text.find(mark, start, end)) >= 0:
            start = found + len(mark)
            yield start

    return places


JSON: tuple[Level, ...] = (
    *[_after_outermost("\n")] * _DEPTHS,
    _after("\n"),
    *[_after_outermost(",")] * _DEPTHS,
    _after(","),
    before(" "),
)
