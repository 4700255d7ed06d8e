"""Cut lines at narrow gaps between columns, over which OCR reads as over a space.

If the gap is about as wide as a line is high, OCR finds one line where two columns have one each.
The places of words tell them apart: at a gap, (almost) no line of the page has a word.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.scans.layout import Box, Line

_LEAST_ROWS = 8
"""Rows that have a gap at the same place. By chance, the spaces of several rows are one above the
other."""
_MOST_COVERED = 0.1
"""Share of the rows that may have a word there, such as headings over all columns."""
_MOST_GUTTERS = 4
_left = attrgetter("left")


class Word(NamedTuple):
    """A word of a line, and where it begins and ends, in pixels."""

    left: float
    right: float
    text: str

    @classmethod
    def of(cls, corners: Box, text: str) -> Word:
        across = [x for x, _ in corners]
        return cls(min(across), max(across), text)


def cut_at_gutters(lines: Sequence[Line], words: Sequence[Sequence[Word]]) -> list[Line]:
    """Return the lines, of which those that reach over a gap between columns are cut.

    Args:
        lines: the lines of a page, turned upright.
        words: the words of each line, in order; a line without words stays whole.
    """
    rows = [_Row(line, tuple(some)) for line, some in zip(lines, words, strict=True)]
    before = len(rows)
    for _ in range(_MOST_GUTTERS):
        place = _gutter(rows)
        if place is None:
            break
        rows = [part for row in rows for part in row.cut(place)]
    if len(rows) == before:
        return [*lines]
    # Lines reach further than their words, so that those of two columns can overlap.
    return [row.line._replace(left=row.left, right=row.right) for row in rows]


class _Row(NamedTuple):
    line: Line
    words: tuple[Word, ...]

    @property
    def left(self) -> float:
        return self.words[0].left if self.words else self.line.left

    @property
    def right(self) -> float:
        return self.words[-1].right if self.words else self.line.right

    def gaps(self) -> Iterator[tuple[float, float]]:
        return ((left.right, right.left) for left, right in pairwise(self.words))

    def has_gap(self, place: float) -> bool:
        after = bisect_right(self.words, place, key=_left)
        return 0 < after < len(self.words) and self.words[after - 1].right < place

    def cut(self, place: float) -> list[_Row]:
        """Return the parts left and right of a place; the row itself if it has a word there."""
        if not self.has_gap(place):
            return [self]
        before = tuple(word for word in self.words if word.right < place)
        after = self.words[len(before) :]
        count = sum(len("".join(word.text.split())) for word in before)
        at = _after(self.line.text, count)
        texts = self.line.text[:at].strip(), self.line.text[at:].strip()
        if not all(texts):
            return [self]
        left = self.line._replace(right=before[-1].right, text=texts[0])
        right = self.line._replace(left=after[0].left, text=texts[1])
        return [
            _Row(part._replace(corners=_between(self.line, part)), some)
            for part, some in ((left, before), (right, after))
        ]


def _after(text: str, count: int) -> int:
    """Return the offset after a number of characters that are not spaces."""
    filled = [at for at, character in enumerate(text) if not character.isspace()]
    return filled[count] if count < len(filled) else len(text)


def _between(line: Line, part: Line) -> Box:
    """Return the corners of a part of a line, on the page as it was scanned."""
    if not line.corners:
        return ()
    top_left, top_right, low_right, low_left = line.corners
    width = max(line.right - line.left, 1.0)
    begin, end = (part.left - line.left) / width, (part.right - line.left) / width

    def along(first: Sequence[float], last: Sequence[float], share: float) -> list[float]:
        return [a + (b - a) * share for a, b in zip(first, last, strict=True)]

    return [
        along(top_left, top_right, begin),
        along(top_left, top_right, end),
        along(low_left, low_right, end),
        along(low_left, low_right, begin),
    ]


def _gutter(rows: Sequence[_Row]) -> float | None:
    """Return the middle of a gap over which lines reach; None if there is none."""
    best, most = None, 0
    # To the pixel, because a dense page has thousands of gaps.
    for place in {round((begin + end) / 2) for row in rows for begin, end in row.gaps()}:
        across = [row for row in rows if row.left < place < row.right]
        merged = sum(row.has_gap(place) for row in across)
        left = sum(row.right <= place for row in rows)
        right = sum(row.left >= place for row in rows)
        count = merged + min(left, right)
        covered = len(across) - merged
        if count >= _LEAST_ROWS and covered <= _MOST_COVERED * count and count - covered > most:
            best, most = place, count - covered
    return best
