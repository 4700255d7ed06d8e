"""The ledger: the indexes, documents and runs of each knowledge base."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import nullcontext, suppress
from itertools import chain
from operator import lt
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lorebind_config.namespace import IndexKey, Namespace, document_id
from lorebind_knowledge.catalog.indexes import Indexes
from lorebind_knowledge.catalog.rows import (
    EVERY_DOCUMENT,
    HERE,
    OURS,
    OWNER,
    Page,
    Selection,
    check_types,
    damaged,
    decoding,
    not_failed_beside,
    owner,
    place,
)
from lorebind_knowledge.loaders.base import PARTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.sql import Sql


class DocumentEntry(NamedTuple):
    """A document's row in the ledger."""

    uri: str
    source: str
    title: str = ""
    state: str = "pending"
    """`pending`: being ingested, or interrupted; `ready`; `failed`: its older version may serve."""
    reason: str = ""
    attempts: int = 0
    signature: str = ""
    generation: int = 0
    """The generation that searches find; 0 means none."""
    chunk_count: int = 0
    updated_at: float = 0.0
    version: str = ""
    """The source's name for the version that was read last; empty if it has no versions."""
    recipe: str = ""
    """A digest of the settings that made its chunks; a changed recipe needs another read."""
    refused: str = ""
    """For a document that exceeded a limit: the key that must change before another read."""
    textless_parts: str = ""
    """The parts without text in the generation that searches find, see `written_parts`."""

    format: str = ""
    """The format as which the generation that searches find was read."""
    size: int = 0
    """The number of bytes of that generation."""
    modified: str = ""
    """When it was changed in its source, as `lorebind_config.dates` stores it; empty if unknown."""

    @property
    def textless(self) -> dict[str, int]:
        """The number of these parts by kind, such as `page`; empty if the row is damaged."""
        if not self.textless_parts:  # of most documents: an ingest asks for each
            return {}
        with suppress(ValueError, TypeError, AttributeError):
            parts = json.loads(self.textless_parts).items()
            return {kind: count for kind, count in parts if kind in PARTS and type(count) is int}
        return {}


def written_parts(parts: Mapping[str, int]) -> str:
    """Return the counts of parts without text as JSON; empty if there are none."""
    return json.dumps(dict(parts)) if parts else ""


class ServedDocument(NamedTuple):
    """A document that searches find."""

    uri: str
    source: str


Row = TypeVar("Row", DocumentEntry, ServedDocument)

_ROWS_AT_ONCE = 1000


