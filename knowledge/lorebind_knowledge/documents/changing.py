"""Add and delete individual documents, or delete a whole index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_config.document_sizes import DEFAULT_MAX_BYTES
from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.namespace import ADDED_SCHEME, digest, free_name
from lorebind_knowledge.catalog.added import AddedDocument
from lorebind_knowledge.documents.listing import find_document
from lorebind_knowledge.index import purging
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import media_type_of_text, plain_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_knowledge.documents.listing import DocumentInfo
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase


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


async def keep_documents(kb: IndexedKnowledgeBase, documents: Sequence[Any]) -> list[str]:
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
    return [entry.uri for entry in added]


async def ingest_added(
    corpus: Corpus, uris: Collection[str], run_id: str | None = None
) -> IngestReport:
    """Ingest documents that `keep_documents` has stored, after any running ingest.

    Raises:
        LorebindError: the ingest failed; the next one resumes it.
    """
    return await ingest(corpus, wait=True, added=set(uris), run_id=run_id)


async def retry_document(
    corpus: Corpus, uri: str, run_id: str | None = None, *, wait: bool = False
) -> IngestReport:
    """Ingest one document again, whatever its state, and change no other.

    Raises:
        LorebindError: see `lorebind_knowledge.ingest.engine.ingest`.
    """
    report = await ingest(corpus, only_failed=True, only={uri}, wait=wait, run_id=run_id)
    if not any(report.documents.values()):
        report.notices.append(f"{uri} was not read, because no source lists it now")
    return report


async def delete_document(kb: IndexedKnowledgeBase, document: str) -> DocumentInfo:
    """Delete an added document by its id or uri, and return it.

    Raises:
        NotFoundError: no such document.
        UsageError: the document belongs to a source, so the next ingest would add it again.
    """
    with kb.threads.lane("read"):
        info = await call(find_document, kb.namespace, kb.catalog, document)
        if info.origin != "added":
            raise UsageError(of_source(info.uri, kb.id))
    await delete_added(kb, [info.uri])
    return info


async def set_excluded(kb: IndexedKnowledgeBase, document: str, *, excluded: bool) -> DocumentInfo:
    """Take a document out of searches, or let them find it again, and return it.

    It applies at once, and stays so through every ingest and rebuild, until it is changed again.

    Args:
        kb: the knowledge base.
        document: its id or uri.
        excluded: whether searches must not find it.

    Raises:
        NotFoundError: no such document.
        UsageError: too many documents are excluded.
        ReadOnlyError: the catalog is read-only.
    """
    documents = kb.catalog.excluded
    with kb.threads.lane("read"):
        info = await call(find_document, kb.namespace, kb.catalog, document)
        if excluded:
            await call(documents.put, kb.namespace, info.uri)
        else:
            await call(documents.remove, kb.namespace, [info.uri])
    return replace(info, excluded=excluded)


async def delete_added(kb: IndexedKnowledgeBase, uris: Sequence[str]) -> None:
    """Delete documents that were added, after any running ingest."""
    added = kb.catalog.added
    # First, so that an ingest that is under way does not add them again after this.
    with kb.threads.lane("read"):
        await call(added.remove, kb.namespace, uris)
    async with kb.catalog.hold_lease(kb.namespace, wait=True) as lease:
        # Others were added again in the meantime.
        gone = [uri for uri in uris if not await call(added.get, kb.namespace, uri)]
        await call(kb.catalog.excluded.remove, kb.namespace, gone)
        for state in ("active", "building"):
            index = await call(kb.catalog.ledger.index, kb.namespace, state)
            if index is not None and gone:
                await call(kb.index.remove, lease, index, gone)
                await call(kb.index.sweep, lease, index)
    for uri in gone:
        kb.emit("document_deleted", uri=uri)


def of_source(uri: str, kb_id: str) -> str:
    """Return the message that a source's document cannot be deleted, with a suggested fix."""
    return (
        f"{uri} belongs to a source of {kb_id!r}, so the next ingest would add it again; "
        "delete it in the source, or exclude it, and ingest again"
    )


