"""List and count the documents and chunks of a knowledge base."""

from __future__ import annotations

from collections.abc import Mapping  # at run time: the server's schema of answers reads it
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from lorebind_config.errors import NotFoundError, UsageError, did_you_mean, nearest
from lorebind_config.filters import compile_filter
from lorebind_config.namespace import ADDED_SCHEME, document_id
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.excluded import excluded_uris
from lorebind_knowledge.catalog.rows import EVERY_DOCUMENT, Page, Selection
from lorebind_knowledge.records import OF_ALL
from lorebind_knowledge.stores.base import batches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_config.namespace import IndexKey, Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.ledger import DocumentEntry, Ledger
    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.database.sql import Sql

DOCUMENT_STATES = ("ready", "pending", "failed")
"""The states of a document.

`ready`: searches find its current version; `pending`: it has not been ingested yet, or its ingest
was interrupted; `failed`: it could not be read, though searches may still find an older version.
"""

HINTS = 100
"""Maximum number of known documents that are compared with an unknown one."""
_PAGE = 100
_READ_AT_ONCE = 1000
_SHOWN = 5
"""Maximum number of these in the message."""


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
    """Number of its chunks that searches find, unless it is excluded."""
    origin: Literal["source", "added"]
    """Whether it comes from a source or was added by hand."""
    textless_pages: int = 0
    """Number of its pages without text, such as scanned ones, in which searches find nothing."""
    textless_parts: dict[str, int] = field(default_factory=dict)
    """Number of its parts without text, by kind: `page`, `slide`, `sheet`, `chapter`, `cell` (of a
    notebook), and `image`: a picture whose text is not recognized."""
    excluded: bool = False
    """Whether it was taken out of searches; its chunks stay in the index."""
    format: str = ""
    """The format as which it was read, such as `markdown`; empty if it was never read."""
    size: int = 0
    """Its size in bytes when it was read."""
    modified: str = ""
    """When it was changed: the time of a file or object, or `Last-Modified` of a URL, in UTC, as
    `2026-11-23T10:00:00Z`; empty if its source does not tell."""
    updated_at: float = 0.0
    """When an ingest last changed its entry, in seconds since 1970; 0 before the first one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Its metadata, by which filters select it, without `uri`, `title` and `kb_id`."""


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """A chunk that searches find."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    """The metadata, as in a `DocumentMatch`."""
    context: str = ""
    """The title and the headings above the text, which were embedded with it."""


def list_documents(
    namespace: Namespace,
    catalog: Catalog,
    state: str | None = None,
    *,
    q: str = "",
    format: str | None = None,
    where: Mapping[str, Any] | None = None,
    limit: int | None = None,
    after: str | None = None,
    before: str | None = None,
) -> list[DocumentInfo]:
    """List documents ordered by uri, including failed and pending ones, with their metadata.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        state: only documents in this state.
        q: only documents whose uri or title contains this text, in any case of letters.
        format: only documents that were read as this format.
        where: a filter; only documents with a chunk that passes it. None and `{}` select all.
        limit: maximum number of documents; None for all.
        after: a uri; only documents after it. The document itself need not exist.
        before: a uri; only the last documents before it.

    Raises:
        UsageError: unknown state, invalid limit or filter, or both `after` and `before` are given.
    """
    check_state(state)
    if after is not None and before is not None:
        raise UsageError("documents are listed after a uri or before one; give only one of them")
    check_limit(limit)
    only = Selection(state, q, format)
    page = Page(limit, after, before, backwards=before is not None)
    if where:
        documents = _passing(namespace, catalog, only, page, where)
    else:
        documents = page_of_documents(namespace, catalog, page, only)
    return _with_metadata(namespace, catalog, documents)


def page_of_documents(
    namespace: Namespace, catalog: Catalog, page: Page, only: Selection = EVERY_DOCUMENT
) -> list[DocumentInfo]:
    """List a page of documents ordered by uri, without their metadata."""
    ledger, limit = catalog.ledger, page.limit
    with catalog.reading() as sql:
        key, beside = _keys_within(sql, namespace, ledger)
        entries = ledger.page_within(sql, key, page, only, beside) if key else []
        waiting = []
        if only.state in (None, "pending"):
            if len(entries) == limit:  # documents after the last one belong to another page
                page = page.until(entries[-1].uri)
            if only.is_any_text:
                waiting = catalog.added.waiting_within(sql, namespace, key, page, beside)
            else:
                uris = catalog.added.waiting_within(
                    sql, namespace, key, page._replace(limit=None), beside
                )
                waiting = [uri for uri in uris if only.has_uri(uri)]
        if key and beside and only.state in (None, "failed"):
            entries += ledger.failures_within(sql, key, beside, page, only)
        excluded = excluded_uris(sql, namespace)
    documents = [*map(_info, entries), *map(_waiting, waiting)]
    documents.sort(key=lambda document: document.uri, reverse=page.backwards)
    documents = [_marked(document, excluded) for document in documents[:limit]]
    return documents[::-1] if page.backwards else documents


def _passing(
    namespace: Namespace, catalog: Catalog, only: Selection, page: Page, where: Mapping[str, Any]
) -> list[DocumentInfo]:
    """List a page of the documents with a chunk that passes a filter."""
    passes = compile_filter(where)
    passing: list[DocumentInfo] = []
    part = page._replace(limit=_PAGE)
    while page.limit is None or len(passing) < page.limit:
        documents = page_of_documents(namespace, catalog, part, only)
        with catalog.reading() as sql:
            index = catalog.ledger.index_within(sql, namespace, "active")
            uris = [document.uri for document in documents if document.chunks]
            of_uris = Chunks(sql, index.index_uid).metadata_of_documents(uris) if index else {}
        some = [
            document for document in documents if any(map(passes, of_uris.get(document.uri, ())))
        ]
        passing = [*some, *passing] if page.backwards else [*passing, *some]
        if len(documents) < _PAGE:
            break
        last = documents[0 if page.backwards else -1].uri
        part = part._replace(before=last) if page.backwards else part._replace(after=last)
    if page.limit is None:
        return passing
    return passing[-page.limit :] if page.backwards else passing[: page.limit]


def _with_metadata(
    namespace: Namespace, catalog: Catalog, documents: Sequence[DocumentInfo]
) -> list[DocumentInfo]:
    """Return the documents with the metadata of their first chunks."""
    uris = [document.uri for document in documents if document.chunks]
    of_uris: dict[str, dict[str, Any]] = {}
    with catalog.reading() as sql:
        if index := catalog.ledger.index_within(sql, namespace, "active"):
            for some in batches(uris, _READ_AT_ONCE):
                of_uris |= Chunks(sql, index.index_uid).first_metadata(some)
    return [
        replace(document, metadata=_of_document(of_uris.get(document.uri, {})))
        for document in documents
    ]


def _of_document(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a chunk without its place and what a `DocumentInfo` has anyway."""
    return {key: value for key, value in metadata.items() if key not in OF_ALL}


