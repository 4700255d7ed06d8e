"""The contents of a knowledge base's index, from its ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.documents.listing import count_documents

if TYPE_CHECKING:
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.ledger import IndexEntry


@dataclass(frozen=True, slots=True)
class KnowledgeStats:
    """Counts of documents and chunks, and how the index was made."""

    kb_id: str
    documents: dict[str, int] = field(default_factory=dict)
    """The number of documents by state: `ready`, `pending`, `failed`; see `count_documents`."""
    chunks: int = 0
    """The number of chunks that searches find."""
    languages: dict[str, int] = field(default_factory=dict)
    """The number of documents by language, as ISO 639-1 codes."""
    embedder: str = ""
    """The embedder that the index was built with; empty if there is no index."""
    dimension: int = 0
    """The dimension of its vectors; 0 if there is no index."""
    last_run: dict[str, Any] | None = None
    """`run_id`, `strategy`, `status` and `started_at` (seconds since 1970) of the latest ingest."""


_RUN_FIELDS = ("run_id", "strategy", "status", "started_at")


def knowledge_stats(namespace: Namespace, catalog: Catalog) -> KnowledgeStats:
    runs = catalog.runs.list(namespace, 1)
    stats = KnowledgeStats(
        namespace.kb,
        documents=count_documents(namespace, catalog),
        last_run={name: getattr(runs[0], name) for name in _RUN_FIELDS} if runs else None,
    )
    index = catalog.ledger.index(namespace, "active")
    if index is None:
        return stats
    with catalog.reading() as sql:
        state = Chunks(sql, index.index_uid).current_state()
    return replace(
        stats,
        chunks=state.live if state else 0,
        languages=count_languages(catalog, index),
        embedder=index.manifest.embedder,
        dimension=index.manifest.dimension,
    )


def count_languages(catalog: Catalog, index: IndexEntry) -> dict[str, int]:
    """Return the number of documents by language, highest first, omitting those without text."""
    with catalog.reading() as sql:
        found = Chunks(sql, index.index_uid).languages()
    found.pop("", None)
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
