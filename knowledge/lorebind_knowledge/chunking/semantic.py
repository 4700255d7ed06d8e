"""The strategy `semantic`: ends chunks where the subject changes."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.chunking.base import Chunker, Interval
from lorebind_knowledge.chunking.breakpoints import Rule, breakpoints
from lorebind_knowledge.chunking.distances import distances, lexical_vectors
from lorebind_knowledge.chunking.packing import pack
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.chunking.rulers import Ruler, make_ruler
from lorebind_knowledge.chunking.segments import NOTHING, Segment, segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_knowledge.chunking.distances import Embed

NO_EMBEDDER = "semantic chunking had no embedder, so it compared words instead of meanings"


@dataclass(frozen=True, slots=True)
class SemanticSettings:
    """Settings that decide where the semantic chunker ends a chunk."""

    rule: Rule = "percentile"
    threshold: float = 90.0
    """In the unit of the rule; see `breakpoints`."""
    structural_weight: float = 0.2
    """Weight of borders such as headings against changes of the subject, from 0 to 1."""
    window: int = 3
    """Maximum number of segments to compare on each side of a gap."""
    min_tokens: int = 32
    max_tokens: int = 256
    """Greater than `min_tokens`."""


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
        self, settings: SemanticSettings, embed: Embed | None = None, embedder: str = ""
    ) -> None:
        self._settings = settings
        self._embed = embed
        self._embedder = embedder
        self._notices: dict[str, None] = {}
        self._noting = threading.Lock()
        self._divide = RecursiveChunker(settings.max_tokens, 0, "tokens")

    @property
    def fingerprint(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in asdict(self._settings).items())
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
            breaks = breakpoints(scores, settings.rule, settings.threshold)
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
