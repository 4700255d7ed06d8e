"""Delete the added documents whose metadata passes a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError
from lorebind_config.filters import compile_filter
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.rows import Page
from lorebind_knowledge.documents.changing import delete_added
from lorebind_knowledge.documents.listing import DocumentInfo, page_of_documents
from lorebind_knowledge.ingest.batches import in_groups
from lorebind_knowledge.plumbing.bridge import call, in_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

_PAGE = 100

_EXCLUDED_BY = {
    "markdown_glob": "add it to `exclude` of",
    "file_glob": "add it to `exclude` of",
    "url": "remove it from `urls` of",
    "inline": "remove it from `documents` of",
}
"""By the kind of a source: the setting that excludes a document."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of a source, which only the source or its declaration can remove."""

    id: str
    uri: str
    excluded_by: str
    """The step that removes it."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The documents that a filter selects, and those of them that were deleted."""

    kb_id: str
    dry_run: bool
    """Whether nothing was deleted."""
    documents: list[DocumentInfo] = field(default_factory=list)
    """The added documents that were deleted; in a dry run, those that would be."""
    of_sources: list[SourceDocument] = field(default_factory=list)
    """Documents of sources that pass too. They were not deleted."""
    partly: list[DocumentInfo] = field(default_factory=list)
    """Documents of which only some passages pass. They were not deleted."""


async def delete_by_filter(
    kb: IndexedKnowledgeBase, filters: Mapping[str, Any], *, dry_run: bool = False
) -> Deletion:
    """Delete the added documents all of whose passages pass a filter.

    A document without passages, such as one that has not been ingested yet, is compared by the
    metadata with which it was added.

    Args:
        kb: the knowledge base.
        filters: the filter, which must not be empty.
        dry_run: whether to only return the documents.

    Raises:
        UsageError: the filter is invalid or empty.
    """
    if not filters:
        raise UsageError("the filter is empty, and would select every document", at=("filters",))
    passes = compile_filter(filters)
    deletion = Deletion(kb.id, dry_run)
    with kb.threads.lane("read"):
        async for document, share in in_steps(_selected(kb.namespace, kb.catalog, passes)):
            if share < 1:
                deletion.partly.append(document)
            elif document.origin == "added":
                deletion.documents.append(document)
            else:
                deletion.of_sources.append(await call(_of_source, kb, document))
    if not dry_run:
        for uris in in_groups((document.uri, 0) for document in deletion.documents):
            await delete_added(kb, uris)
    return deletion


def _selected(
    namespace: Namespace, catalog: Catalog, passes: Callable[[Mapping[str, Any]], bool]
) -> Iterator[tuple[DocumentInfo, float]]:
    """Yield documents, each with the share of its passages that pass, unless none does."""
    after: str | None = None
    while page := page_of_documents(namespace, catalog, Page(_PAGE, after)):
        with catalog.reading() as sql:
            index = catalog.ledger.index_within(sql, namespace, "active")
            uris = [document.uri for document in page if document.chunks]
            of_uris = Chunks(sql, index.index_uid).metadata_of_documents(uris) if index else {}
        for document in page:
            passages = of_uris.get(document.uri) or _as_added(namespace, catalog, document)
            count = sum(map(passes, passages))
            if count:
                yield document, count / len(passages)
        after = page[-1].uri


def _as_added(
    namespace: Namespace, catalog: Catalog, document: DocumentInfo
) -> list[Mapping[str, Any]]:
    added = catalog.added.get(namespace, document.uri) if document.origin == "added" else None
    return [] if added is None else [{**added.metadata, "uri": added.uri, "kb_id": namespace.kb}]


def _of_source(kb: IndexedKnowledgeBase, document: DocumentInfo) -> SourceDocument:
    active = kb.catalog.ledger.index(kb.namespace, "active")
    entries = kb.catalog.ledger.some_documents(active.key, [document.uri]) if active else []
    key = entries[0].source if entries else ""
    what = _EXCLUDED_BY.get(key.partition(":")[0], "delete it in")
    source = f"the source {key}" if key else "its source"
    return SourceDocument(document.id, document.uri, f"{what} {source}, and ingest again")