class Ledger(Indexes):
    """Reads and writes the catalog's rows; each method is one transaction.

    Methods that write need the lease of the knowledge base, and raise LeaseLostError if another
    process has taken over.
    """

    def namespaces(self, project: str) -> list[Namespace]:
        """Return all namespaces of a project, of all tenants, that have any rows."""
        query = " union ".join(
            f"select tenant, project, scope, kb from {table} where project = :project"
            for table in ("catalog_indexes", "catalog_runs", "catalog_added")
        )
        with self._database.reading() as sql:
            return sorted(Namespace(*row) for row in sql.run(query, project=project))

    def drop_index(self, sql: Sql, key: IndexKey) -> None:
        """Delete the rows of an index and its documents, within a write transaction."""
        for table in ("catalog_documents", "catalog_indexes"):
            sql.run(f"delete from {table} where {HERE}", **place(key))

    def documents(self, key: IndexKey) -> dict[str, DocumentEntry]:
        """Return all documents of an index, by uri."""
        with self._database.reading() as sql:
            return {entry.uri: entry for entry in self.page_within(sql, key, Page())}

    def every_document(self, key: IndexKey) -> Iterator[DocumentEntry]:
        """Yield all documents of an index, sorted by uri, a page in each transaction.

        Only the holder of the lease may use it, as others may see documents come and go.
        """
        return chain.from_iterable(self._pages(key, DocumentEntry, _DOCUMENT_TYPES))

    def some_documents(self, key: IndexKey, uris: Collection[str]) -> list[DocumentEntry]:
        """Return these documents of an index, sorted by uri; missing ones are omitted."""
        with self._database.reading() as sql:
            which = " and uri in (:*uris) order by uri"
            return self._entries_within(sql, key, which, uris=list(uris))

    def served(self, key: IndexKey) -> Iterator[ServedDocument]:
        """Yield the documents that searches find, like `every_document`."""
        pages = self._pages(key, ServedDocument, (str, str), " and generation > 0")
        return chain.from_iterable(pages)

    def serves(self, key: IndexKey) -> bool:
        """Return whether searches find any document of an index."""
        query = f"select 1 from catalog_documents where {HERE} and generation > 0 limit 1"
        with self._database.reading() as sql:
            return bool(sql.run(query, **place(key)))

    def unready(self, key: IndexKey, state: str | None = None) -> list[str]:
        """Return the uris of the documents that are not ready; with `state`, only in this state."""
        where = f"{HERE} and state <> 'ready'{'' if state is None else ' and state = :state'}"
        query = f"select uri from catalog_documents where {where}"
        with self._database.reading() as sql:
            return [uri for (uri,) in sql.run(query, **place(key), state=state)]

    def page_within(
        self,
        sql: Sql,
        key: IndexKey,
        page: Page,
        only: Selection = EVERY_DOCUMENT,
        beside: IndexKey | None = None,
    ) -> list[DocumentEntry]:
        """Return a page of documents within a transaction.

        Args:
            sql: the transaction.
            key: the index.
            page: the part of its documents.
            only: the condition that they meet.
            beside: another index; only documents that have not failed in it.
        """
        where = only.sql() + _not_failed(beside)
        values = {**only.values, **_number(beside), **page._asdict()}
        return self._entries_within(sql, key, where + page.sql, **values)

    def failures_within(
        self,
        sql: Sql,
        key: IndexKey,
        beside: IndexKey,
        page: Page,
        only: Selection = EVERY_DOCUMENT,
    ) -> list[DocumentEntry]:
        """Return a page of the documents that failed in an index beside the one in use.

        Their titles, formats and so on are those of the index in use, which searches find.
        """
        served_row = (
            f"from catalog_documents as served where {OURS} and number = :served"
            " and uri = catalog_documents.uri"
        )
        only = only._replace(state="failed")
        where = only.sql(
            f"coalesce((select names {served_row}), names)",
            f"coalesce((select format {served_row}), '')",
        )
        values = {**only.values, "served": key.number, **page._asdict()}
        failed = self._entries_within(sql, beside, where + page.sql, **values)
        uris = [entry.uri for entry in failed]
        entries = self._entries_within(sql, key, " and uri in (:*uris)", uris=uris)
        served = {entry.uri: entry for entry in entries}
        return [_as_served(entry, served.get(entry.uri)) for entry in failed]

    def document_within(
        self, sql: Sql, key: IndexKey, document: str, beside: IndexKey | None = None
    ) -> DocumentEntry | None:
        """Return the document with this uri or id, or None, within a transaction.

        If it has failed in the index `beside`, its failure is returned; see `failures_within`.
        """
        served = self._named_within(sql, key, document)
        failed = self._named_within(sql, beside, document) if beside else None
        return _as_served(failed, served) if failed and failed.state == "failed" else served

    def uris_within(self, sql: Sql, key: IndexKey, documents: Collection[str]) -> dict[str, str]:
        """Return the uris of documents by uri or id, within a transaction; others are omitted."""
        query = f"select uri, id from catalog_documents where {HERE} and"
        uris: dict[str, str] = {}
        for column, at in (("id", 1), ("uri", 0)):
            rows = sql.run(f"{query} {column} in (:*names)", **place(key), names=list(documents))
            uris |= {row[at]: row[0] for row in rows}
        return uris

    def counts_within(
        self, sql: Sql, key: IndexKey, beside: IndexKey | None = None
    ) -> dict[str, int]:
        """Return the number of documents by state, in a transaction; see `page_within`."""
        documents = f"catalog_documents where {HERE}{_not_failed(beside)}"
        # Ready ones are counted as the rest of all, since that reads only an index.
        query = (
            f"select state, count(*) from {documents} and state <> 'ready' group by state"
            f" union all select 'ready', count(*) from {documents}"
        )
        with decoding(self._database, nullcontext(sql), "documents"):
            rows = sql.run(query, **place(key), **_number(beside))
            for row in rows:
                check_types(row, (str, int))
        counts = dict(rows)
        counts["ready"] -= sum(counts.values()) - counts["ready"]
        return counts

    def put_documents(
        self, lease: Lease, key: IndexKey, entries: Sequence[DocumentEntry], run_id: str
    ) -> None:
        """Insert or update documents' rows, all of them or none."""
        if entries:
            with self._writing(lease) as sql:
                put_documents(sql, key, entries, run_id)

    def start_run(self, lease: Lease, strategy: str, run_id: str | None = None) -> str:
        """Record a new run, and mark earlier unfinished runs as failed: their leases are gone.

        With the id of an earlier run, the new run replaces it.
        """
        run_id = run_id or uuid.uuid4().hex[:12]
        ours = {**owner(lease.namespace), "now": time.time()}
        with self._writing(lease) as sql:
            sql.run(
                "update catalog_runs set status = 'failed', finished_at = :now"
                f" where {OURS} and status = 'running'",
                **ours,
            )
            sql.run(
                f"delete from catalog_runs where {OURS} and run_id = :run_id",
                **owner(lease.namespace),
                run_id=run_id,
            )
            sql.run(
                f"insert into catalog_runs ({OWNER}, run_id, strategy, status, started_at)"
                " values (:tenant, :project, :scope, :kb, :run_id, :strategy, 'running', :now)",
                **ours,
                run_id=run_id,
                strategy=strategy,
            )
        return run_id

    def finish_run(
        self,
        lease: Lease,
        run_id: str,
        status: str,
        report: Mapping[str, Any] | None,
        progress: Mapping[str, int] | None = None,
    ) -> None:
        with self._writing(lease) as sql:
            sql.run(
                "update catalog_runs set status = :status, finished_at = :now, report = :report,"
                f" progress = :progress where {OURS} and run_id = :run_id",
                **owner(lease.namespace),
                run_id=run_id,
                status=status,
                now=time.time(),
                report=json.dumps(report),
                progress=json.dumps(progress),
            )

    def forget_runs(self, lease: Lease) -> None:
        with self._writing(lease) as sql:
            sql.run(f"delete from catalog_runs where {OURS}", **owner(lease.namespace))

    def _pages(
        self, key: IndexKey, kind: type[Row], types: tuple[type, ...], where: str = ""
    ) -> Iterator[list[Row]]:
        """Yield rows with the columns of `kind`, sorted by uri, its first one."""
        page = Page(_ROWS_AT_ONCE)
        columns: Any = kind
        names = ", ".join(columns._fields)
        while True:
            query = f"select {names} from catalog_documents where {HERE}{where}{page.sql}"
            with decoding(self._database, self._database.reading(), "documents") as sql:
                rows = sql.run(query, **place(key), **page._asdict())
                for row in rows:
                    check_types(row, types)
            uris = [row[0] for row in rows]
            if page.after is not None:
                uris.insert(0, page.after)
            # Callers compare what is sorted, and would take documents as removed.
            if not all(map(lt, uris, uris[1:])):
                raise damaged("its documents are not sorted by uri")
            yield list(map(columns._make, rows))
            if len(rows) < _ROWS_AT_ONCE:
                return
            page = page._replace(after=uris[-1])

    def _named_within(self, sql: Sql, key: IndexKey, document: str) -> DocumentEntry | None:
        for column in ("uri", "id"):
            if entries := self._entries_within(sql, key, f" and {column} = :name", name=document):
                return entries[0]
        return None

    def _entries_within(
        self, sql: Sql, key: IndexKey, which: str, **values: Any
    ) -> list[DocumentEntry]:
        columns = ", ".join(DocumentEntry._fields)
        query = f"select {columns} from catalog_documents where {HERE}{which}"
        with decoding(self._database, nullcontext(sql), "documents"):
            rows = sql.run(query, **place(key), **values)
            for row in rows:
                check_types(row, _DOCUMENT_TYPES)
        return [DocumentEntry(*row) for row in rows]