def count_documents(namespace: Namespace, catalog: Catalog) -> dict[str, int]:
    """Return the number of documents in each of `DOCUMENT_STATES`, counted as they are listed."""
    ledger = catalog.ledger
    with catalog.reading() as sql:
        key, beside = _keys_within(sql, namespace, ledger)
        by_state = ledger.counts_within(sql, key, beside) if key else {}
        failed = ledger.counts_within(sql, beside).get("failed", 0) if beside else 0
        waiting = catalog.added.count_waiting_within(sql, namespace, key, beside)
    counts = {state: by_state.get(state, 0) for state in DOCUMENT_STATES}
    counts["failed"] += failed
    counts["pending"] += waiting
    return counts


def find_document(namespace: Namespace, catalog: Catalog, document: str) -> DocumentInfo:
    """Return a document by its id or uri.

    Raises:
        NotFoundError: no such document.
    """
    with catalog.reading() as sql:
        info = _find_within(sql, namespace, catalog, document)
    if info is None:
        _not_there(namespace, catalog, document)
    return _with_metadata(namespace, catalog, [info])[0]


def _find_within(
    sql: Sql, namespace: Namespace, catalog: Catalog, document: str
) -> DocumentInfo | None:
    key, beside = _keys_within(sql, namespace, catalog.ledger)
    entry = catalog.ledger.document_within(sql, key, document, beside) if key else None
    excluded = excluded_uris(sql, namespace)
    if entry is not None:
        return _marked(_info(entry), excluded)
    for uri in catalog.added.waiting_within(sql, namespace, key, Page(), beside):
        if document in (uri, document_id(uri)):
            return _marked(_waiting(uri), excluded)
    return None


