"""The strategies `markdown` and `html`: split by section, and within a section by block.

A chunk never spans two sections, so it always belongs to the headings that it is cited with. A
heading stays with the beginning of its text. Headings without text of their own join the section
that follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.recursive import PARAGRAPHS, WORDS, RecursiveChunker, before
from lorebind_knowledge.chunking.rulers import make_ruler
from lorebind_knowledge.text.markdown import LINE, TABLE_DASHES, outside_fences
from lorebind_knowledge.text.splitting import sentence_starts

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Interval
    from lorebind_knowledge.chunking.recursive import Level

_HEADING_END = re.compile(r"[^\n]*(?:\n {0,3}(?:=+|-+)[ \t\r]*(?=\n|\Z))?\s*")


def markdown_blocks(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the starts of blocks that should not be split: paragraphs, fenced code, tables."""
    for first, last in outside_fences(text, start, end):
        yield from _blocks_between(text, first, last)
        if last < end:
            yield last


def _blocks_between(text: str, start: int, end: int) -> Iterator[int]:
    in_table, apart, block = False, True, start
    above = -1  # start of the previous line if it may be a table's header, else -1
    for line in LINE.finditer(text, start, end):
        content = line[0].rstrip()
        is_row = "|" in content
        if not content:
            apart, in_table, above = True, False, -1
        elif apart or (in_table and not is_row):
            block = line.start()
            yield block
            apart, in_table, above = False, False, block if is_row else -1
        elif above >= 0 and is_row and TABLE_DASHES.match(content):
            if above > block:
                yield above
            in_table, above = True, -1
        else:
            above = line.start() if is_row and not in_table else -1


_PROSE: tuple[Level, ...] = (WORDS[0], sentence_starts, WORDS[1])
MARKDOWN: tuple[Level, ...] = (markdown_blocks, PARAGRAPHS[0], *_PROSE)
"""Blocks, then a long block's paragraphs, then lines, sentences, words."""
HTML: tuple[Level, ...] = (before("\n\n"), *_PROSE)
"""Paragraphs, then lines (cells, items), sentences, words of a page's extracted text."""


class SectionChunker(RecursiveChunker):
    """The recursive chunker, applied to each section; overlaps stay within a section."""

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        ruler = make_ruler(self.unit, text, start, end)
        chunks: list[Interval] = []
        for first, last, body in sections(text, start, end, boundaries):
            # A heading too long to stay with its text is cut like other text.
            head = body if ruler.length(first, body) * 2 <= self.size else first
            chunks += self._chunks(ruler, text, first, last, head)
        return chunks


def sections(
    text: str, start: int, end: int, boundaries: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield the start and end of each section, and the start of the text below its headings."""
    headings = [place for place in boundaries if start <= place < end]
    preamble = headings[0] if headings else end
    first = start
    if text[start:preamble].strip():
        yield start, preamble, start
        first = preamble
    for heading, last in pairwise([*headings, end]):
        above = _HEADING_END.match(text, heading, last)
        body = above.end() if above else last
        if body < last:
            yield first, last, body
            first = last
    if first < end:
        yield first, end, first
