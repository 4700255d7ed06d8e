"""Documents that are added and deleted by hand, and the end of a whole index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call
from lorebind_knowledge.catalog.added import AddedDocument
from lorebind_knowledge.declarations.sources import DEFAULT_MAX_BYTES
from lorebind_knowledge.documents.listing import find_document, index_of
from lorebind_knowledge.errors import UsageError, did_you_mean
from lorebind_knowledge.identity import digest
from lorebind_knowledge.index import purging
from lorebind_knowledge.index.turn import turn
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.sources.base import plain_metadata
from lorebind_knowledge.sources.media_types import media_type_of_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_knowledge.documents.listing import DocumentInfo
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.knowledge_base import KnowledgeBase

_KEYS = ("id", "text", "data", "media_type", "title", "metadata")


async def add_documents(
    corpus: Corpus, documents: Sequence[Any], run_id: str | None = None
) -> IngestReport:
    """Add documents, and ingest them. They are kept before they are ingested.

    One with the id of another that was added takes its place. From then on they belong to the
    knowledge base as the documents of its sources do: every ingest and reindex keeps them.

    Args:
        corpus: the knowledge base.
        documents: of LangChain, or mappings with `text` (or `data`, bytes), and perhaps `id`,
            `media_type`, `title` and `metadata`.
        run_id: as for `lorebind_knowledge.ingest.engine.ingest`.

    Raises:
        UsageError: what is given is no document; nothing is added.
        LorebindError: the ingest failed; the next one goes on with it.
    """
    return await ingest_added(corpus, await keep_documents(corpus.kb, documents), run_id)


async def keep_documents(kb: KnowledgeBase, documents: Sequence[Any]) -> list[str]:
    """Store documents, which the next ingest reads; the arguments are those of `add_documents`.

    Returns:
        the uri of each document.

    Raises:
        UsageError: what is given is no document; nothing is added.
    """
    added = [read_document(one, f"documents[{number}]") for number, one in enumerate(documents)]
    if not added:
        raise UsageError("there is no document to add")
    await call(kb.catalog.added.put, kb.namespace, added)
    return [one.uri for one in added]


async def ingest_added(
    corpus: Corpus, uris: Collection[str], run_id: str | None = None
) -> IngestReport:
    """Ingest documents that `keep_documents` has stored, after any ingest that is under way.

    Raises:
        LorebindError: the ingest failed; the next one goes on with it.
    """
    return await ingest(corpus, wait=True, added=set(uris), run_id=run_id)


async def delete_document(kb: KnowledgeBase, document: str) -> DocumentInfo:
    """Delete a document that was added, by its id or uri.

    Raises:
        NotFoundError: there is none.
        UsageError: it is a source's, and would come back with the next ingest.
    """
    found = await call(find_document, kb, document)
    if found.origin != "added":
        raise UsageError(of_source(found.uri, kb.id))
    await call(kb.catalog.added.remove, kb.namespace, found.uri)
    async with turn(kb.catalog, kb.namespace, wait=True) as lease:
        index = await call(index_of, kb)
        if index is not None:
            await call(kb.index.remove, lease, index, [found.uri])
            await call(kb.index.sweep, lease, index)
    kb.emit("document_deleted", uri=found.uri)
    return found


def of_source(uri: str, kb_id: str) -> str:
    """Why a document of a source cannot be deleted, and what to do."""
    return (
        f"{uri} is of a source of {kb_id!r}, and would come back with the next ingest; "
        "delete it there, or exclude it, and ingest again"
    )


async def delete_all(kb: KnowledgeBase) -> None:
    """Delete the index of a knowledge base, its runs, and what was added to it by hand.

    The documents of its sources are ingested anew by the next ingest; their vectors are cached.

    Raises:
        IngestRunningError: it is being ingested.
    """
    async with turn(kb.catalog, kb.namespace, wait=False) as lease:
        index = await call(kb.catalog.ledger.index, kb.namespace, "active")
        if index is not None:  # from now on nothing searches it
            await call(kb.catalog.ledger.retire_index, lease, index.key)
        await call(purging.delete_all, kb.index, lease)
    kb.emit("collection_deleted")


def read_document(given: Any, where: str) -> AddedDocument:
    """A document as it is kept; see `add_documents`.

    Raises:
        UsageError: it is none; the message begins with `where`.
    """
    about = _as_mapping(given, where)
    for key in about:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; {did_you_mean(str(key), _KEYS)}")
    text, data = about.get("text"), about.get("data")
    if (isinstance(text, str) and text.strip() != "") == (isinstance(data, bytes) and data != b""):
        raise UsageError(f"{where}: give a text that is not blank, or data that is not empty")
    content = text.encode("utf-8", "replace") if isinstance(text, str) else data
    assert isinstance(content, bytes)
    if len(content) > DEFAULT_MAX_BYTES:
        raise UsageError(f"{where}: has {len(content)} bytes, more than {DEFAULT_MAX_BYTES}")
    name = about.get("id") or digest(content.decode("utf-8", "replace"))[:16]
    if not isinstance(name, str):
        raise UsageError(f"{where}: id: expected text, got a {type(name).__name__}")
    media_type = about.get("media_type") or (media_type_of_text(name) if text else "")
    metadata = about.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise UsageError(f"{where}: metadata: expected a mapping, got a {type(metadata).__name__}")
    metadata = plain_metadata(metadata)
    if title := about.get("title"):
        metadata["title"] = str(title)
    return AddedDocument(f"{_SCHEME}{name.removeprefix(_SCHEME)}", content, media_type, metadata)


_SCHEME = "added:"


def _as_mapping(given: Any, where: str) -> Mapping[str, Any]:
    from langchain_core.documents import Document  # half a second of LangChain

    if isinstance(given, Document):
        name = given.id or given.metadata.get("source")
        return {"id": name, "text": given.page_content, "metadata": given.metadata}
    if isinstance(given, Mapping):
        return given
    raise UsageError(
        f"{where}: expected a document of LangChain, or a mapping with the keys "
        f"{', '.join(_KEYS)}; got a {type(given).__name__}"
    )
