"""`fixed` and `token`: windows of one size, wherever that cuts the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.base import Chunker, Interval, strip
from lorebind_knowledge.chunking.clusters import first_border, last_border
from lorebind_knowledge.chunking.rulers import Ruler, Unit, make_ruler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class WindowChunker(Chunker):
    """Chunks of `size` units each but the last, of which `overlap` repeat the one before.

    A chunk is smaller where white space around it is left off, or where a character with its
    combining marks would be cut. One that alone is larger than the size is cut all the same; a
    single character (up to four tokens) is not.
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
    """Cut a part into windows, each of which begins after the one before; not stripped."""
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
