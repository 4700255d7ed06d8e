"""Data that the parts exchange: spans, chunks with their vectors, and the results of searches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_config.namespace import IndexKey, Namespace

    Vector: TypeAlias = NDArray[np.float32]
    """One embedding, shape (dimension,)."""
    Matrix: TypeAlias = NDArray[np.float32]
    """Embeddings of several texts, shape (texts, dimension)."""

Grade: TypeAlias = Literal["hit", "weak", "miss"]
"""The quality of a search result. `hit`: the passages are likely to answer; `weak`: even the best
candidate has a lower relevance than answers usually have; `miss`: fewer passages than `min_results`
were found. It does not depend on `top_k`."""


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a passage in its document.

    `start` and `end` are offsets in characters of the decoded text, so that
    `text[start:end]` is the passage. Lines count from 1, and both ends are included.
    """

    start: int
    end: int
    line_start: int
    line_end: int
    page: int | None = None
    """The page on which the passage begins, from 1, if the format has pages."""
    page_end: int | None = None
    """The page on which the passage ends, if it is another one."""
    scanned: bool | None = None
    """Whether OCR has recognized the text of any of these pages; it may have errors."""
    locator: str | None = None
    """Other locations for citations: `slide 4`, `cells 2-4`, `sheet Prices, rows 2-40`, and
    the headings above the passage, `Chapter 4 › Ownership`."""
    time_start: float | None = None
    """When the passage begins, in seconds, if the format has times."""
    time_end: float | None = None

    def as_metadata(self) -> dict[str, Any]:
        """Return the fields by name, without those that the document's format does not have."""
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


ORDERS = "recent"
"""The raw score that orders passages where recency counts."""

SPANS = Span.__slots__
"""Positions of a chunk, which change with every edit before it. Stores do not receive them."""
OF_CHUNKS = {*SPANS, "heading"}
"""Metadata that says where a chunk is in its document."""
OF_ALL = {*OF_CHUNKS, "uri", "title", "kb_id"}
"""Metadata that each chunk or document has, mostly with values of its own."""

_NUMBERED = re.compile(r"(sheet .*, row|slide|cell|chapter)s? (\d+)(?:-(\d+))?", re.DOTALL)


def numbered(kind: str, first: int, last: int) -> str:
    """Return the locator of numbered parts, both ends included: `cell 2`, `cells 2-4`."""
    return f"{kind} {first}" if first == last else f"{kind}s {first}-{last}"


def joined_locator(first: str, last: str) -> str:
    """Join the locators of the first and the last part of a passage: `slide 2` and `slide 4`
    become `slides 2-4`."""
    begins, ends = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if begins and ends and begins[1] == ends[1]:
        return numbered(begins[1], int(begins[2]), int(ends[3] or ends[2]))
    return first if first == last or not last else f"{first} to {last}"


@dataclass(frozen=True, slots=True)
class Partition:
    """Storage for the vectors of one index. Spaces never see each other's vectors."""

    index: IndexKey
    """The index that the vectors belong to."""
    index_uid: int
    """A random number of 62 bits. An index that is rebuilt under an old name has a new one."""
    dimension: int

    @property
    def name(self) -> str:
        """16 characters that identify the space in names and ids."""
        return f"{self.index_uid:016x}"

    def __str__(self) -> str:
        """Return the name of the space in messages."""
        owner = self.index.namespace
        place = f"{owner.tenant}/{owner.project}/{owner.scope}/{owner.kb}"
        return f"index {place} #{self.index.number}"


IDS_END = 2**31
"""Ids of terms are below it, so that a signed integer of 32 bits can store each."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """The terms of a text with their weights. The score of two vectors is their dot product.

    A sparse embedder may return terms in any order, terms that occur twice and weights of 0. They
    are sorted and added up before other code sees them. A vector may be empty.
    """

    ids: NDArray[np.int64]
    """Ids of terms, ascending and distinct, from 0 to `IDS_END` - 1."""
    weights: NDArray[np.float32]
    """The positive, finite weight of each term."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Record:
    """A chunk with its vector, to be stored in an index. Its key: (index, uri, id, generation)."""

    id: str
    index: IndexKey
    uri: str
    generation: int
    """The version of its document. Searches find published generations only."""
    text: str
    vector: Vector
    metadata: Mapping[str, Any]
    """JSON values only. `DocumentMatch.metadata` contains them."""
    context: str = ""
    """The title and headings above the text. Searches by words find their words too."""
    language: str = "en"
    """The document's language as an ISO 639-1 code, by which words are stemmed."""
    terms: SparseVector | None = None
    """The terms that a sparse embedder gives to it; None without one."""


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A passage found by a search."""

    id: str
    score: float
    """In [0, 1], higher is better, for every store and strategy. It orders the passages, except
    where `recency` counts, see `ordering`, and in a result that is `by_ranks`. It is the cosine. If
    words count too, the best passage has the cosine of the nearest passage, and the others have a
    proportional score. After a reranker, it is the reranker's score."""
    relevance: float
    """In [0, 1]. `min_score` is compared with it, and `weak_below` with the highest one. It is the
    cosine, or after a reranker the reranker's score, or the raw score that `min_score_on` names."""
    scores: Mapping[str, float]
    """The raw scores behind `score` and `relevance`. `dense` is the cosine."""
    text: str
    metadata: Mapping[str, Any]
    """`kb_id`, `uri`, `title`, the span (`start`, `end`, `line_start`, `line_end`), and more."""

    @property
    def ordering(self) -> float:
        """The figure that orders passages: the score, weighted by `recency` where that counts."""
        return self.scores.get(ORDERS, self.score)


