"""The strategy `recursive_text_splitter`: splits at paragraphs, lines, words, then characters.

The algorithm is that of LangChain's `RecursiveCharacterTextSplitter` with its default separators.
The chunks are the same, except that a character is never cut from its combining marks. It works on
offsets instead of strings, so a chunk's location in its document is exact and needs no search
afterwards. The strategies `code` and `json` use the same algorithm with other levels, and so do
those of `sections`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from lorebind_config.namespace import digest
from lorebind_knowledge.chunking.base import Chunker, Interval, strip
from lorebind_knowledge.chunking.rulers import Ruler, Unit, make_ruler
from lorebind_knowledge.chunking.windows import windows

Level: TypeAlias = Callable[[str, int, int], Iterable[int]]
"""Yields the positions, in ascending order, where a part of a text may be cut at one level."""

# A string without a closing quotation mark ends with its line, so no text is scanned twice.
_JSON_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[\[\]{},\n]')
_JSON_DEPTHS = 8
"""Number of nesting levels to tell apart; below them, all commas are treated alike."""


def before(separator: str) -> Level:
    """Return a level that cuts before each occurrence of the separator."""
    return _at(separator, 0)


def _at(separator: str, shift: int) -> Level:
    def places(text: str, start: int, end: int) -> Iterator[int]:
        while (place := text.find(separator, start, end)) >= 0:
            yield place + shift
            start = place + len(separator)

    return places


def before_match(pattern: str) -> Level:
    """Return a level that cuts before each match of the regular expression."""
    compiled = re.compile(pattern)
    return lambda text, start, end: (match.start() for match in compiled.finditer(text, start, end))


def _after_outermost(mark: str) -> Level:
    """Return a level that cuts after the marks with the least nesting, outside of strings."""

    def places(text: str, start: int, end: int) -> Iterable[int]:
        depth, least = 0, 0
        cuts: list[int] = []
        for token in _JSON_TOKEN.finditer(text, start, end):
            character = token[0]
            if character in "[{":
                depth += 1
            elif character in "]}":
                depth -= 1
            elif character == mark and token.end() < end:
                if not cuts or depth < least:
                    cuts, least = [], depth
                if depth == least:
                    cuts.append(token.end())
        return cuts

    return places


WORDS: tuple[Level, ...] = (before("\n"), before(" "))
PARAGRAPHS: tuple[Level, ...] = (before("\n\n"), *WORDS)
JSON: tuple[Level, ...] = (
    *[_after_outermost("\n")] * _JSON_DEPTHS,
    _at("\n", 1),
    *[_after_outermost(",")] * _JSON_DEPTHS,
    _at(",", 1),
    before(" "),
)
"""Between records, then members, at the outermost level that fits.

They cut any text of records: JSON on one or several lines, JSON Lines, or other lines.
"""


@dataclass(frozen=True, eq=False)
class RecursiveChunker(Chunker):
    """A chunker that splits at the coarsest level that fits.

    A chunk has at most `size` units, of which up to `overlap` repeat the end of the previous chunk.
    Neighboring pieces of the coarsest level are joined as long as they fit. A piece that does not
    fit alone is cut at the next level, and after the last level at the size. A chunk is larger than
    `size` only if it is a single character with more tokens than that. Source code is split at
    its language's classes and functions, then statements, then lines.
    """

    size: int
    overlap: int
    """Less than `size`."""
    unit: Unit = "characters"
    levels: Sequence[Level] = PARAGRAPHS
    """Where to cut, from coarse to fine."""
    name: str = "recursive_text_splitter/2"
    """Identifies the levels in the fingerprint."""

    @property
    def fingerprint(self) -> str:
        return f"{self.name} size={self.size} overlap={self.overlap} {self.unit}"

    def for_language(self, language: str) -> Chunker:
        try:
            return code_chunker(language, self.size, self.overlap, self.unit) if language else self
        except ValueError:  # unknown to LangChain; a plugin's loader may name any language
            return self

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        ruler = make_ruler(self.unit, text, start, end)
        return list(self._chunks(ruler, text, start, end, start))

    def _chunks(
        self, ruler: Ruler, text: str, start: int, end: int, head: int
    ) -> Iterator[Interval]:
        """Yield the chunks of a part, which is cut at or before `head` only by the size."""
        chunks: list[Interval] = []
        for chunk in self._split(ruler, text, start, end, self.levels, head):
            first, last = strip(text, *chunk)
            if first == last:
                continue
            if ruler.count(first, last) <= self.size or last - first == 1:
                chunks.append((first, last))
            else:  # counted exactly, it is too long, so it is cut again
                alone = make_ruler(self.unit, text, first, last)
                chunks += self._chunks(alone, text, first, last, max(first, head))
        yield from sorted(chunks)  # a chunk that was cut again may end within the next one

    def _split(
        self,
        ruler: Ruler,
        text: str,
        start: int,
        end: int,
        levels: Sequence[Level],
        head: int,
    ) -> Iterator[Interval]:
        # All pieces would be joined again. Tokens cut at a place count twice, so they may not fit.
        if self.unit == "characters" and end - start <= self.size:
            yield start, end
            return
        places, finer = _best_places(text, start, end, levels, max(start, head))
        if not places:
            yield from windows(ruler, text, start, end, self.size, self.overlap)
            return
        cuts = array("q", [start])
        cuts.extend(places)
        cuts.append(end)
        small = 0  # index of the first piece to join
        for index, piece in enumerate(pairwise(cuts)):
            if ruler.length(*piece) < self.size:
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
            if total + length > self.size and first < index:
                yield cuts[first], start
                while first < index and (total > self.overlap or total + length > self.size):
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


class _CodeChunker(RecursiveChunker):
    """Splits every text by the syntax of the same language."""

    def for_language(self, language: str) -> Chunker:
        return self


@cache
def code_chunker(
    language: str, size: int, overlap: int, unit: Unit = "characters"
) -> RecursiveChunker:
    """Return the recursive chunker with LangChain's separators for a programming language.

    Args:
        language: a member of `langchain_text_splitters.Language`.
        size, overlap, unit: see `RecursiveChunker`.

    Raises:
        ValueError: LangChain has no separators for the language.
    """
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

    separators = RecursiveCharacterTextSplitter.get_separators_for_language(Language(language))
    return _CodeChunker(
        size,
        overlap,
        unit,
        [before_match(separator) for separator in separators if separator],
        f"code/1 {language} {digest(*separators)[:12]}",  # LangChain may change them
    )
