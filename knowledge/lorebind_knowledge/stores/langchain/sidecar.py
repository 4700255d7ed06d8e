"""The sidecar of a LangChain store: which of its documents are which records, and which are live.

A LangChain `VectorStore` knows neither indexes nor generations. They are kept here, in a small
SQLite file of their own, or in memory for a store that is there too. A document is entered before
the wrapped store hears of it, and leaves after it is deleted there, so that whatever is cut off in
between can be finished.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.data_folder import file_identity, make_data_folder
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import RecordFilter
    from lorebind_knowledge.stores.checks import Entry

WRITING, STAGED, LIVE, DEAD = range(4)
"""Where a document stands; one that is being written or is dead counts as not there."""

_BUSY_SECONDS = 10.0
_TABLES = """
create table if not exists langchain_indexes (
  key integer primary key autoincrement,
  tenant text not null, project text not null, scope text not null, kb text not null,
  number integer not null,
  dimension integer not null,
  version integer not null default 0,
  unique (tenant, project, scope, kb, number)
);
create table if not exists langchain_documents (
  document text primary key,
  index_key integer not null,
  dimension integer not null,
  uri text not null,
  id text not null,
  generation integer not null,
  state integer not null
);
create index if not exists langchain_documents_record
  on langchain_documents (index_key, uri, id, generation);
create index if not exists langchain_documents_dead
  on langchain_documents (state) where state = 3;
"""


class Index(NamedTuple):
    """An index as one transaction sees it."""

    key: int
    dimension: int
    version: int
    """Counts the changes to what is live."""


class Identity(NamedTuple):
    """The record that a document is."""

    uri: str
    id: str
    generation: int


class Sidecar:
    """Its tables and what is asked of them. To be used by one thread at a time."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None
        self._owner: tuple[int, tuple[int, ...] | None] = (0, None)

    @contextmanager
    def transaction(self, *, create: bool = False) -> Iterator[sqlite3.Connection | None]:
        """Committed at the end of the block, or not at all; None if there is no file yet."""
        try:
            db = self._opened(create=create)
            if db is None:
                yield None
                return
            db.execute("begin immediate")
            try:
                yield db
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path}: {error}; check that you may read and write the file and its folder, "
                "and that no other process holds it"
            ) from error

    def close(self) -> None:
        if self._db is not None and self._owner[0] == os.getpid():
            self._db.close()
        self._db = None

    def _opened(self, *, create: bool) -> sqlite3.Connection | None:
        if self.path is None:
            if self._db is None:
                self._db, self._owner = _connect(":memory:"), (os.getpid(), None)
            return self._db
        now = os.getpid(), file_identity(self.path)
        if self._db is not None and self._owner == now:
            return self._db
        # After a fork the connection is the parent's; after a swap it leads to another file.
        self.close()
        if now[1] is None:
            if not create:
                return None
            make_data_folder(self.path)
        self._db = _connect(str(self.path))
        self._owner = os.getpid(), file_identity(self.path)
        return self._db


def find(db: sqlite3.Connection | None, index: IndexKey) -> Index | None:
    if db is None:
        return None
    row = db.execute(
        "select key, dimension, version from langchain_indexes"
        " where tenant = ? and project = ? and scope = ? and kb = ? and number = ?",
        _names(index),
    ).fetchone()
    return None if row is None else Index(*row)


def make_index(db: sqlite3.Connection, index: IndexKey, dimension: int) -> None:
    db.execute(
        "insert into langchain_indexes (tenant, project, scope, kb, number, dimension)"
        " values (?, ?, ?, ?, ?, ?)",
        (*_names(index), dimension),
    )


def drop_index(db: sqlite3.Connection, index: Index) -> None:
    db.execute(f"update langchain_documents set state = {DEAD} where index_key = ?", (index.key,))
    db.execute("delete from langchain_indexes where key = ?", (index.key,))


def enter(db: sqlite3.Connection, index: Index, documents: Mapping[str, Entry]) -> None:
    """Note documents that are about to be written."""
    db.executemany(
        f"insert into langchain_documents values (?, ?, ?, ?, ?, ?, {WRITING})",
        [
            (name, index.key, index.dimension, entry.uri, entry.id, entry.generation)
            for name, entry in documents.items()
        ],
    )


