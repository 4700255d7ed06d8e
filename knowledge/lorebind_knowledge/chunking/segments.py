"""What the semantic chunker puts together: sentences, list items, and whole tables and listings."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.base import strip
from lorebind_knowledge.chunking.sections import markdown_blocks, sections
from lorebind_knowledge.chunking.sentences import sentence_starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEADING, PARAGRAPH, ITEM, NOTHING = 1.0, 0.5, 0.25, 0.0
"""How much of a border there is before a segment, from 0 to 1."""

_WHOLE = re.compile(r"[ \t]*(?:`{3}|~{3}|\|)")
_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t])")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text that means something by itself, without white space around it."""

    start: int
    end: int
    border: float
    """What separates it from the segment before."""


def segments(text: str, start: int, end: int, boundaries: Sequence[int]) -> list[Segment]:
    """The segments of a part; all but white space is in one of them, and only in one.

    Args:
        text: the whole document.
        start: where the part begins.
        end: where it ends.
        boundaries: where headings start, in ascending order.
    """
    found: list[Segment] = []
    greatest = NOTHING  # of the borders since the last segment, between which is white space
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
            # A heading is no passage: it stays with the beginning of its text.
            cuts += [(place, border) for place, border in inner if place > body]
        yield from (
            (place, following, border)
            for (place, border), (following, _) in pairwise([*cuts, (section_end, NOTHING)])
        )


def _within(text: str, block: int, end: int) -> Iterator[tuple[int, float]]:
    yield block, PARAGRAPH
    if _WHOLE.match(text, block, end):
        return
    items = ((found.end(), ITEM) for found in _ITEM.finditer(text, block, end))
    sentences = ((place, NOTHING) for place in sentence_starts(text, block, end))
    yield from (cut for cut in heapq.merge(items, sentences) if block < cut[0] < end)
