"""`recursive_text_splitter`: paragraphs, else lines, else words, else characters.

The algorithm is that of LangChain's `RecursiveCharacterTextSplitter` with its default separators,
and gives the same texts; it works on offsets instead of strings, so a chunk's place in its document
is known by construction rather than searched for afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEPARATORS = ("\n\n", "\n", " ", "")


class RecursiveChunker:
    """Chunks of at most `size` characters, of which up to `overlap` repeat the one before."""

    def __init__(self, size: int, overlap: int) -> None:
        self._size = size
        self._overlap = overlap

    @property
    def fingerprint(self) -> str:
        return f"recursive_text_splitter/1 size={self._size} overlap={self._overlap} characters"

    def split(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        stripped = (_strip(text, *chunk) for chunk in self._split(text, start, end, SEPARATORS))
        return [(first, last) for first, last in stripped if first < last]

    def _split(
        self, text: str, start: int, end: int, separators: Sequence[str]
    ) -> Iterator[tuple[int, int]]:
        position = next(
            index
            for index, separator in enumerate(separators)
            if text.find(separator, start, end) >= 0
        )
        if not separators[position]:
            yield from self._windows(start, end)
            return
        finer = separators[position + 1 :]
        small: list[tuple[int, int]] = []
        for piece in _pieces(text, start, end, separators[position]):
            if piece[1] - piece[0] < self._size:
                small.append(piece)
                continue
            yield from self._merge(small)
            small = []
            yield from self._split(text, *piece, finer)
        yield from self._merge(small)

    def _windows(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Text without any separator, cut wherever the size says."""
        while start + self._size < end:
            yield start, start + self._size
            start += self._size - self._overlap
        yield start, end

    def _merge(self, pieces: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Neighbouring pieces joined up to the size; each chunk begins in the last one's tail."""
        first = 0
        for index, (start, end) in enumerate(pieces):
            length = end - start
            total = start - pieces[first][0]
            if total + length > self._size and first < index:
                yield pieces[first][0], start
                while first < index and (total > self._overlap or total + length > self._size):
                    first += 1
                    total = start - pieces[first][0]
        if pieces:
            yield pieces[first][0], pieces[-1][1]


def _pieces(text: str, start: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """The text cut before every separator, which stays with what follows it."""
    piece_start = start
    while (found := text.find(separator, start, end)) >= 0:
        if found > piece_start:
            yield piece_start, found
        piece_start = found
        start = found + len(separator)
    if piece_start < end:
        yield piece_start, end


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
