"""What is in the index of a knowledge base, by its ledger."""

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
    """Counts of what can be found now, and of what could not be ingested."""

    kb_id: str
    documents: dict[str, int] = field(default_factory=dict)
    """By state: `ready`, `pending`, `failed`."""
    chunks: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    """How many documents are in each language, by its code in ISO 639-1."""
    embedder: str = ""
    """The one that the index was built with; empty when there is no index."""
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
    """How many of its documents are in each language, most first; those without text left out."""
    with catalog.reading() as sql:
        found = languages_of(sql, index.birth)
    found.pop("", None)
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
