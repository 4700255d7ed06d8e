"""Find words of a document on the picture of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_knowledge.loaders.scans.words import MOST_CHARACTERS, PageBox

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.chunks import StoredChunk

_NOT_COMPARED = re.compile("[\\s|\0\2\ufffd\ufffe\ud800-\udfff\U00010000-\U0010ffff]")
"""Characters that loaders add to the text of a page or change in it."""
_PARTS = ("\n\n", "\n", " | ")
"""Separators of parts that can have another order on the page: paragraphs, lines, cells."""
_UNIQUE = 30
"""Number of characters that are hardly a part of other words by chance."""
_MOST_EFFORT = 50_000_000
"""Characters of a page to compare in all, which takes about a second; then no more are marked."""
_EFFORT_OF_CALL = 50
_GAP = 0.03
"""Widest gap between words in one box, as a share of the page's width."""


def marked_boxes(
    words: Sequence[PageBox], chunks: Iterable[StoredChunk], page: int, start: int, end: int | None
) -> list[PageBox]:
    """Return boxes around the words of a page that belong to a part of the document's text.

    Args:
        words: all words of the page, in the order of its text.
        chunks: the chunks of the document.
        page: the number of the page, from 1.
        start, end: the part, as offsets in characters; None for the end of the text.
    """
    last = math.inf if end is None else end
    text, places, marked, length = _PageText(words), dict[int, int](), set[int](), 0
    for chunk in chunks:
        at, first = chunk.metadata["start"], chunk.metadata.get("page", 0)
        if not first <= page <= chunk.metadata.get("page_end", first):
            continue
        text.after = places.get(at, text.after)  # chunks overlap
        places = dict(text.find(chunk.text, at))
        marked.update(text.words[places[offset]] for offset in places if start <= offset < last)
        length += len(chunk.text)
        if length > MOST_CHARACTERS:
            break
    return _joined(words, marked)


class _PageText:
    """The text of a page, without what loaders change in it."""

    def __init__(self, words: Sequence[PageBox]) -> None:
        texts = [_NOT_COMPARED.sub("", word.text) for word in words]
        self._text = "".join(texts)
        self.words = [number for number, text in enumerate(texts) for _ in text]
        """The number of the word of each character."""
        self.after = 0
        """Where the next part is expected: after the last, as parts are in the order of the page.

        It tells apart the same words at several places.
        """
        self._effort = _MOST_EFFORT

    def find(
        self, text: str, start: int, separators: Sequence[str] = _PARTS
    ) -> Iterator[tuple[int, int]]:
        """Yield the characters of a text that are on the page, each with its place on the page.

        Args:
            text: a part of the document.
            start: its offset; the characters are yielded as their offsets.
            separators: what separates the parts to look for if the whole text is not on the page.
        """
        offsets = [at for at, letter in enumerate(text) if not _NOT_COMPARED.match(letter)]
        letters = "".join(text[at] for at in offsets)
        if not letters:
            return
        at = self._place(letters)
        if at is not None:
            self.after = at + len(letters)
            yield from ((start + offset, at + number) for number, offset in enumerate(offsets))
        elif separators:
            separator, *others = separators
            for part in text.split(separator):
                yield from self.find(part, start, others)
                start += len(part) + len(separator)

    def _place(self, letters: str) -> int | None:
        """Return where a part is on the page: the next place after the last part, or the first."""
        size = len(self._text)
        for start, end in ((self.after, size), (0, min(self.after + len(letters) - 1, size))):
            while self._effort > 0:
                at = self._text.find(letters, start, end)
                self._effort -= _EFFORT_OF_CALL + (end if at < 0 else at) - start
                if at < 0:
                    break
                if self._are_words(at, at + len(letters)):
                    return at
                start = at + 1
        return None

    def _are_words(self, start: int, end: int) -> bool:
        """Return whether a part consists of whole words, or is too long to be something else."""
        words = self.words
        begins = start == 0 or words[start - 1] != words[start]
        ends = end == len(words) or words[end - 1] != words[end]
        return (begins and ends) or end - start >= _UNIQUE


def _joined(words: Sequence[PageBox], marked: Iterable[int]) -> list[PageBox]:
    """Return the marked words, with those that follow one another on a line in one box."""
    boxes: list[PageBox] = []
    before = -2
    for number in sorted(marked):
        word = words[number]
        if before == number - 1 and _continues(boxes[-1], word):
            last = boxes.pop()
            word = replace(
                last,
                top=min(last.top, word.top),
                right=max(last.right, word.right),
                bottom=max(last.bottom, word.bottom),
                text=f"{last.text} {word.text}",
            )
        boxes.append(word)
        before = number
    return boxes


def _continues(box: PageBox, word: PageBox) -> bool:
    overlap = min(box.bottom, word.bottom) - max(box.top, word.top)
    is_on_line = 2 * overlap > min(box.bottom - box.top, word.bottom - word.top)
    return is_on_line and box.left <= word.left <= box.right + _GAP