def stage(db: sqlite3.Connection, index: Index, documents: Mapping[str, Entry]) -> None:
    """Documents that are written replace what was staged under the same identity."""
    for name, entry in documents.items():
        db.execute(
            f"update langchain_documents set state = {DEAD} where index_key = ? and uri = ?"
            f" and id = ? and generation = ? and state in ({WRITING}, {STAGED}) and document <> ?",
            (index.key, entry.uri, entry.id, entry.generation, name),
        )
        db.execute(f"update langchain_documents set state = {STAGED} where document = ?", (name,))


def give_up(db: sqlite3.Connection, documents: Mapping[str, Entry]) -> None:
    """Documents that could not be written are to be deleted, those that were written after all."""
    db.executemany(
        f"update langchain_documents set state = {DEAD} where document = ?",
        [(name,) for name in documents],
    )


def publish(db: sqlite3.Connection, index: Index, uri: str, generation: int) -> None:
    document = "index_key = ?1 and uri = ?2"
    values = (index.key, uri, generation)
    # What was staged again is newer than what is live under the same identity.
    db.execute(
        f"update langchain_documents set state = {DEAD} where {document} and state = {LIVE}"
        " and exists (select 1 from langchain_documents as new where new.index_key = ?1"
        " and new.uri = ?2 and new.id = langchain_documents.id"
        f" and new.generation = langchain_documents.generation and new.state = {STAGED})",
        values[:2],
    )
    rising = db.execute(
        f"update langchain_documents set state = {LIVE}"
        f" where {document} and generation = ?3 and state = {STAGED}",
        values,
    ).rowcount
    falling = db.execute(
        f"update langchain_documents set state = {STAGED}"
        f" where {document} and generation <> ?3 and state = {LIVE}",
        values,
    ).rowcount
    _count_change(db, index, changed=bool(rising or falling))


def condemn(db: sqlite3.Connection, index: Index, filter: RecordFilter) -> int:  # noqa: A002
    """Let records be gone; how many they were."""
    meant = "index_key = :key"
    for name, sign in (("uri", "="), ("generation", "="), ("except_generation", "<>")):
        if getattr(filter, name) is not None:
            meant += f" and {name.removeprefix('except_')} {sign} :{name}"
    values = {
        "key": index.key,
        "uri": filter.uri,
        "generation": filter.generation,
        "except_generation": filter.except_generation,
    }
    states = db.execute(
        f"select state, count(*) from langchain_documents where {meant} group by state", values
    )
    counts: dict[int, int] = dict(states.fetchall())
    db.execute(f"update langchain_documents set state = {DEAD} where {meant}", values)
    _count_change(db, index, changed=bool(counts.get(LIVE)))
    return counts.get(STAGED, 0) + counts.get(LIVE, 0)


def live(db: sqlite3.Connection, index: Index) -> dict[str, Identity]:
    """The documents that searches find, each with whose it is."""
    rows = db.execute(
        "select document, uri, id, generation from langchain_documents"
        f" where index_key = ? and state = {LIVE}",
        (index.key,),
    )
    return {document: Identity(*identity) for document, *identity in rows}


def dead(db: sqlite3.Connection) -> dict[int, list[str]]:
    """What is still to be deleted, by dimension."""
    found: dict[int, list[str]] = {}
    for dimension, document in db.execute(
        f"select dimension, document from langchain_documents where state = {DEAD}"
    ):
        found.setdefault(dimension, []).append(document)
    return found


def forget(db: sqlite3.Connection, documents: Sequence[str]) -> None:
    db.executemany(
        "delete from langchain_documents where document = ?", [(name,) for name in documents]
    )


def _count_change(db: sqlite3.Connection, index: Index, *, changed: bool) -> None:
    if changed:
        db.execute("update langchain_indexes set version = version + 1 where key = ?", (index.key,))


def _names(index: IndexKey) -> tuple[str, str, str, str, int]:
    owner = index.namespace
    return owner.tenant, owner.project, owner.scope, owner.kb, index.number


def _connect(place: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        place, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = normal")
        db.executescript(_TABLES)
    except BaseException:
        db.close()
        raise
    return db
