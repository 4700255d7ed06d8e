"""The strategy `semantic`: ends chunks where the subject changes."""

from __future__ import annotations

import heapq
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.chunking.base import Chunker, Interval, strip
from lorebind_knowledge.chunking.changes import breakpoints, distances, lexical_vectors
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.chunking.rulers import Ruler, make_ruler
from lorebind_knowledge.chunking.sections import markdown_blocks, sections
from lorebind_knowledge.text.markdown import is_fence
from lorebind_knowledge.text.splitting import sentence_starts

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.changes import Embed
    from lorebind_knowledge.chunking.semantic_settings import SemanticDeclaration

HEADING, PARAGRAPH, ITEM, NOTHING = 1.0, 0.5, 0.25, 0.0
"""Strengths of the border before a segment, from 0 to 1."""

_ROW = re.compile(r"[ \t]*\|")
_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t])")


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence, list item, table or block of code, without surrounding white space."""

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
    parts: list[Segment] = []
    greatest = NOTHING  # strongest border since the last segment
    for place, following, border in _cuts(text, start, end, boundaries):
        first, last = strip(text, place, following)
        greatest = max(greatest, border)
        if first < last:
            parts.append(Segment(first, last, greatest))
            greatest = NOTHING
    return parts


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
    items = ((item.end(), ITEM) for item in _ITEM.finditer(text, block, end))
    sentences = ((place, NOTHING) for place in sentence_starts(text, block, end))
    yield from (cut for cut in heapq.merge(items, sentences) if block < cut[0] < end)


NO_EMBEDDER = "semantic chunking had no embedder, so it compared words instead of meanings"


def pack(
    ruler: Ruler,
    segments: Sequence[Segment],
    scores: Sequence[float],
    breaks: Collection[int],
    bounds: tuple[int, int],
) -> list[Interval]:
    """Join neighboring segments up to the gaps to break at, within the bounds.

    A chunk continues past a break while it is smaller than the minimum. A chunk that would exceed
    the maximum is cut at the gap with the highest score in its second half. A chunk that is still
    too small is joined with a neighbor if both fit together.

    Args:
        ruler: measures the text of the segments.
        segments: none larger than the maximum.
        scores: one for each gap between two segments.
        breaks: indices into `scores`.
        bounds: the minimum and maximum size of a chunk.
    """
    least, most = bounds
    joined: list[Interval] = []
    for start, end in _runs(ruler, segments, scores, breaks, bounds):
        if joined:
            before, place = joined[-1]
            small = min(ruler.length(before, place), ruler.length(start, end)) < least
            if small and ruler.length(before, end) <= most:
                joined[-1] = before, end
                continue
        joined.append((start, end))
    return joined


def _runs(
    ruler: Ruler,
    segments: Sequence[Segment],
    scores: Sequence[float],
    breaks: Collection[int],
    bounds: tuple[int, int],
) -> Iterator[Interval]:
    least, most = bounds
    first = 0
    while first < len(segments):
        start, last, best = segments[first].start, first, -1
        while last + 1 < len(segments):
            length = ruler.length(start, segments[last].end)
            if last in breaks and length >= least:
                break
            if length >= max(least, most // 2) and (best < 0 or scores[last] > scores[best]):
                best = last
            if ruler.length(start, segments[last + 1].end) > most:
                last = best if best >= 0 else last
                break
            last += 1
        yield start, segments[last].end
        first = last + 1


class SemanticChunker(Chunker):
    """A chunker that joins sentences about one subject.

    Chunks have `min_tokens` to `max_tokens` tokens and do not overlap. A chunk is smaller only if
    it does not fit together with either neighbor. The same text and vectors always give the same
    chunks.

    Args:
        settings: decide where a chunk ends.
        embed: computes vectors for sentences. Without it, or if it raises `EmbedderError` for a
            document, the words of the sentences are compared and `notices` reports it.
        embedder: identifies the embedder of `embed`, for the fingerprint.
    """

    def __init__(
        self, settings: SemanticDeclaration, embed: Embed | None = None, embedder: str = ""
    ) -> None:
        self._settings = settings
        self._embed = embed
        self._embedder = embedder
        self._notices: dict[str, None] = {}
        self._noting = threading.Lock()  # documents are split in several threads
        self._divide = RecursiveChunker(settings.max_tokens, 0, "tokens")

    @property
    def fingerprint(self) -> str:
        measures = self._settings.model_dump(exclude={"breakpoints"})
        named = {"rule": self._settings.breakpoints, **measures}
        settings = " ".join(f"{name}={value}" for name, value in named.items())
        # A plan has no vectors, which must not make documents look changed.
        vectors = self._embedder or ("lexical" if self._embed is None else "embedder")
        return f"semantic/2 {settings} vectors={vectors}"

    @property
    def estimates(self) -> bool:
        return self._embed is None

    @property
    def notices(self) -> Sequence[str]:
        with self._noting:
            return list(self._notices)

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        settings = self._settings
        ruler = make_ruler("tokens", text, start, end)
        parts = list(self._parts(ruler, text, segments(text, start, end, boundaries)))
        if not parts:
            return []
        if ruler.length(parts[0].start, parts[-1].end) <= settings.min_tokens:
            passages = [(parts[0].start, parts[-1].end)]
        else:
            scores = self._scores(text, parts)
            breaks = breakpoints(scores, settings.breakpoints, settings.threshold)
            bounds = settings.min_tokens, settings.max_tokens
            passages = pack(ruler, parts, scores, breaks, bounds)
        return [chunk for passage in passages for chunk in self._fitting(ruler, text, *passage)]

    def _parts(self, ruler: Ruler, text: str, whole: Sequence[Segment]) -> Iterator[Segment]:
        """Yield the segments; those too long for a chunk are divided."""
        for segment in whole:
            parts = self._fitting(ruler, text, segment.start, segment.end)
            for index, (start, end) in enumerate(parts):
                yield replace(
                    segment, start=start, end=end, border=NOTHING if index else segment.border
                )

    def _fitting(self, ruler: Ruler, text: str, start: int, end: int) -> list[Interval]:
        if ruler.count(start, end) <= self._settings.max_tokens:
            return [(start, end)]
        return self._divide.split(text, start, end)

    def _scores(self, text: str, parts: Sequence[Segment]) -> list[float]:
        weight = self._settings.structural_weight
        changes = self._changes([text[part.start : part.end] for part in parts])
        return [
            (1 - weight) * change + weight * part.border
            for change, part in zip(changes, parts[1:], strict=True)
        ]

    def _changes(self, texts: Sequence[str]) -> list[float]:
        if self._embed is None:
            self._note(NO_EMBEDDER)
        else:
            try:
                return distances(texts, self._embed, self._settings.window)
            except EmbedderError as error:
                self._note(f"semantic chunking compared words instead of meanings: {error}")
        return distances(texts, lexical_vectors, self._settings.window)

    def _note(self, notice: str) -> None:
        with self._noting:
            self._notices[notice] = None
