"""What moves between the parts: documents, chunks, stored records, and what a search returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.scope import IndexKey

    Vector: TypeAlias = NDArray[np.float32]
    """One embedding, shape (dimension,)."""
    Matrix: TypeAlias = NDArray[np.float32]
    """Embeddings of several texts, shape (texts, dimension)."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a passage stands in its document.

    `start` and `end` are offsets in characters of the decoded text, so that
    `text[start:end]` is the passage; lines count from 1, both ends included.
    """

    start: int
    end: int
    line_start: int
    line_end: int

    def as_metadata(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "line_start": self.line_start,
            "line_end": self.line_end,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A chunk with its vector, as a store keeps it. Identity: (index, id, generation)."""

    id: str
    index: IndexKey
    uri: str
    generation: int
    """Which version of its document the record belongs to. Only a published one is found."""
    text: str
    vector: Vector
    metadata: Mapping[str, Any]
    """JSON values only; what `DocumentMatch.metadata` gives back."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records of one index a delete is about; every condition given must hold."""

    index: IndexKey
    uri: str | None = None
    generation: int | None = None
    except_generation: int | None = None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search one index of a store."""

    index: IndexKey
    top_k: int = 5
    min_score: float | None = None
    """Matches below it are left out; None leaves out nothing, and 0 is a threshold like any."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """A metadata filter, see `lorebind_knowledge.filters`."""


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A passage found by a search."""

    id: str
    score: float
    """In [0, 1], higher is better, on every store and strategy."""
    scores: Mapping[str, float]
    """The raw figures behind the score: `dense` is the cosine."""
    text: str
    metadata: Mapping[str, Any]
    """`kb_id`, `uri`, `title`, the span (`start`, `end`, `line_start`, `line_end`), and more."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query found, best first; iterating over it gives its matches."""

    matches: list[DocumentMatch]
    strategy: str
    searched: list[str]
    """The ids of the knowledge bases that were searched."""
    skipped: list[str]
    """The ids of those that were not, because nothing has been ingested into them."""
    seconds: float

    def __iter__(self) -> Iterator[DocumentMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)
