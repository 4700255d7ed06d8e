"""The schemas of answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from lorebind_knowledge.documents.fields import MetadataField
from lorebind_knowledge.documents.listing import DocumentInfo
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.loaders.scans.words import PageBox
from lorebind_knowledge.scale.engine import WorkerInfo

T = TypeVar("T")


class _Model(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class PageOf(_Model, Generic[T]):
    """Some items of a list; `next` and `previous` are cursors of the adjacent pages."""

    items: list[T]
    next: str | None
    previous: str | None


class KnowledgeBase(_Model):
    """A declared knowledge base, and the location of its declaration."""

    id: str
    origin: Literal["yaml", "api"]
    declared_at: str
    """A file with line and column; for a knowledge base created over the API, a time."""
    knowledge_base: dict[str, Any]
    """The declared settings, with the keys of the YAML."""
    workflow: str | None = None
    """The workflow that declares it."""
    description: str = ""
    vector_db: str = ""
    filled_by_others: bool = False
    with_defaults: dict[str, Any] = {}
    """The same settings, together with the default of every omitted one."""


class IngestRun(_Model):
    """An ingest."""

    run_id: str
    kb_id: str
    origin: Literal["server", "elsewhere"]
    """`server` if it was requested from a server, `elsewhere` if Python or the command line
    started it."""
    status: str
    """`waiting` for a worker, `running`, `interrupted`, or the status in the report."""
    request: dict[str, Any]
    """The request; of an ingest that was started elsewhere, its `strategy`."""
    requested_at: float
    """Seconds since 1970; of an ingest that was started elsewhere, its start."""
    finished_at: float | None
    waits_for: str | None
    """Why no worker will take it, if it waits for one."""
    progress: dict[str, int] | None
    """How far it is while it runs: `documents` to read, `documents_read`, their new `chunks` so
    far, and `chunks_embedded`."""
    report: IngestReport | None
    error: dict[str, Any] | None
    """A problem document."""


class WorkflowRun(_Model):
    """A run of a workflow in the background."""

    run_id: str
    workflow: str
    thread_id: str
    action: Literal["run", "resume", "replay"]
    status: Literal["running", "waiting", "completed", "failed", "cancelled"]
    """`waiting`, too, if it is paused before a task: see the `result`."""
    requested_at: float
    finished_at: float | None = None
    """The time at which it ended or began to wait."""
    output: Any = None
    """The output of the workflow after its end."""
    result: dict[str, Any] | None = None
    """The result, with all tasks and citations, and the questions that it waits for."""
    error: dict[str, Any] | None = None
    """The problem document of a failed run."""


class WorkersOf(_Model):
    """The live workers of a project."""

    items: list[WorkerInfo]


class Chunk(_Model):
    """A chunk of a document."""

    id: str
    text: str
    metadata: dict[str, Any]
    context: str = ""
    """The title and the headings above the text, which were embedded with it."""


class Line(_Model):
    """A line of a document."""

    line: int
    """Its number, from 1."""
    text: str


class FoundPassage(_Model):
    """A chunk with lines that match."""

    id: str
    uri: str
    metadata: dict[str, Any]
    lines: list[Line]


class FoundLines(_Model):
    """The lines that match a pattern, ordered by document and line."""

    passages: list[FoundPassage]
    cut: str
    """Why there may be more; empty if this is everything."""


class Fields(_Model):
    """The keys of the documents' metadata, sorted."""

    items: list[MetadataField]


class PageBoxes(_Model):
    """Where words are on the picture of a page."""

    items: list[PageBox]


class ReadableDocument(_Model):
    """A document that searches find."""

    id: str
    uri: str
    title: str
    metadata: dict[str, Any]
    """The metadata that all its chunks have."""
    lines: int
    """The number of its last line that the index has."""


class Gap(_Model):
    """Lines that no chunk holds."""

    first_line: int
    last_line: int


class DocumentText(_Model):
    """Lines of a document, read from the index."""

    document: ReadableDocument
    text: str
    """The lines; each gap is one line in brackets."""
    first_line: int
    last_line: int
    gaps: list[Gap]
    chunk_ids: list[str]
    """The ids of the chunks that hold these lines."""


class Match(_Model):
    """A passage, see `DocumentMatch`."""

    id: str
    score: float
    relevance: float
    scores: dict[str, float]
    text: str
    metadata: dict[str, Any]


class Found(_Model):
    """The result of a search, see `QueryResult`."""

    matches: list[Match]
    strategy: str
    searched: list[str]
    skipped: list[str]
    seconds: float
    stage: int
    verdict: Literal["hit", "weak", "miss"]
    shortfall: str
    notices: list[str]
    by_ranks: bool
    """Whether the passages are ordered by rank, because their scores cannot be compared."""


class Citation(_Model):
    """A passage that an answer cites."""

    marker: str
    """Its marker in the text, such as `[1]`."""
    id: str
    uri: str
    title: str
    score: float
    label: str
    """The source on one line, with lines, page or time."""
    metadata: dict[str, Any]
    content: str
    """The passage as the model saw it."""
    also: list[dict[str, Any]]
    """Other documents with the same passage."""


class Answered(_Model):
    """The answer of a chat model, see `Answer`."""

    text: str
    verdict: str
    citations: list[Citation]
    unknown_markers: list[str]
    """Markers in the text that belong to no passage."""
    dropped: int
    """Number of passages that were found but did not fit the token budget."""
    results: dict[str, Found]
    """The result of each search, by knowledge base."""
    usage: dict[str, Any]
    output: Any
    """The value that matches the schema of the agent; without a schema, the text."""


class Prompt(_Model):
    """The prompt of an answer, see `PromptPreview`; the model was not called."""

    messages: list[dict[str, str]]
    """Each with `role` and `content`."""
    tokens: int
    tokenizer: str
    exact: bool
    """Whether the tokenizer is that of the model."""
    dropped: list[dict[str, Any]]
    """The passages that were found and are not in the prompt, each with its `reason`."""
    verdict: str
    results: dict[str, Found]
    """The result of each search, by knowledge base."""


class Addition(_Model):
    """The result of adding one of several documents."""

    status: int
    document: DocumentInfo | None = None
    error: dict[str, Any] | None = None


class Additions(_Model):
    """The results of adding several documents, in their order."""

    results: list[Addition]
    report: IngestReport | None = None
    """The report of the run that ingests the added documents; null until it has ended."""
    run_id: str | None = None
    """The id of that run; null if no document could be added."""
