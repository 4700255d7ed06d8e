"""List the documents and chunks of a knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lorebind_knowledge.catalog.rows import Page
from lorebind_knowledge.errors import NotFoundError, UsageError, did_you_mean
from lorebind_knowledge.identity import document_id
from lorebind_knowledge.ingest.added import ADDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lorebind_knowledge.catalog.ledger import DocumentEntry, IndexEntry
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.namespace import IndexKey

DOCUMENT_STATES = ("ready", "pending", "failed")
"""The states of a document.

`ready`: searches find its current version; `pending`: it has not been ingested yet, or its ingest
was interrupted; `failed`: it could not be read, though searches may still find an older version.
"""

HINTS = 100
"""Maximum number of known documents in the message about an unknown one."""


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document of a knowledge base, as of its last ingest."""

    id: str
    """24 characters; the same uri always has the same id."""
    uri: str
    title: str
    state: str
    """One of `DOCUMENT_STATES`."""
    reason: str
    """Reason for the failure; empty if it did not fail."""
    attempts: int
    """Number of failures in a row."""
    chunks: int
    """Number of its chunks that searches find."""
    origin: Literal["source", "added"]
    """Whether it comes from a source or was added by hand."""


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """A chunk that searches find."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    """The metadata, as in a `DocumentMatch`."""


def list_documents(
    kb: KnowledgeBase,
    state: str | None = None,
    *,
    limit: int | None = None,
    after: str | None = None,
    before: str | None = None,
) -> list[DocumentInfo]:
    """List documents ordered by uri, including failed and pending ones.

    Args:
        kb: the knowledge base.
        state: only documents in this state.
        limit: maximum number of documents; None for all.
        after: a uri; only documents after it. The document itself need not exist.
        before: a uri; only the last documents before it.

    Raises:
        UsageError: unknown state, invalid limit, or both `after` and `before` are given.
    """
    check_state(state)
    if after is not None and before is not None:
        raise UsageError("documents are listed after a uri or before one; give only one of them")
    check_limit(limit)
    page = Page(limit, after, before, backwards=before is not None)
    added = kb.catalog.added
    with kb.catalog.reading() as sql:
        key = _key_within(sql, kb)
        entries = kb.catalog.ledger.page_within(sql, key, page, state) if key else []
        waiting = []
        if state in (None, "pending"):
            if len(entries) == limit:  # documents after the last one belong to another page
                page = page.until(entries[-1].uri)
            waiting = added.waiting_within(sql, kb.namespace, key, page)
    found = [*map(_info, entries), *map(_waiting, waiting)]
    found.sort(key=lambda one: one.uri, reverse=page.backwards)
    found = found[:limit]
    return found[::-1] if page.backwards else found


def count_documents(kb: KnowledgeBase) -> dict[str, int]:
    """Return the number of documents in each of `DOCUMENT_STATES`, counted as they are listed."""
    with kb.catalog.reading() as sql:
        key = _key_within(sql, kb)
        found = kb.catalog.ledger.counts_within(sql, key) if key else {}
        waiting = kb.catalog.added.count_waiting_within(sql, kb.namespace, key)
    counts = {state: found.get(state, (0, 0))[0] for state in DOCUMENT_STATES}
    counts["pending"] += waiting
    return counts


def find_document(kb: KnowledgeBase, document: str) -> DocumentInfo:
    """Return a document by its id or uri.

    Raises:
        NotFoundError: no such document.
    """
    with kb.catalog.reading() as sql:
        key = _key_within(sql, kb)
        entry = kb.catalog.ledger.document_within(sql, key, document) if key else None
        if entry is not None:
            return _info(entry)
        for uri in kb.catalog.added.waiting_within(sql, kb.namespace, key, Page()):
            if document in (uri, document_id(uri)):
                return _waiting(uri)
    raise no_document(kb.id, document, [one.uri for one in list_documents(kb, limit=HINTS)])


def no_document(kb_id: str, document: str, known: Iterable[str]) -> NotFoundError:
    """Return the error for an unknown document, with suggestions from the known ones."""
    hint = did_you_mean(document, known)
    return NotFoundError(f"knowledge base {kb_id!r} has no document {document!r}; {hint}")


def list_chunks(
    kb: KnowledgeBase, document: str, *, limit: int | None = None, after: int = 0
) -> list[ChunkInfo]:
    """List the chunks of a document that searches find, in document order.

    Args:
        kb: the knowledge base.
        document: its id or uri.
        limit: maximum number of chunks; None for all.
        after: number of chunks to skip.

    Raises:
        NotFoundError: no document has this id or uri.
        UsageError: `limit` or `after` is out of range.
    """
    check_limit(limit)
    if after < 0:
        raise UsageError(f"after must be at least 0, not {after}")
    uri = find_document(kb, document).uri
    if kb.catalog.ledger.index(kb.namespace, "active") is None:
        return []
    found = kb.index.read(kb.namespace, lambda view: view.document(uri, limit, after))
    return [ChunkInfo(chunk.id, chunk.text, chunk.metadata) for chunk in found]


def check_state(state: str | None) -> None:
    """Check that the state is one of `DOCUMENT_STATES`, or None.

    Raises:
        UsageError: the state is unknown.
    """
    if state is not None and state not in DOCUMENT_STATES:
        raise UsageError(f"unknown state {state!r}; {did_you_mean(state, DOCUMENT_STATES)}")


def check_limit(limit: int | None) -> None:
    """Check that the limit is at least 1, or None.

    Raises:
        UsageError: the limit is less than 1.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")


def index_of(kb: KnowledgeBase) -> IndexEntry | None:
    """Return the index in use, or else the one being built.

    The index being built counts because all documents may have failed so far.
    """
    with kb.catalog.reading() as sql:
        return _index_within(sql, kb)


def _index_within(sql: Sql, kb: KnowledgeBase) -> IndexEntry | None:
    found = (kb.catalog.ledger.index_within(sql, kb.namespace, s) for s in ("active", "building"))
    return next(filter(None, found), None)


def _key_within(sql: Sql, kb: KnowledgeBase) -> IndexKey | None:
    index = _index_within(sql, kb)
    return index.key if index else None


def _waiting(uri: str) -> DocumentInfo:
    """Return the entry of an added document that no ingest has seen yet."""
    return DocumentInfo(document_id(uri), uri, "", "pending", "", 0, 0, "added")


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
