"""The ledger: which indexes, documents and runs a knowledge base has."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, bindparam, delete, func, insert, select, update

from lorebind_knowledge.catalog.database import insert_of
from lorebind_knowledge.catalog.schema import documents, indexes, runs
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.namespace import IndexKey, Namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Connection, Dialect, Table

    from lorebind_knowledge.catalog.database import Database


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
    staged: int = 0
    chunk_count: int = 0
    updated_at: float = 0.0
    version: str = ""
    """What its source called the version that was read last; empty if it cannot tell."""
    recipe: str = ""
    """How that version was made into chunks; with another recipe it has to be read again."""
    refused: str = ""
    """What must change before a document that exceeded a limit is read again; else empty."""


class Ledger:
    """Reads and writes the catalog's rows; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def index(self, namespace: Namespace, state: str) -> IndexEntry | None:
        """The newest index in that state, if there is one."""
        with self._decoding(self._database.reading(), "indexes") as connection:
            row = connection.execute(_INDEX, {**_columns(namespace), "state": state}).first()
            if row is None:
                return None
            _check_types((row.number,), (int,))
            manifest = Manifest(**row.manifest)
            _check_types(asdict(manifest).values(), _MANIFEST_TYPES)
        return IndexEntry(IndexKey(namespace, row.number), state, manifest)

    def create_index(self, namespace: Namespace, manifest: Manifest) -> IndexEntry:
        """A new index, `building` until it is activated."""
        with self._decoding(self._database.writing(), "indexes") as connection:
            last = connection.scalar(
                select(func.max(indexes.c.number)).where(_of(indexes, namespace))
            )
            key = IndexKey(namespace, (last or 0) + 1)
            connection.execute(
                insert(indexes).values(
                    **_columns(namespace),
                    number=key.number,
                    state="building",
                    manifest=asdict(manifest),
                    created_at=time.time(),
                )
            )
        return IndexEntry(key, "building", manifest)

    def activate_index(self, key: IndexKey) -> None:
        """In one step this index is the one searched, and the one before it is retired."""
        ours = _of(indexes, key.namespace)
        with self._database.writing() as connection:
            connection.execute(
                update(indexes).where(ours, indexes.c.state == "active").values(state="retired")
            )
            connection.execute(
                update(indexes).where(ours, indexes.c.number == key.number).values(state="active")
            )

    def retire_index(self, key: IndexKey) -> None:
        """This index is to be dropped: nothing goes on with it, whatever is left of it."""
        with self._database.writing() as connection:
            connection.execute(update(indexes).where(_in(indexes, key)).values(state="retired"))

    def set_manifest(self, key: IndexKey, manifest: Manifest) -> None:
        with self._database.writing() as connection:
            connection.execute(
                update(indexes)
                .where(_of(indexes, key.namespace), indexes.c.number == key.number)
                .values(manifest=asdict(manifest))
            )

    def retired_indexes(self, namespace: Namespace) -> list[IndexKey]:
        query = select(indexes.c.number).where(
            _of(indexes, namespace), indexes.c.state == "retired"
        )
        with self._decoding(self._database.reading(), "indexes") as connection:
            numbers = connection.scalars(query).all()
            _check_types(numbers, (int,) * len(numbers))
        return [IndexKey(namespace, number) for number in numbers]

    def drop_index(self, key: IndexKey) -> None:
        """Forget an index and its documents."""
        with self._database.writing() as connection:
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

    def chunk_ids(self, key: IndexKey, uri: str) -> list[str]:
        """The ids of a document's visible chunks, in order."""
        return self.chunk_ids_of(key, [uri]).get(uri, [])

    def chunk_ids_of(self, key: IndexKey, uris: Sequence[str]) -> dict[str, list[str]]:
        """The same of several documents; those without a row are left out."""
        found: dict[str, list[str]] = {}
        if not uris:
            return found
        owner = _owner(key)
        with self._decoding(self._database.reading(), "documents") as connection:
            for first in range(0, len(uris), _URIS_PER_QUERY):
                some = uris[first : first + _URIS_PER_QUERY]
                for uri, ids in connection.execute(_CHUNK_IDS, {**owner, "uris": some}):
                    _check_types((ids, *ids), (list, *(str for _ in ids)))
                    found[uri] = ids
        return found

    def put_documents(
        self,
        key: IndexKey,
        entries: Sequence[DocumentEntry],
        run_id: str,
        chunk_ids: Sequence[list[str]] | None = None,
    ) -> None:
        """Write documents' rows, whether they were there or not, all of them or none.

        Args:
            key: the index.
            entries: what the rows are to say.
            run_id: the run that writes them.
            chunk_ids: of each entry the ids of its visible chunks; None keeps what the rows have.
        """
        if not entries:
            return
        shared = {**_owner(key), "run_id": run_id, "updated_at": time.time(), "chunk_ids": "[]"}
        rows = [entry._asdict() | shared for entry in entries]
        if chunk_ids is not None:
            for row, ids in zip(rows, chunk_ids, strict=True):
                row["chunk_ids"] = json.dumps(ids)
        with self._database.writing() as connection:
            put = _put(connection.dialect, keep_ids=chunk_ids is None)
            connection.exec_driver_sql(put, rows)

    def remove_document(self, key: IndexKey, uri: str) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(documents).where(_in(documents, key), documents.c.uri == uri))

    def start_run(self, namespace: Namespace, strategy: str) -> str:
        """A new run; rows of runs that never ended are marked as failed."""
        run_id = uuid.uuid4().hex[:12]
        with self._database.writing() as connection:
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
        self, namespace: Namespace, run_id: str, status: str, report: Mapping[str, Any] | None
    ) -> None:
        with self._database.writing() as connection:
            connection.execute(
                update(runs)
                .where(_of(runs, namespace), runs.c.run_id == run_id)
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

# Built once, because building costs more than running.
_KEYS = [column.name for column in documents.primary_key]
_INDEX = (
    select(indexes.c.number, indexes.c.manifest)
    .where(*(indexes.c[name] == bindparam(name) for name in (*Namespace.__slots__, "state")))
    .order_by(indexes.c.number.desc())
    .limit(1)
)
_CHUNK_IDS = select(documents.c.uri, documents.c.chunk_ids).where(
    *(documents.c[name] == bindparam(name) for name in _KEYS if name != "uri"),
    documents.c.uri.in_(bindparam("uris", expanding=True)),
)
_URIS_PER_QUERY = 500


@lru_cache(maxsize=16)
def _put(dialect: Dialect, *, keep_ids: bool) -> str:
    """The upsert of a row as the driver takes it, with a name for each column.

    SQLAlchemy would look at each value of each row, which takes longer than writing them.
    """
    statement = insert_of(dialect.name)(documents)
    kept = (*_KEYS, "chunk_ids") if keep_ids else _KEYS
    written = {name: new for name, new in statement.excluded.items() if name not in kept}
    put = statement.on_conflict_do_update(index_elements=_KEYS, set_=written)
    return str(put.compile(dialect=dialect))
