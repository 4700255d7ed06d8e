"""The plan of an ingest, and the report of a finished one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.ingest.prepared import attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.ingest.prepared import PlannedDocuments, PreparedDocument


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that failed. Others are not affected, and its older version is still searched."""

    uri: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that a source found and did not read."""

    uri: str
    """The uri; a folder's ends with `/`."""
    reason: str
    """The file extension if no loader reads such files, or the name of the rule that excludes it,
    such as `.gitignore` or `node_modules`."""
    setting: str = ""
    """The setting of the source with which it is read, such as `as_text`; empty if none."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A folder that a source could not list. Its documents stay in the index."""

    uri: str
    """The uri, which ends with `/`."""
    reason: str


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The result of reading one declared source."""

    source: str
    status: str
    """`ok` or `failed`. Documents of a failed source are never deleted."""
    documents: int
    reason: str = ""
    skipped: list[Skipped] = field(default_factory=list)
    """Files and folders that it found and did not read."""
    notices: list[str] = field(default_factory=list)
    """Possible mistakes in its declaration, for example a pattern that matches nothing."""
    unlisted: list[Unlisted] = field(default_factory=list)
    """Folders that it could not list."""


def skipped_summary(skipped: Iterable[Skipped]) -> str:
    """Return the number of skipped items per reason, most frequent first: `.zip 12, .bin 1`."""
    counts = Counter(item.reason for item in skipped)
    ordered = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{reason} {count}" for reason, count in ordered)


def _document_counts() -> dict[str, int]:
    return dict.fromkeys(("added", "updated", "removed", "unchanged", "failed"), 0)


def _chunk_counts() -> dict[str, int]:
    return dict.fromkeys(("added", "removed", "unchanged", "total"), 0)


@dataclass
class IngestPlan:
    """The plan of an ingest: the counts of documents, chunks and texts to embed."""

    kb_id: str
    documents: dict[str, int] = field(default_factory=_document_counts)
    chunks: dict[str, int] = field(default_factory=_chunk_counts)
    texts_to_embed: int = 0
    tokens_to_embed: int = 0
    """Number of tokens in these texts, counted with `tokenizer`."""
    tokenizer: str = "len/4"
    """The name of the encoding that counted the tokens, or `len/4`."""
    exact: bool = False
    """Whether the embedder's provider counts tokens in the same way."""
    cost: float | None = None
    """The cost in the currency of the embedder's `price_per_million_tokens`; None without one."""
    cache_hits: int = 0
    pages_to_recognize: int = 0
    """Number of pages to recognize. The ingest recognizes those of them whose text is not stored
    yet. Their chunks and tokens are not counted."""
    terms_to_add: int = 0
    """Number of passages in the index that have no terms of the sparse embedder yet."""
    failures: list[Failure] = field(default_factory=list)
    without_text: list[str] = field(default_factory=list)
    """The uris of documents that were read and have no text, including unchanged ones."""
    textless_pages: dict[str, int] = field(default_factory=dict)
    """The number of pages without text, for each document with such pages, by its uri."""
    textless_parts: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each document with parts without text, by its uri: their number by kind, which is
    `page`, `slide`, `sheet`, `chapter`, `cell` or `image`."""
    reprocessed: list[str] = field(default_factory=list)
    """The uris of updated documents whose settings have changed, such as chunking, or whose steps:
    they are updated even if their content is the same."""
    sources: list[SourceReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """Messages about what cannot be planned."""

    def __post_init__(self) -> None:
        self.read: PlannedDocuments | None = None
        """Documents that it has fetched and chunked, for the ingest that gets the plan. Not a
        field, so that it is no part of the plan's data."""


@dataclass(slots=True)
class IngestReport:
    """The results of an ingest."""

    kb_id: str
    strategy: str
    run_id: str = ""
    status: str = "completed"
    """`completed`, `completed_with_failures`, `failed` or `cancelled`."""
    documents: dict[str, int] = field(default_factory=_document_counts)
    chunks: dict[str, int] = field(default_factory=_chunk_counts)
    texts_embedded: int = 0
    """Number of texts sent to the embedder: those without a cached vector."""
    texts_truncated: int = 0
    """Number of texts longer than the embedder's limit. Vectors do not represent their ends."""
    cache_hits: int = 0
    terms_added: int = 0
    """Number of passages that got terms of the sparse embedder."""
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    without_text: list[str] = field(default_factory=list)
    """The uris of documents that were read and have no text, including unchanged ones."""
    textless_pages: dict[str, int] = field(default_factory=dict)
    """The number of pages without text, for each document with such pages, by its uri."""
    textless_parts: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each document with parts without text, by its uri: their number by kind, which is
    `page`, `slide`, `sheet`, `chapter`, `cell` or `image`."""
    sources: list[SourceReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """Further messages for the operator."""

    def judge(self) -> None:
        """Set the status by what failed."""
        failed_sources = [source for source in self.sources if source.status == "failed"]
        if failed_sources and len(failed_sources) == len(self.sources):
            self.status = "failed"
        elif failed_sources or self.failures or any(source.unlisted for source in self.sources):
            self.status = "completed_with_failures"

    def note_truncated(self) -> None:
        """Advise smaller chunks, if some are longer than the embedder reads.

        This is for chunks above the default size. Below it, smaller ones find less: with 600
        instead of 800 characters, hybrid search loses .009 on MED, .002 on Cranfield and .008 on
        documentation (`benchmarks/retrieval.py`).
        """
        if count := self.texts_truncated:
            chunks = "1 chunk is" if count == 1 else f"{count} chunks are"
            self.notices.append(
                f"{chunks} longer than the embedder reads; a smaller chunking size keeps all of a "
                "chunk in its vector"
            )


def count_document(result: IngestPlan | IngestReport, document: PreparedDocument) -> None:
    """Count a document; the chunks of one that changes are counted when they are compared.

    An unchanged document without text is reported again.
    """
    result.documents[document.action] += 1
    if isinstance(result, IngestPlan):
        result.pages_to_recognize += document.pages_to_recognize
    live = document.entry.chunk_count if document.entry else 0
    if document.action == "failed":
        failure = Failure(document.uri, document.reason, attempts_of(document))
        result.failures.append(failure)
        result.chunks["total"] += live
        return
    if document.action == "unchanged":
        result.chunks["unchanged"] += live
        result.chunks["total"] += live
    has_text = live if document.action == "unchanged" else document.chunks
    if not (has_text or document.pages_to_recognize):  # an ingest may find text in it
        result.without_text.append(document.uri)
    if document.textless_parts and document.reports_textless:
        result.textless_parts[document.uri] = dict(document.textless_parts)
        if pages := document.textless_parts.get("page"):
            result.textless_pages[document.uri] = pages


def reported(report: IngestReport) -> dict[str, Any]:
    """Return a report as data of an event: its reasons are only for extensions with `content`."""
    redacted = replace(
        report,
        failures=[replace(failure, reason="") for failure in report.failures],
        sources=[replace(source, reason="") for source in report.sources],
    )
    return {"report": redacted, "texts": lambda: {"report": report}}
