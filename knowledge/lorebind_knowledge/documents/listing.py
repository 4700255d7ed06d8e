"""What a knowledge base holds, document by document and chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lorebind_knowledge.errors import NotFoundError, UsageError, did_you_mean
from lorebind_knowledge.identity import digest
from lorebind_knowledge.ingest.added import ADDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.catalog.ledger import DocumentEntry, IndexEntry
    from lorebind_knowledge.knowledge_base import KnowledgeBase

DOCUMENT_STATES = ("ready", "pending", "failed")
"""`ready`: searches find it as it is; `pending`: it has yet to be ingested, or its ingest was cut
off; `failed`: it could not be read, and an older version may still be found."""

_ID_LENGTH = 24


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document of a knowledge base, as of its last ingest."""

    id: str
    """Of 24 characters; the same for the same uri."""
    uri: str
    title: str
    state: str
    """One of `DOCUMENT_STATES`."""
    reason: str
    """Why it failed; empty if it did not."""
    attempts: int
    """How often it has failed in a row."""
    chunks: int
    """How many of its chunks searches find."""
    origin: Literal["source", "added"]
    """Whether a source gives it, or it was added by hand."""


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """A chunk that searches find."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    """That of a `DocumentMatch`."""


def list_documents(kb: KnowledgeBase, state: str | None = None) -> list[DocumentInfo]:
    """All documents by uri, those that failed or have yet to be ingested among them.

    Raises:
        UsageError: no such state.
    """
    if state is not None and state not in DOCUMENT_STATES:
        raise UsageError(f"there is no state {state!r}; {did_you_mean(state, DOCUMENT_STATES)}")
    index = index_of(kb)
    entries = kb.catalog.ledger.documents(index.key) if index else {}
    found = {uri: _info(entry) for uri, entry in entries.items()}
    for uri in kb.catalog.added.uris(kb.namespace):
        waiting = DocumentInfo(document_id(uri), uri, "", "pending", "", 0, 0, "added")
        found.setdefault(uri, waiting)
    listed = (found[uri] for uri in sorted(found))
    return [one for one in listed if state in (None, one.state)]


def find_document(kb: KnowledgeBase, document: str) -> DocumentInfo:
    """A document by its id or uri.

    Raises:
        NotFoundError: there is none.
    """
    documents = list_documents(kb)
    found = next((one for one in documents if document in (one.uri, one.id)), None)
    if found is None:
        hint = did_you_mean(document, [one.uri for one in documents])
        raise NotFoundError(f"knowledge base {kb.id!r} has no document {document!r}; {hint}")
    return found


def list_chunks(kb: KnowledgeBase, document: str) -> list[ChunkInfo]:
    """The chunks of a document that searches find, in its order.

    Raises:
        NotFoundError: there is no document of this id or uri.
    """
    uri = find_document(kb, document).uri
    if kb.catalog.ledger.index(kb.namespace, "active") is None:
        return []
    found = kb.index.read(kb.namespace, lambda view: view.document(uri))
    return [ChunkInfo(chunk.id, chunk.text, chunk.metadata) for chunk in found]


def document_id(uri: str) -> str:
    """What stands for a uri where one cannot be written, as in a path."""
    return digest(uri)[:_ID_LENGTH]


def index_of(kb: KnowledgeBase) -> IndexEntry | None:
    """The index in use, else the one that is being built: all documents may have failed so far."""
    ledger = kb.catalog.ledger
    return ledger.index(kb.namespace, "active") or ledger.index(kb.namespace, "building")


def _info(entry: DocumentEntry) -> DocumentInfo:
    return DocumentInfo(
        document_id(entry.uri),
        entry.uri,
        entry.title,
        entry.state,
        entry.reason,
        entry.attempts,
        entry.chunk_count,
        "added" if entry.source == ADDED else "source",
    )
