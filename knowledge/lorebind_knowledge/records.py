"""What moves between the parts: documents, chunks, stored records, and what a search returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.namespace import IndexKey

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
    page: int | None = None
    """The page that the passage begins on, from 1, where the format has pages."""
    time_start: float | None = None
    """When the passage begins to be said, in seconds, where the format has times."""
    time_end: float | None = None

    def as_metadata(self) -> dict[str, Any]:
        """The fields by name, without those that the document's format does not have."""
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
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
    context: str = ""
    """What the text stands under, its title and headings: its words are searched too."""

    @property
    def searched(self) -> str:
        """The words that a lexical search looks through."""
        return f"{self.context}\n{self.text}"


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
    ids: Collection[str] | None = None
    """Only among these records; None means all. Their figures are the same either way."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredRecord:
    """A published record as a store gives it back."""

    id: str
    uri: str
    text: str
    metadata: Mapping[str, Any]
    vector: Vector
    """Of length 1, or of length 0 if it was stored so."""


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
    generation: int = field(default=0, compare=False, repr=False)
    """Which version of its document it was found in, so that answers of several searches can be
    put together without mixing versions."""


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
    stage: int = 0
    """Which of the settings' `stages` gave it, from 1; 0 is the settings themselves."""

    def __iter__(self) -> Iterator[DocumentMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)
