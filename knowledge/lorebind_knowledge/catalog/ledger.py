"""The ledger: which indexes, documents and runs a knowledge base has."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, delete, func, insert, select, update

from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.schema import documents, indexes, runs
from lorebind_knowledge.catalog.sql import Sql, upsert_of
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Space

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Connection, Table

    from lorebind_knowledge.catalog.database import Database
    from lorebind_knowledge.catalog.leases import Lease


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index was built with. Vectors of another embedder do not belong in it."""

    embedder: str
    """The embedder's name, for messages."""
    embedder_key: str
    """The embedder's fingerprint."""
    dimension: int
    """Measured, not configured."""
    chunker: str
    """The fingerprint of chunker and loaders, as of the last ingest."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index of a knowledge base: `active` is searched, `building` is its successor."""

    key: IndexKey
    state: str
    manifest: Manifest
    birth: int
    """Random: an index that gets the number of one that was dropped has another."""

    @property
    def space(self) -> Space:
        """Its room in the store."""
        return Space(self.key, self.birth, self.manifest.dimension)


class DocumentEntry(NamedTuple):
    """What the ledger knows of a document."""

    uri: str
    source: str
    title: str = ""
    state: str = "pending"
    """`pending`: being ingested, or interrupted; `ready`; `failed`: its older version may serve."""
    reason: str = ""
    attempts: int = 0
    signature: str = ""
    generation: int = 0
    """The one that searches find; 0 is none."""
    chunk_count: int = 0
    updated_at: float = 0.0
    version: str = ""
    """What its source called the version that was read last; empty if it cannot tell."""
    recipe: str = ""
    """How that version was made into chunks; with another recipe it has to be read again."""
    refused: str = ""
    """What must change before a document that exceeded a limit is read again; else empty."""


STATES = ("building", "active", "retired")
"""Of an index: to be searched one day, searched, to be dropped."""


class Ledger:
    """Reads and writes the catalog's rows; each method is one transaction.

    Whatever writes is given the lease of the knowledge base, and raises LeaseLostError where
    another process has taken over.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def index(self, namespace: Namespace, state: str) -> IndexEntry | None:
        """The newest index in that state, if there is one."""
        with self._database.reading() as connection:
            return self.index_within(connection, namespace, state)

    def index_within(
        self, connection: Connection, namespace: Namespace, state: str
    ) -> IndexEntry | None:
        """The same, within a transaction."""
        found = self._indexes_within(connection, namespace, state)
        return found[0] if found else None

    def namespaces(self, project: str) -> list[Namespace]:
        """Whose indexes and runs of a project the catalog holds, of all tenants."""
        columns = ", ".join(Namespace.__slots__)
        query = " union ".join(
            f"select {columns} from {table} where project = :project"
            for table in ("catalog_indexes", "catalog_runs")
        )
        with self._database.reading() as connection:
            return sorted(Namespace(*row) for row in Sql(connection).run(query, project=project))

    def forget_runs(self, lease: Lease) -> None:
        with self._writing(lease) as connection:
            connection.execute(delete(runs).where(_of(runs, lease.namespace)))

    def create_index(self, lease: Lease, manifest: Manifest) -> IndexEntry:
        """A new index, `building` until it is activated."""
        namespace = lease.namespace
        with self._decoding(self._writing(lease), "indexes") as connection:
            last = connection.scalar(
                select(func.max(indexes.c.number)).where(_of(indexes, namespace))
            )
            key = IndexKey(namespace, (last or 0) + 1)
            entry = IndexEntry(key, "building", manifest, secrets.randbits(62))
            connection.execute(
                insert(indexes).values(
                    **_columns(namespace),
                    number=key.number,
                    state=entry.state,
                    manifest=asdict(manifest),
                    birth=entry.birth,
                    created_at=time.time(),
                )
            )
        return entry

    def activate_index(self, lease: Lease, key: IndexKey) -> None:
        """In one step this index is the one searched, and the one before it is retired."""
        ours = _of(indexes, key.namespace)
        with self._writing(lease) as connection:
            connection.execute(
                update(indexes).where(ours, indexes.c.state == "active").values(state="retired")
            )
            connection.execute(
                update(indexes).where(ours, indexes.c.number == key.number).values(state="active")
            )

    def retire_index(self, lease: Lease, key: IndexKey) -> None:
        """This index is to be dropped: nothing goes on with it, whatever is left of it."""
        with self._writing(lease) as connection:
            connection.execute(update(indexes).where(_in(indexes, key)).values(state="retired"))

    def set_manifest(self, lease: Lease, key: IndexKey, manifest: Manifest) -> None:
        with self._writing(lease) as connection:
            connection.execute(
                update(indexes)
                .where(_of(indexes, key.namespace), indexes.c.number == key.number)
                .values(manifest=asdict(manifest))
            )

    def retired_indexes(self, namespace: Namespace) -> list[IndexEntry]:
        with self._database.reading() as connection:
            return self._indexes_within(connection, namespace, "retired")

    def drop_index(self, connection: Connection, key: IndexKey) -> None:
        """Forget an index and its documents, within a transaction that writes."""
        connection.execute(delete(documents).where(_in(documents, key)))
        connection.execute(delete(indexes).where(_in(indexes, key)))

    def documents(self, key: IndexKey) -> dict[str, DocumentEntry]:
        """All documents of an index, by uri."""
        columns = [documents.c[name] for name in DocumentEntry._fields]
        query = select(*columns).where(_in(documents, key)).order_by("uri")
        entries = {}
        with self._decoding(self._database.reading(), "documents") as connection:
            for row in connection.execute(query):
                _check_types(row, _DOCUMENT_TYPES)
                entries[row.uri] = DocumentEntry(*row)
        return entries

    def put_documents(
        self, lease: Lease, key: IndexKey, entries: Sequence[DocumentEntry], run_id: str
    ) -> None:
        """Write documents' rows, whether they were there or not, all of them or none."""
        if entries:
            with self._writing(lease) as connection:
                put_documents(connection, key, entries, run_id)

    def start_run(self, lease: Lease, strategy: str) -> str:
        """A new run; earlier ones that never ended have failed, for their leases are gone."""
        run_id = uuid.uuid4().hex[:12]
        namespace = lease.namespace
        with self._writing(lease) as connection:
            connection.execute(
                update(runs)
                .where(_of(runs, namespace), runs.c.status == "running")
                .values(status="failed", finished_at=time.time())
            )
            connection.execute(
                insert(runs).values(
                    **_columns(namespace),
                    run_id=run_id,
                    strategy=strategy,
                    status="running",
                    started_at=time.time(),
                )
            )
        return run_id

    def finish_run(
        self, lease: Lease, run_id: str, status: str, report: Mapping[str, Any] | None
    ) -> None:
        with self._writing(lease) as connection:
            connection.execute(
                update(runs)
                .where(_of(runs, lease.namespace), runs.c.run_id == run_id)
                .values(status=status, finished_at=time.time(), report=report)
            )

    def last_runs(self, namespace: Namespace, limit: int) -> Sequence[Mapping[str, Any]]:
        query = (
            select(runs.c.run_id, runs.c.strategy, runs.c.status, runs.c.started_at)
            .where(_of(runs, namespace))
            .order_by(runs.c.started_at.desc())
            .limit(limit)
        )
        with self._decoding(self._database.reading(), "runs") as connection:
            rows = connection.execute(query).all()
            for row in rows:
                _check_types(row, (str, str, str, float))
        return [dict(row._mapping) for row in rows]

    def _indexes_within(
        self, connection: Connection, namespace: Namespace, state: str
    ) -> list[IndexEntry]:
        """All in that state, the newest first."""
        found = []
        with self._decoding(nullcontext(connection), "indexes"):
            for row in Sql(connection).run(_INDEXES, **_columns(namespace), state=state):
                number, encoded, birth = row
                given = json.loads(encoded) if isinstance(encoded, str) else encoded
                manifest = Manifest(**given)
                values = (number, birth, *asdict(manifest).values())
                _check_types(values, (int, int, *_MANIFEST_TYPES))
                found.append(IndexEntry(IndexKey(namespace, number), state, manifest, birth))
        return found

    @contextmanager
    def _writing(self, lease: Lease) -> Iterator[Connection]:
        with self._database.writing() as connection:
            leases.check(connection, lease)
            yield connection

    @contextmanager
    def _decoding(
        self, transaction: AbstractContextManager[Connection], what: str
    ) -> Iterator[Connection]:
        """A transaction in which rows that nobody can have written are an error of their own.

        Raises:
            StoreError: naming the database and the repair.
        """
        try:
            with transaction as connection:
                yield connection
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{self._database}: its {what} are damaged: {error}; move it away and ingest "
                "again, or restore a copy"
            ) from error