async def delete_all(kb: IndexedKnowledgeBase) -> None:
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


_KEYS = ("id", "text", "data", "media_type", "title", "metadata")

LONGEST_ID = 500
"""Maximum number of characters of an id: PostgreSQL cannot index much longer ones."""


def read_documents(documents: Sequence[Any]) -> list[AddedDocument]:
    """Convert documents to the form in which they are stored; see `changing.add_documents`.

    Returns:
        the documents, each with its own uri. Equal documents are returned once.

    Raises:
        UsageError: an item is not a valid document, or different documents have the same id.
    """
    read: dict[str, AddedDocument] = {}
    taken: dict[str, int] = {}
    for number, document in enumerate(documents):
        where = f"documents[{number}]"
        entry = read_document(_with_own_id(document, taken), where)
        if read.setdefault(entry.uri, entry) != entry:
            raise id_is_taken(entry, where)
    return list(read.values())


def read_document(document: Any, where: str) -> AddedDocument:
    """Convert a document to the form in which it is stored; see `changing.add_documents`.

    Raises:
        UsageError: it is not a valid document; the message begins with `where`.
    """
    about = _as_mapping(document, where)
    for key in about:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; {did_you_mean(str(key), _KEYS)}")
    text, data = about.get("text"), about.get("data")
    if (isinstance(text, str) and text.strip() != "") == (isinstance(data, bytes) and data != b""):
        message = f"{where}: expected a text that is not blank, or data that is not empty"
        raise UsageError(message, at=("text",))
    content = text.encode("utf-8", "replace") if isinstance(text, str) else data
    assert isinstance(content, bytes)
    if len(content) > DEFAULT_MAX_BYTES:
        raise UsageError(f"{where}: has {len(content)} bytes, more than {DEFAULT_MAX_BYTES}")
    name = about.get("id") or digest(content.decode("utf-8", "replace"))[:16]
    if not isinstance(name, str):
        raise UsageError(f"{where}: id: expected text, got a {type(name).__name__}")
    name = name.removeprefix(ADDED_SCHEME)
    if len(name) > LONGEST_ID:
        raise UsageError(
            f"{where}: id: has {len(name)} characters, more than {LONGEST_ID}; give a shorter id"
        )
    media_type = about.get("media_type") or (media_type_of_text(name) if text else "")
    metadata = about.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise UsageError(f"{where}: metadata: expected a mapping, got a {type(metadata).__name__}")
    metadata = plain_metadata(metadata)
    if title := about.get("title"):
        metadata["title"] = str(title)
    return AddedDocument(f"{ADDED_SCHEME}{name}", content, media_type, metadata)


def id_is_taken(document: AddedDocument, where: str) -> UsageError:
    """Return the error for a document with the id of another document of the same call."""
    name = document.uri.removeprefix(ADDED_SCHEME)
    return UsageError(
        f"{where}: another document of this call is different and has the same id, {name!r}; give "
        "each document its own id",
        at=("id",),
    )


def _with_own_id(document: Any, taken: dict[str, int]) -> Any:
    """Number LangChain documents of the same source, for example the pages of a file."""
    from langchain_core.documents import Document  # importing LangChain takes half a second

    if not isinstance(document, Document) or document.id:
        return document
    source = document.metadata.get("source")
    return document.model_copy(update={"id": free_name(str(source), taken)}) if source else document


def _as_mapping(document: Any, where: str) -> Mapping[str, Any]:
    from langchain_core.documents import Document

    if isinstance(document, Document):
        return {"id": document.id, "text": document.page_content, "metadata": document.metadata}
    if isinstance(document, Mapping):
        return document
    raise UsageError(
        f"{where}: expected a LangChain document or a mapping with the keys "
        f"{', '.join(_KEYS)}; got a {type(document).__name__}"
    )
