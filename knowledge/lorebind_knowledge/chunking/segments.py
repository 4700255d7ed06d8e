"""Segments, which the semantic chunker joins: sentences, list items, tables and code blocks."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lorebind_knowledge.chunking.base import strip
from lorebind_knowledge.chunking.sections import markdown_blocks, sections
from lorebind_knowledge.text.markdown import is_fence
from lorebind_knowledge.text.splitting import sentence_starts

HEADING, PARAGRAPH, ITEM, NOTHING = 1.0, 0.5, 0.25, 0.0
"""Strengths of the border before a segment, from 0 to 1."""

_ROW = re.compile(r"[ \t]*\|")
_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t])")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text with a meaning of its own, without surrounding white space."""

    start: int
    end: int
    border: float
    """Strength of the border between this segment and the previous one, from 0 to 1."""


def segments(text: str, start: int, end: int, boundaries: Sequence[int]) -> list[Segment]:
    """Split a part into segments. Every character that is not white space lies in exactly one.

    Args:
        text: the whole document.
        start: start of the part.
        end: end of the part.
        boundaries: positions where headings start, in ascending order.
    """
    found: list[Segment] = []
    greatest = NOTHING  # strongest border since the last segment
    for place, following, border in _cuts(text, start, end, boundaries):
        first, last = strip(text, place, following)
        greatest = max(greatest, border)
        if first < last:
            found.append(Segment(first, last, greatest))
            greatest = NOTHING
    return found


def _cuts(
    text: str, start: int, end: int, boundaries: Sequence[int]
) -> Iterator[tuple[int, int, float]]:
    for section, section_end, body in sections(text, start, end, boundaries):
        cuts = [(section, HEADING if body > section else PARAGRAPH)]
        blocks = (place for place in markdown_blocks(text, section, section_end) if place > section)
        for block, block_end in pairwise([section, *blocks, section_end]):
            inner = _within(text, block, block_end)
            # A heading is not a segment of its own: it stays with the beginning of its text.
            cuts += [(place, border) for place, border in inner if place > body]
        yield from (
            (place, following, border)
            for (place, border), (following, _) in pairwise([*cuts, (section_end, NOTHING)])
        )


def _within(text: str, block: int, end: int) -> Iterator[tuple[int, float]]:
    yield block, PARAGRAPH
    if is_fence(text, block, end) or _ROW.match(text, block, end):
        return
    items = ((found.end(), ITEM) for found in _ITEM.finditer(text, block, end))
    sentences = ((place, NOTHING) for place in sentence_starts(text, block, end))
    yield from (cut for cut in heapq.merge(items, sentences) if block < cut[0] < end)
