"""The strategy `recursive_text_splitter`: splits at paragraphs, lines, words, then characters.

The algorithm is that of LangChain's `RecursiveCharacterTextSplitter` with its default separators.
The chunks are the same, except that a character is never cut from its combining marks. It works on
offsets instead of strings, so a chunk's location in its document is exact and needs no search
afterwards. Other strategies use the same algorithm with other levels.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from lorebind_knowledge.chunking.base import Chunker, Interval, strip
from lorebind_knowledge.chunking.rulers import Ruler, Unit, make_ruler
from lorebind_knowledge.chunking.windows import windows

Level: TypeAlias = Callable[[str, int, int], Iterable[int]]
"""Yields the positions, in ascending order, where a part of a text may be cut at one level."""


def before(separator: str) -> Level:
    """Return a level that cuts before each occurrence of the separator."""

    def places(text: str, start: int, end: int) -> Iterator[int]:
        while (found := text.find(separator, start, end)) >= 0:
            yield found
            start = found + len(separator)

    return places


def before_match(pattern: str) -> Level:
    """Return a level that cuts before each match of the regular expression."""
    compiled = re.compile(pattern)
    return lambda text, start, end: (found.start() for found in compiled.finditer(text, start, end))


WORDS: tuple[Level, ...] = (before("\n"), before(" "))
PARAGRAPHS: tuple[Level, ...] = (before("\n\n"), *WORDS)


class RecursiveChunker(Chunker):
    """A chunker that splits at the coarsest level that fits.

    A chunk has at most `size` units, of which up to `overlap` repeat the end of the previous chunk.
    Neighboring pieces of the coarsest level are joined as long as they fit. A piece that does not
    fit alone is cut at the next level, and after the last level at the size. A chunk is larger than
    `size` only if it is a single character with more tokens than that.

    Args:
        size: maximum number of units per chunk.
        overlap: maximum number of units repeated from the previous chunk; less than `size`.
        unit: the unit of `size` and `overlap`.
        levels: where to cut, from coarse to fine.
        name: identifies the levels in the fingerprint.
    """

    def __init__(
        self,
        size: int,
        overlap: int,
        unit: Unit = "characters",
        *,
        levels: Sequence[Level] = PARAGRAPHS,
        name: str = "recursive_text_splitter/2",
    ) -> None:
        self._size = size
        self._overlap = overlap
        self._unit: Unit = unit
        self._levels = levels
        self._name = name

    @property
    def fingerprint(self) -> str:
        return f"{self._name} size={self._size} overlap={self._overlap} {self._unit}"

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        ruler = make_ruler(self._unit, text, start, end)
        return list(self._chunks(ruler, text, start, end, start))

    def _chunks(
        self, ruler: Ruler, text: str, start: int, end: int, head: int
    ) -> Iterator[Interval]:
        """Yield the chunks of a part, which is cut at or before `head` only by the size."""
        found: list[Interval] = []
        for chunk in self._split(ruler, text, start, end, self._levels, head):
            first, last = strip(text, *chunk)
            if first == last:
                continue
            if ruler.count(first, last) <= self._size or last - first == 1:
                found.append((first, last))
            else:  # counted exactly, it is too long, so it is cut again
                alone = make_ruler(self._unit, text, first, last)
                found += self._chunks(alone, text, first, last, max(first, head))
        yield from sorted(found)  # a chunk that was cut again may end within the next one

    def _split(
        self,
        ruler: Ruler,
        text: str,
        start: int,
        end: int,
        levels: Sequence[Level],
        head: int,
    ) -> Iterator[Interval]:
        places, finer = _best_places(text, start, end, levels, max(start, head))
        if not places:
            yield from windows(ruler, text, start, end, self._size, self._overlap)
            return
        cuts = array("q", [start])
        cuts.extend(places)
        cuts.append(end)
        small = 0  # index of the first piece to join
        for index, piece in enumerate(pairwise(cuts)):
            if ruler.length(*piece) < self._size:
                continue
            yield from self._merge(ruler, cuts, small, index)
            small = index + 1
            yield from self._split(ruler, text, *piece, finer, head)
        yield from self._merge(ruler, cuts, small, len(cuts) - 1)

    def _merge(
        self, ruler: Ruler, cuts: Sequence[int], first: int, last: int
    ) -> Iterator[Interval]:
        """Join the pieces between two cuts up to the size.

        Each chunk starts within the tail of the previous one.
        """
        for index in range(first, last):
            start = cuts[index]
            length = ruler.length(start, cuts[index + 1])
            total = ruler.length(cuts[first], start)
            if total + length > self._size and first < index:
                yield cuts[first], start
                while first < index and (total > self._overlap or total + length > self._size):
                    first += 1
                    total = ruler.length(cuts[first], start)
        if first < last:
            yield cuts[first], cuts[last]


def _best_places(
    text: str, start: int, end: int, levels: Sequence[Level], lowest: int
) -> tuple[array[int], Sequence[Level]]:
    """Return the cuts of the first level that has any, and the finer levels."""
    useless = None
    for index, level in enumerate(levels):
        if level is useless:
            continue
        places = array("q", (p for p in level(text, start, end) if lowest < p < end))
        if places:
            return places, levels[index + 1 :]
        useless = level
    return array("q"), ()
