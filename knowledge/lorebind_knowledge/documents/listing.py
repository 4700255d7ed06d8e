"""What a knowledge base holds, document by document and chunk by chunk."""

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
"""`ready`: searches find it as it is; `pending`: it has yet to be ingested, or its ingest was cut
off; `failed`: it could not be read, and an older version may still be found."""

HINTS = 100
"""The most documents that the message about an unknown one names."""


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


def list_documents(
    kb: KnowledgeBase,
    state: str | None = None,
    *,
    limit: int | None = None,
    after: str | None = None,
    before: str | None = None,
) -> list[DocumentInfo]:
    """The documents by uri, those that failed or have yet to be ingested among them.

    Args:
        kb: the knowledge base.
        state: only those in this state.
        limit: the most; None is all.
        after: a uri; only those after it. There need not be a document of it any more.
        before: a uri; the last ones before it.

    Raises:
        UsageError: no such state, or a part that cannot be.
    """
    check_state(state)
    if after is not None and before is not None:
        raise UsageError("documents are listed after a uri or before one; give one of them")
    check_limit(limit)
    page = Page(limit, after, before, backwards=before is not None)
    added = kb.catalog.added
    with kb.catalog.reading() as sql:
        key = _key_within(sql, kb)
        entries = kb.catalog.ledger.page_within(sql, key, page, state) if key else []
        waiting = []
        if state in (None, "pending"):
            if len(entries) == limit:  # what is beyond the last one is on another page
                page = page.until(entries[-1].uri)
            waiting = added.waiting_within(sql, kb.namespace, key, page)
    found = [*map(_info, entries), *map(_waiting, waiting)]
    found.sort(key=lambda one: one.uri, reverse=page.backwards)
    found = found[:limit]
    return found[::-1] if page.backwards else found


def count_documents(kb: KnowledgeBase) -> dict[str, int]:
    """How many documents `list_documents` lists in each of `DOCUMENT_STATES`."""
    with kb.catalog.reading() as sql:
        key = _key_within(sql, kb)
        found = kb.catalog.ledger.counts_within(sql, key) if key else {}
        waiting = kb.catalog.added.count_waiting_within(sql, kb.namespace, key)
    counts = {state: found.get(state, (0, 0))[0] for state in DOCUMENT_STATES}
    counts["pending"] += waiting
    return counts


def find_document(kb: KnowledgeBase, document: str) -> DocumentInfo:
    """A document by its id or uri.

    Raises:
        NotFoundError: there is none.
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
    """The error for a document that is not among the known ones."""
    hint = did_you_mean(document, known)
    return NotFoundError(f"knowledge base {kb_id!r} has no document {document!r}; {hint}")


def list_chunks(
    kb: KnowledgeBase, document: str, *, limit: int | None = None, after: int = 0
) -> list[ChunkInfo]:
    """The chunks of a document that searches find, in its order.

    Args:
        kb: the knowledge base.
        document: its id or uri.
        limit: the most; None is all.
        after: how many of the first ones are left out.

    Raises:
        NotFoundError: there is no document of this id or uri.
        UsageError: `limit` or `after` cannot be.
    """
    check_limit(limit)
    if after < 0:
        raise UsageError(f"after is at least 0, not {after}")
    uri = find_document(kb, document).uri
    if kb.catalog.ledger.index(kb.namespace, "active") is None:
        return []
    found = kb.index.read(kb.namespace, lambda view: view.document(uri, limit, after))
    return [ChunkInfo(chunk.id, chunk.text, chunk.metadata) for chunk in found]


def check_state(state: str | None) -> None:
    """
    Raises:
        UsageError: no document can be in this state.
    """
    if state is not None and state not in DOCUMENT_STATES:
        raise UsageError(f"there is no state {state!r}; {did_you_mean(state, DOCUMENT_STATES)}")


def check_limit(limit: int | None) -> None:
    """
    Raises:
        UsageError: nothing could be listed.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit is at least 1, not {limit}")


def index_of(kb: KnowledgeBase) -> IndexEntry | None:
    """The index in use, else the one that is being built: all documents may have failed so far."""
    with kb.catalog.reading() as sql:
        return _index_within(sql, kb)


def _index_within(sql: Sql, kb: KnowledgeBase) -> IndexEntry | None:
    found = (kb.catalog.ledger.index_within(sql, kb.namespace, s) for s in ("active", "building"))
    return next(filter(None, found), None)


def _key_within(sql: Sql, kb: KnowledgeBase) -> IndexKey | None:
    index = _index_within(sql, kb)
    return index.key if index else None


def _waiting(uri: str) -> DocumentInfo:
    """One that was added, and that no ingest has seen yet."""
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
