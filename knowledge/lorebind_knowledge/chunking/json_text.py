"""`json`: whole records, else whole members, as far out in the structure as they fit.

Works on any text of records: JSON on one line or on many, JSON Lines, lines of anything else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.recursive import before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.chunking.recursive import Level

# A string ends with its line where its quotation mark is missing: nothing is read twice.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[\[\]{},\n]')
_DEPTHS = 8
"""How far in a structure is followed; deeper, one comma is like another."""


def _after_outermost(mark: str) -> Level:
    """Cut after the marks that stand in the fewest brackets, not counting those in strings."""

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
