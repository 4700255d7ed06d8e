"""What an ingest would do, and what it did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.ingest.planned import PlannedDocuments


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that failed; the others were not affected, and its older version still serves."""

    uri: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that a source found and that is not read."""

    uri: str
    """A folder's ends with `/`."""
    reason: str
    """The ending of its name where no loader reads such files, or what excludes it, as
    `.gitignore` or `node_modules`."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """How one declared source did."""

    source: str
    status: str
    """`ok` or `failed`. Nothing that came from a failed source is deleted."""
    documents: int
    reason: str = ""
    skipped: list[Skipped] = field(default_factory=list)
    """What it found beside its documents."""
    notices: list[str] = field(default_factory=list)
    """What may be wrong with its declaration: a pattern that matches nothing."""


def skipped_summary(skipped: Iterable[Skipped]) -> str:
    """How many were skipped for each reason, the most frequent first: `.zip 12, node_modules 1`."""
    counts = Counter(one.reason for one in skipped)
    ordered = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{reason} {count}" for reason, count in ordered)


def _document_counts() -> dict[str, int]:
    return dict.fromkeys(("added", "updated", "removed", "unchanged", "failed"), 0)


def _chunk_counts() -> dict[str, int]:
    return dict.fromkeys(("added", "removed", "unchanged", "total"), 0)


@dataclass
class IngestPlan:
    """What an ingest would do now. Making it touches nothing."""

    kb_id: str
    documents: dict[str, int] = field(default_factory=_document_counts)
    chunks: dict[str, int] = field(default_factory=_chunk_counts)
    texts_to_embed: int = 0
    tokens_to_embed: int = 0
    """Of those texts, as the embedder's provider counts them."""
    tokenizer: str = "len/4"
    """What counted them: the name of an encoding, or `len/4`."""
    exact: bool = False
    """Whether the provider counts the same."""
    cost: float | None = None
    """In the currency of the embedder's `price_per_million_tokens`; None where that is not said."""
    cache_hits: int = 0
    failures: list[Failure] = field(default_factory=list)
    sources: list[SourceReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What cannot be planned."""

    def __post_init__(self) -> None:
        self.read: PlannedDocuments | None = None
        """What it has fetched and cut, for the ingest that is given the plan. It is no data."""


@dataclass(slots=True)
class IngestReport:
    """What an ingest did."""

    kb_id: str
    strategy: str
    run_id: str = ""
    status: str = "completed"
    """`completed`, `completed_with_failures`, `failed` or `cancelled`."""
    documents: dict[str, int] = field(default_factory=_document_counts)
    chunks: dict[str, int] = field(default_factory=_chunk_counts)
    texts_embedded: int = 0
    """Texts that the embedder was given: those whose (text, embedder) was new."""
    texts_truncated: int = 0
    """Texts longer than the embedder reads; their ends are stored but not in the vector."""
    cache_hits: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    sources: list[SourceReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What the operator should know beside the counts."""