def put_documents(
    connection: Connection, key: IndexKey, entries: Sequence[DocumentEntry], run_id: str
) -> None:
    """Write documents' rows within a transaction, whether they were there or not."""
    if entries:
        shared = {**_owner(key), "run_id": run_id, "updated_at": time.time()}
        Sql(connection).many(_PUT, [entry._asdict() | shared for entry in entries])


def remove_documents(connection: Connection, key: IndexKey, uris: Sequence[str]) -> None:
    """Remove documents' rows within a transaction."""
    for uri in uris:
        connection.execute(delete(documents).where(_in(documents, key), documents.c.uri == uri))


def _check_types(values: Iterable[object], types: tuple[type, ...]) -> None:
    """SQLite lets any value be in any column."""
    found = tuple(map(type, values))
    if found != types:
        wrong = next(pair for pair in zip_longest(found, types) if pair[0] is not pair[1])
        raise TypeError("expected {1.__name__}, found {0.__name__}".format(*wrong))


def _columns(namespace: Namespace) -> dict[str, str]:
    return {name: getattr(namespace, name) for name in Namespace.__slots__}


def _owner(key: IndexKey) -> dict[str, Any]:
    return {**_columns(key.namespace), "number": key.number}


def _of(table: Table, namespace: Namespace) -> ColumnElement[bool]:
    return and_(*(table.c[name] == value for name, value in _columns(namespace).items()))


def _in(table: Table, key: IndexKey) -> ColumnElement[bool]:
    return and_(_of(table, key.namespace), table.c.number == key.number)


_MANIFEST_TYPES = (str, str, int, str)
_DOCUMENT_TYPES = tuple(
    type(DocumentEntry._field_defaults.get(name, "")) for name in DocumentEntry._fields
)

_INDEXES = (
    "select number, manifest, birth from catalog_indexes where tenant = :tenant"
    " and project = :project and scope = :scope and kb = :kb and state = :state"
    " order by number desc"
)
_PUT = upsert_of(documents)