@dataclass(frozen=True, slots=True)
class QueryResult(Sequence["DocumentMatch"]):
    """The result of a query: its matches, best first, and details of the search."""

    matches: list[DocumentMatch]
    strategy: str
    searched: list[str]
    """The ids of the knowledge bases that were searched."""
    skipped: list[str]
    """The ids of the knowledge bases that were skipped, because nothing was ingested into them."""
    seconds: float
    stage: int = 0
    """The number of the stage that found the matches, from 1; 0: the settings themselves."""
    verdict: Grade = "hit"
    shortfall: str = ""
    """Why the result is not a hit, as a sentence."""
    notices: list[str] = field(default_factory=list)
    """Notes for the caller, for example that a filter names a key that no document has."""
    by_ranks: bool = False
    """Whether the passages are ordered by their ranks in several searches, because scores of
    different embedders, rerankers or settings of recency cannot be compared."""

    @overload
    def __getitem__(self, at: int) -> DocumentMatch: ...
    @overload
    def __getitem__(self, at: slice) -> list[DocumentMatch]: ...
    def __getitem__(self, at: int | slice) -> DocumentMatch | list[DocumentMatch]:
        return self.matches[at]

    def __len__(self) -> int:
        return len(self.matches)


@dataclass(frozen=True, slots=True)
class MatchingTerm:
    """A term that a question and a passage have in common."""

    share: float
    """Its share of `scores["terms"]`."""
    related: bool
    """Whether it is a related word, not one of the question's words or a piece of one."""


MatchingTerms: TypeAlias = dict[str, dict[str, MatchingTerm]]
"""By the id of a passage and the name of a term; the most important term comes first."""


@dataclass(frozen=True, slots=True)
class SearchStage:
    """The best passage of a document at a stage of a search."""

    stage: str
    """`filters`, a raw score such as `dense`, `candidates`, `rerank`, `mmr`, `min_score` or
    `top_k`."""
    rank: int | None
    """Its place among the passages of this stage, from 1; None if it is not among them."""
    score: float | None
    of: int
    """The number of passages of this stage."""
    passes: bool
    """Whether the document stays in the search."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SearchPath:
    """How far a document comes in a search."""

    uri: str
    stages: Sequence[SearchStage]
    lost_at: str | None
    """The stage that removes it, or `ingest`; None if the search finds it."""
    explanation: str
    """The same in a sentence."""


@dataclass
class KnowledgeBaseState:
    """The documents and ingests of a knowledge base."""

    documents: dict[str, int]
    """The number of documents by state, in the index that searches read."""
    backlog: int
    """Documents that an ingest has listed or read, and not made searchable yet. An interrupted one
    leaves its backlog."""
    last_good_ingest: float | None
    """The end of the last ingest that reached its end, in seconds since 1970."""


@dataclass
class BatchCounts:
    """The batches of texts of an embedder that ingests hand to workers."""

    embedder: str
    """The name of the embedder."""
    waiting: int = 0
    running: int = 0
    failed: int = 0
    """Those of ingests of this process that failed, since it has started."""
    slots: int = 0
    """The number of batches that workers can embed at the same time."""


@dataclass
class Overview:
    """The state of knowledge bases, batches and background runs at one time."""

    knowledge_bases: dict[Namespace, KnowledgeBaseState] = field(default_factory=dict)
    batches: dict[str, BatchCounts] = field(default_factory=dict)
    """By the key of the embedder, see `key_of`."""
    background_runs: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number of runs by their workflow and their state, `running` or `waiting`."""
