"""What moves between the parts: spans, chunks with their vectors, and the results of searches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.namespace import IndexKey

    Vector: TypeAlias = NDArray[np.float32]
    """One embedding, shape (dimension,)."""
    Matrix: TypeAlias = NDArray[np.float32]
    """Embeddings of several texts, shape (texts, dimension)."""

Grade: TypeAlias = Literal["hit", "weak", "miss"]
"""What a search found: passages that are likely to answer; passages of which even the best is
further from the question than answers usually are; fewer passages than `min_results`."""


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
    locator: str | None = None
    """What citations say of other parts: `slide 4`, `sheet Prices, rows 2-40`, `chapter "One"`."""
    time_start: float | None = None
    """When the passage begins to be said, in seconds, where the format has times."""
    time_end: float | None = None

    def as_metadata(self) -> dict[str, Any]:
        """The fields by name, without those that the document's format does not have."""
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


_ROWS = re.compile(r"(sheet .*), rows? (\d+)(?:-(\d+))?", re.DOTALL)


def with_rows(sheet: str, first: int, last: int) -> str:
    """The locator of rows, both ends included: `sheet Prices, rows 2-40`."""
    return f"{sheet}, row {first}" if first == last else f"{sheet}, rows {first}-{last}"


def joined_locator(first: str, last: str) -> str:
    """Of a passage from one locator to another: where it begins, with all rows of that sheet."""
    begins, ends = _ROWS.fullmatch(first), _ROWS.fullmatch(last)
    if not begins or not ends or begins[1] != ends[1]:
        return first
    return with_rows(begins[1], int(begins[2]), int(ends[3] or ends[2]))


@dataclass(frozen=True, slots=True)
class Space:
    """Room for the vectors of one index. Spaces never see each other's vectors."""

    index: IndexKey
    """Whose vectors they are."""
    birth: int
    """A random number of 62 bits. An index that is made anew under an old name has another."""
    dimension: int

    @property
    def name(self) -> str:
        """16 characters that stand for this space in names and ids."""
        return f"{self.birth:016x}"

    def __str__(self) -> str:
        """How messages call it."""
        owner = self.index.namespace
        place = f"{owner.tenant}/{owner.project}/{owner.scope}/{owner.kb}"
        return f"index {place} #{self.index.number}"


@dataclass(frozen=True, slots=True)
class Record:
    """A chunk with its vector, on its way into an index. Identity: (index, uri, id, generation)."""

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
    language: str = "en"
    """That of its document, by its code in ISO 639-1: its words are stemmed by it."""


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A passage found by a search."""

    id: str
    score: float
    """In [0, 1], higher is better, on every store and strategy: the cosine. Where words count too,
    the best passage has the cosine of the nearest one, and the others have their share of that.
    After a reranker, its figure."""
    scores: Mapping[str, float]
    """The raw figures behind the score: `dense` is the cosine, which `min_score` is about."""
    text: str
    metadata: Mapping[str, Any]
    """`kb_id`, `uri`, `title`, the span (`start`, `end`, `line_start`, `line_end`), and more."""


@dataclass(frozen=True, slots=True)
class QueryResult(Sequence["DocumentMatch"]):
    """What a query found: its matches, best first, and an account of the search."""

    matches: list[DocumentMatch]
    strategy: str
    searched: list[str]
    """The ids of the knowledge bases that were searched."""
    skipped: list[str]
    """The ids of those that were not, because nothing has been ingested into them."""
    seconds: float
    stage: int = 0
    """Which of the settings' `stages` gave it, from 1; 0 is the settings themselves."""
    verdict: Grade = "hit"
    shortfall: str = ""
    """Why it is no hit, in a sentence."""
    notices: list[str] = field(default_factory=list)
    """What the caller should know: a filter names a key that no document has, for example."""

    @overload
    def __getitem__(self, at: int) -> DocumentMatch: ...
    @overload
    def __getitem__(self, at: slice) -> list[DocumentMatch]: ...
    def __getitem__(self, at: int | slice) -> DocumentMatch | list[DocumentMatch]:
        return self.matches[at]

    def __len__(self) -> int:
        return len(self.matches)