def _not_there(namespace: Namespace, catalog: Catalog, document: str) -> NoReturn:
    uris = [info.uri for info in page_of_documents(namespace, catalog, Page(HINTS))]
    raise no_document(namespace.kb, document, uris)


def no_document(kb_id: str, document: str, uris: Sequence[str]) -> NotFoundError:
    """Return the error for an unknown document, with suggestions from the known ones."""
    near = nearest(document, uris)
    guess = f"did you mean {near!r}; " if near else ""
    listed = ", ".join(uris[:_SHOWN]) or "none"
    more = " and more" if len(uris) > _SHOWN else ""
    message = f"knowledge base {kb_id!r} has no document {document!r}"
    return NotFoundError(f"{message}; {guess}known: {listed}{more}")


def list_chunks(
    namespace: Namespace,
    catalog: Catalog,
    document: str,
    *,
    limit: int | None = None,
    after: int = 0,
    lines: tuple[int, int] | None = None,
) -> list[ChunkInfo]:
    """List the chunks of a document that searches find, in document order.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        document: its id or uri.
        limit: maximum number of chunks; None for all.
        after: number of chunks to skip.
        lines: the first and the last of some lines; only chunks that hold one of these.

    Raises:
        NotFoundError: no document has this id or uri.
        UsageError: `limit`, `after` or `lines` is out of range.
    """
    check_limit(limit)
    if after < 0:
        raise UsageError(f"after must be at least 0, not {after}")
    if lines is not None and not 1 <= lines[0] <= lines[1]:
        raise UsageError(f"lines are given as first and last, from 1, not as {lines}")
    with catalog.reading() as sql:
        info = _find_within(sql, namespace, catalog, document)
        index = catalog.ledger.index_within(sql, namespace, "active")
        if info and index:
            chunks = Chunks(sql, index.index_uid)
            if lines is None:
                return [*map(_chunk_info, chunks.document(info.uri, limit, after))]
            some = [chunk for chunk in chunks.document(info.uri) if _holds(chunk, *lines)]
            return [*map(_chunk_info, some[after:][:limit])]
    return [] if info else _not_there(namespace, catalog, document)


def list_chunks_of(
    namespace: Namespace, catalog: Catalog, documents: Collection[str]
) -> dict[str, list[ChunkInfo]]:
    """List the chunks of several documents in one transaction, each in document order.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        documents: their ids or uris, which are the keys of the result.

    Raises:
        NotFoundError: no document has one of these ids or uris.
    """
    with catalog.reading() as sql:
        index = catalog.ledger.index_within(sql, namespace, "active")
        uris = catalog.ledger.uris_within(sql, index.key, documents) if index else {}
        for document in set(documents) - uris.keys():  # it may have failed, or not been ingested
            info = _find_within(sql, namespace, catalog, document)
            uris[document] = info.uri if info else ""
        chunks = Chunks(sql, index.index_uid).of_documents(list(uris.values())) if index else {}
    for document in documents:
        if not uris[document]:
            _not_there(namespace, catalog, document)
    return {name: [*map(_chunk_info, chunks.get(uris[name], ()))] for name in documents}


def _holds(chunk: StoredChunk, first: int, last: int) -> bool:
    about = chunk.metadata
    return bool(about.get("line_start", 0) <= last and first <= about.get("line_end", 0))


def _chunk_info(chunk: StoredChunk) -> ChunkInfo:
    return ChunkInfo(chunk.id, chunk.text, chunk.metadata, chunk.context)


def check_state(state: str | None) -> None:
    """Raise `UsageError` unless the state is one of `DOCUMENT_STATES`, or None."""
    if state is not None and state not in DOCUMENT_STATES:
        raise UsageError(f"unknown state {state!r}; {did_you_mean(state, DOCUMENT_STATES)}")


