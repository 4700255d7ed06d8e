"""The strategies `fixed` and `token`: windows of a fixed size, regardless of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lorebind_knowledge.chunking.base import Chunker, Interval, strip
from lorebind_knowledge.chunking.clusters import first_border, last_border
from lorebind_knowledge.chunking.rulers import Ruler, Unit, make_ruler


class WindowChunker(Chunker):
    """A chunker that cuts windows of a fixed size.

    Each chunk has `size` units, except the last; `overlap` of them repeat the previous chunk. A
    chunk is smaller if it is stripped of white space, or if a cut would separate a character from
    its combining marks. A character whose marks alone exceed the size is cut, but a single code
    point (up to four tokens) never is.
    """

    def __init__(self, size: int, overlap: int, unit: Unit = "characters") -> None:
        self._size = size
        self._overlap = overlap
        self._unit: Unit = unit

    @property
    def fingerprint(self) -> str:
        return f"fixed/1 size={self._size} overlap={self._overlap} {self._unit}"

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        ruler = make_ruler(self._unit, text, start, end)
        cut = windows(ruler, text, start, end, self._size, self._overlap)
        stripped = (strip(text, *window) for window in cut)
        return [(first, last) for first, last in stripped if first < last]


def windows(
    ruler: Ruler, text: str, start: int, end: int, size: int, overlap: int
) -> Iterator[Interval]:
    """Cut a part into windows with ascending starts; they are not stripped of white space."""
    while True:
        cut = _window_end(ruler, text, start, end, size)
        yield start, cut
        if cut >= end:
            return
        repeated = max(start + 1, ruler.reach_back(start, cut, overlap))
        start = first_border(text, repeated, cut)


def _window_end(ruler: Ruler, text: str, start: int, end: int, size: int) -> int:
    amount = size
    while True:
        cut = ruler.reach(start, end, amount)
        if cut < end:
            cut = last_border(text, cut, start)
        excess = ruler.count(start, cut) - size
        if excess <= 0:
            return cut
        amount -= excess
        if amount <= 0:
            return start + 1
