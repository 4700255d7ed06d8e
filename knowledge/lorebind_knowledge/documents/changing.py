"""Add and delete individual documents, or delete a whole index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError
from lorebind_knowledge.documents.listing import find_document
from lorebind_knowledge.documents.reading import read_documents
from lorebind_knowledge.index import purging
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_knowledge.documents.listing import DocumentInfo
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.knowledge_base import KnowledgeBase


async def add_documents(
    corpus: Corpus, documents: Sequence[Any], run_id: str | None = None
) -> IngestReport:
    """Store documents in the catalog and ingest them.

    A document replaces an added document with the same id. Added documents belong to the knowledge
    base like those of its sources: every ingest and reindex includes them.

    Args:
        corpus: the knowledge base.
        documents: LangChain documents, or mappings with `text` (or `data`, bytes) and optionally
            `id`, `media_type`, `title` and `metadata`. LangChain documents of the same `source`
            are numbered as by the source `langchain`.
        run_id: see `lorebind_knowledge.ingest.engine.ingest`.

    Returns:
        The report of the ingest.

    Raises:
        UsageError: an item is not a document, or different documents have the same id; nothing is
            added.
        LorebindError: the ingest failed; the next one resumes it.
    """
    return await ingest_added(corpus, await keep_documents(corpus.kb, documents), run_id)


async def keep_documents(kb: KnowledgeBase, documents: Sequence[Any]) -> list[str]:
    """Store documents, which the next ingest reads; the arguments are those of `add_documents`.

    Returns:
        the uri of each document.

    Raises:
        UsageError: see `add_documents`; nothing is added.
    """
    added = read_documents(documents)
    if not added:
        raise UsageError("there are no documents to add")
    with kb.threads.lane("read"):
        await call(kb.catalog.added.put, kb.namespace, added)
    return [one.uri for one in added]


async def ingest_added(
    corpus: Corpus, uris: Collection[str], run_id: str | None = None
) -> IngestReport:
    """Ingest documents that `keep_documents` has stored, after any running ingest.

    Raises:
        LorebindError: the ingest failed; the next one resumes it.
    """
    return await ingest(corpus, wait=True, added=set(uris), run_id=run_id)


async def delete_document(kb: KnowledgeBase, document: str) -> DocumentInfo:
    """Delete an added document by its id or uri, and return it.

    Raises:
        NotFoundError: no such document.
        UsageError: the document belongs to a source, so the next ingest would add it again.
    """
    with kb.threads.lane("read"):
        found = await call(find_document, kb.namespace, kb.catalog, document)
        if found.origin != "added":
            raise UsageError(of_source(found.uri, kb.id))
        await call(kb.catalog.added.remove, kb.namespace, found.uri)
    async with kb.catalog.hold_lease(kb.namespace, wait=True) as lease:
        if await call(kb.catalog.added.get, kb.namespace, found.uri):
            return found  # it was added again in the meantime
        for state in ("active", "building"):
            index = await call(kb.catalog.ledger.index, kb.namespace, state)
            if index is not None:
                await call(kb.index.remove, lease, index, [found.uri])
                await call(kb.index.sweep, lease, index)
    kb.emit("document_deleted", uri=found.uri)
    return found


def of_source(uri: str, kb_id: str) -> str:
    """Return the message that a source's document cannot be deleted, with a suggested fix."""
    return (
        f"{uri} belongs to a source of {kb_id!r}, so the next ingest would add it again; "
        "delete it in the source, or exclude it, and ingest again"
    )


async def delete_all(kb: KnowledgeBase) -> None:
    """Delete the index of a knowledge base, its runs, and its added documents.

    The next ingest ingests the documents of its sources again, with vectors from the embedding
    cache.

    Raises:
        IngestRunningError: an ingest of the knowledge base is running.
    """
    async with kb.catalog.hold_lease(kb.namespace, wait=False) as lease:
        index = await call(kb.catalog.ledger.index, kb.namespace, "active")
        if index is not None:  # from now on no search uses it
            await call(kb.catalog.ledger.retire_index, lease, index.key)
        await call(purging.delete_all, kb.index, lease)
    kb.emit("collection_deleted")
