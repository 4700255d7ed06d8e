"""The contents of a knowledge base's index, from its ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.catalog.chunks import languages_of

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.namespace import Namespace


@dataclass(frozen=True, slots=True)
class KnowledgeStats:
    """Counts of documents and chunks that can be found, and of documents that failed."""

    kb_id: str
    documents: dict[str, int] = field(default_factory=dict)
    """The number of documents by state: `ready`, `pending`, `failed`."""
    chunks: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    """The number of documents by language, as ISO 639-1 codes."""
    embedder: str = ""
    """The embedder that the index was built with; empty if there is no index."""
    dimension: int = 0
    last_run: dict[str, Any] | None = None
    """`run_id`, `strategy`, `status` and `started_at` (seconds since 1970) of the latest ingest."""


def knowledge_stats(namespace: Namespace, catalog: Catalog) -> KnowledgeStats:
    ledger = catalog.ledger
    runs = ledger.last_runs(namespace, 1)
    last_run = dict(runs[0]) if runs else None
    index = ledger.index(namespace, "active")
    if index is None:
        return KnowledgeStats(namespace.kb, last_run=last_run)
    with catalog.reading() as sql:
        counts = ledger.counts_within(sql, index.key)
    return KnowledgeStats(
        namespace.kb,
        documents={state: documents for state, (documents, _) in counts.items()},
        chunks=sum(chunks for _, chunks in counts.values()),
        languages=count_languages(catalog, index),
        embedder=index.manifest.embedder,
        dimension=index.manifest.dimension,
        last_run=last_run,
    )


def count_languages(catalog: Catalog, index: IndexEntry) -> dict[str, int]:
    """Return the number of documents by language, highest first, omitting those without text."""
    with catalog.reading() as sql:
        found = languages_of(sql, index.birth)
    found.pop("", None)
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
