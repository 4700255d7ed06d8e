"""The shapes of answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from lorebind_knowledge.documents.listing import DocumentInfo
from lorebind_knowledge.ingest.report import IngestReport

T = TypeVar("T")


class PageOf(BaseModel, Generic[T]):
    """Some items of a list; `next` and `previous` are cursors of the pages beside it."""

    items: list[T]
    next: str | None
    previous: str | None


class KnowledgeBase(BaseModel):
    """A knowledge base as it is declared, and where."""

    id: str
    origin: Literal["yaml", "api"]
    declared_at: str
    """A file with line and column; or, of one that was made over the API, a time."""
    knowledge_base: dict[str, Any]
    """What its YAML says."""
    workflow: str | None = None
    """The workflow that declares it."""
    description: str = ""
    vector_db: str = ""
    filled_by_others: bool = False
    with_defaults: dict[str, Any] = {}
    """What its YAML says, with every default."""


class Run(BaseModel):
    """An ingest that was asked for."""

    run_id: str
    kb_id: str
    status: str
    """`running`, `interrupted`, or as the report says."""
    request: dict[str, Any]
    requested_at: float
    """Seconds since 1970."""
    finished_at: float | None
    report: IngestReport | None
    error: dict[str, Any] | None
    """A problem document."""


class Chunk(BaseModel):
    """A chunk of a document."""

    id: str
    text: str
    metadata: dict[str, Any]


class Match(BaseModel):
    """A passage, see `DocumentMatch`."""

    id: str
    score: float
    scores: dict[str, float]
    text: str
    metadata: dict[str, Any]


class Found(BaseModel):
    """What a search found, see `QueryResult`."""

    matches: list[Match]
    strategy: str
    searched: list[str]
    skipped: list[str]
    seconds: float
    stage: int
    verdict: Literal["hit", "weak", "miss"]
    shortfall: str
    notices: list[str]


class Addition(BaseModel):
    """What became of one of several documents."""

    status: int
    document: DocumentInfo | None = None
    error: dict[str, Any] | None = None


class Additions(BaseModel):
    """What became of several documents, in their order."""

    results: list[Addition]
    report: IngestReport | None = None
    """The report on the run that ingests those that could be added; null until it has ended."""
    run_id: str | None = None
    """The id of that run; null if none could be added."""