def put_documents(sql: Sql, key: IndexKey, entries: Sequence[DocumentEntry], run_id: str) -> None:
    """Insert or update documents' rows within a transaction.

    Their failures in an unfinished successor of the index become `pending`: they are out of date.
    """
    if entries:
        shared = {**place(key), "run_id": run_id, "updated_at": time.time()}
        rows = [entry._asdict() | shared | _derived(entry) for entry in entries]
        sql.insert("catalog_documents", rows, _PUT_AGAIN)
        sql.run(
            f"update catalog_documents set state = 'pending' where {OURS} and number > :number"
            " and uri in (:*uris) and state = 'failed' and state <> 'ready'",  # for a partial index
            **place(key),
            uris=[entry.uri for entry in entries],
        )


def _derived(entry: DocumentEntry) -> dict[str, str]:
    return {"id": document_id(entry.uri), "names": f"{entry.uri}\n{entry.title}".casefold()}


def _not_failed(beside: IndexKey | None) -> str:
    return f" and {not_failed_beside('catalog_documents')}" if beside else ""


def _number(beside: IndexKey | None) -> dict[str, int]:
    return {"beside": beside.number} if beside else {}


def _as_served(failed: DocumentEntry, served: DocumentEntry | None) -> DocumentEntry:
    """Return a failure in a successor, with what searches find of the document."""
    if served is None:
        return failed._replace(chunk_count=0, textless_parts="", format="", size=0)
    return failed._replace(
        title=served.title,
        chunk_count=served.chunk_count,
        textless_parts=served.textless_parts,
        format=served.format,
        size=served.size,
        modified=served.modified,
    )


def remove_documents(sql: Sql, key: IndexKey, uris: Sequence[str]) -> None:
    """Delete documents' rows, and what OCR recognized in them, within a transaction."""
    for rows in (f"catalog_documents where {HERE}", f"catalog_recognized where {OURS}"):
        sql.run(f"delete from {rows} and uri in (:*uris)", **place(key), uris=list(uris))


_DOCUMENT_TYPES = tuple(
    type(DocumentEntry._field_defaults.get(name, "")) for name in DocumentEntry._fields
)
_PUT_AGAIN = f"on conflict ({OWNER}, number, uri) do update set " + ", ".join(
    f"{name} = excluded.{name}" for name in (*DocumentEntry._fields[1:], "id", "names", "run_id")
)