def check_limit(limit: int | None) -> None:
    """Raise `UsageError` unless the limit is at least 1, or None."""
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")


def _keys_within(
    sql: Sql, namespace: Namespace, ledger: Ledger
) -> tuple[IndexKey | None, IndexKey | None]:
    """Return the index in use and its unfinished successor.

    If none is in use, an unfinished index takes its place: all documents may have failed so far.
    """
    indexes = (ledger.index_within(sql, namespace, state) for state in ("active", "building"))
    key, beside, *_ = *(index.key for index in indexes if index), None, None
    return key, beside


def _waiting(uri: str) -> DocumentInfo:
    """Return the entry of an added document that no ingest has seen yet."""
    return DocumentInfo(document_id(uri), uri, "", "pending", "", 0, 0, "added")


def _marked(document: DocumentInfo, excluded: Collection[str]) -> DocumentInfo:
    """Return the entry of a document, marked if it is excluded from searches."""
    return replace(document, excluded=True) if document.uri in excluded else document


def _info(entry: DocumentEntry) -> DocumentInfo:
    return DocumentInfo(
        document_id(entry.uri),
        entry.uri,
        entry.title,
        entry.state,
        entry.reason,
        entry.attempts,
        entry.chunk_count,
        "added" if entry.uri.startswith(ADDED_SCHEME) else "source",
        entry.textless.get("page", 0),
        entry.textless,
        format=entry.format,
        size=entry.size,
        modified=entry.modified,
        updated_at=entry.updated_at,
    )


def list_runs(
    namespace: Namespace, catalog: Catalog, limit: int | None = None, before: str | None = None
) -> Sequence[RunInfo]:
    """List the runs of a knowledge base, the latest first.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        limit: maximum number of runs; None for all.
        before: a run's id; only runs that started before that run.

    Raises:
        NotFoundError: no run has this id.
        UsageError: the limit is less than 1.
    """
    check_limit(limit)
    mark = None
    if before is not None:
        first = find_run(namespace, catalog, before)
        mark = first.started_at, first.run_id
    return catalog.runs.list(namespace, limit, mark)


def find_run(namespace: Namespace, catalog: Catalog, run_id: str) -> RunInfo:
    """Return a run by its id.

    Raises:
        NotFoundError: no such run.
    """
    run = catalog.runs.get(namespace, run_id)
    if run is None:
        raise NotFoundError(f"knowledge base {namespace.kb!r} has no run {run_id!r}")
    return run


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
    earlier: list[int] = field(default_factory=list)
    """The numbers of the earlier indexes to which `rollback` can go back, newest first."""
    last_run: dict[str, Any] | None = None
    """`run_id`, `strategy`, `status` and `started_at` (seconds since 1970) of the latest ingest."""
    last_good_run: dict[str, Any] | None = None
    """The same of the latest ingest that has completed, with `ended_at`."""


_RUN_FIELDS = ("run_id", "strategy", "status", "started_at")


def knowledge_stats(namespace: Namespace, catalog: Catalog) -> KnowledgeStats:
    runs, good = catalog.runs.list(namespace, 1), catalog.runs.latest_good(namespace)
    stats = KnowledgeStats(
        namespace.kb,
        documents=count_documents(namespace, catalog),
        last_run=_fields(runs[0], *_RUN_FIELDS) if runs else None,
        last_good_run=_fields(good, *_RUN_FIELDS, "ended_at") if good else None,
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
        earlier=[entry.key.number for entry in catalog.ledger.earlier_indexes(namespace)],
    )


def _fields(run: RunInfo, *names: str) -> dict[str, Any]:
    return {name: getattr(run, name) for name in names}


def count_languages(catalog: Catalog, index: IndexEntry) -> dict[str, int]:
    """Return the number of documents by language, highest first, omitting those without text."""
    with catalog.reading() as sql:
        languages = Chunks(sql, index.index_uid).languages()
    languages.pop("", None)
    return dict(sorted(languages.items(), key=lambda item: (-item[1], item[0])))
