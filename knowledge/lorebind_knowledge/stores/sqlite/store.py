"""The embedded store: one SQLite file, the standard library's sqlite3, and a matrix in memory.

Vectors are float32 blobs in the file. Each process keeps the published ones of an index as a
matrix, which it brings up to date when the index's version in the file says that something visible
has changed. A search reads that version, ranks, and fetches texts within one read transaction, so
no other process can make its answer a mixture.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.filters import compile_filter
from lorebind_knowledge.records import DocumentMatch, StoredRecord
from lorebind_knowledge.stores.checks import (
    Entry,
    by_index,
    check_dimension,
    check_options,
    check_query,
    check_room,
    entries_of,
    not_opened,
    stored_metadata,
)
from lorebind_knowledge.stores.lexical import best_matches
from lorebind_knowledge.stores.masks import Masks
from lorebind_knowledge.stores.matrix import ExactMatrix, score_of, unit_vector
from lorebind_knowledge.stores.sqlite.file import SqliteFile
from lorebind_knowledge.stores.sqlite.words import (
    add_words,
    drop_words,
    make_words,
    ranked,
    remove_words,
)
from lorebind_knowledge.stores.terms import terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import Record, RecordFilter, SearchOptions, Vector


class _Index(NamedTuple):
    """An index as one transaction sees it."""

    key: int
    dimension: int
    birth: int
    """A random number: an index of the same name in another file is another index."""
    version: int
    """Counts the changes to what is published."""


@dataclass(frozen=True, slots=True, eq=False)
class _Snapshot:
    """All that is published in an index at one version. Immutable."""

    index: _Index
    matrix: ExactMatrix
    masks: Masks


class _Latest:
    """The newest snapshot of an index that this process has loaded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.snapshot: _Snapshot | None = None


class SqliteStore:
    """A `VectorStore`, `LexicalStore` and `FetchStore` in one SQLite file; exact, for one machine.

    The file is made, with its folder, when the first index is opened; other tables may live beside
    those named `vector_…`. Any number of threads and processes may use it at once.

    Lexical search is FTS5's BM25 over the published records of the index that is searched.
    """

    def __init__(self, path: Path | str) -> None:
        if str(path) == ":memory:":
            raise UsageError("SqliteStore keeps a file; use MemoryStore to keep nothing")
        self._file = SqliteFile(Path(path))
        self._latest: dict[IndexKey, _Latest] = {}

    def open(self, index: IndexKey, dimension: int) -> None:
        check_room(index, dimension)
        with self._file.reading() as db:
            found = _find(db, index)
        if found is None:
            with self._file.writing(create=True) as db:
                assert db is not None  # what `create` is for
                db.execute(
                    "insert or ignore into vector_indexes"
                    " (tenant, project, scope, kb, number, dimension, birth)"
                    " values (?, ?, ?, ?, ?, ?, ?)",
                    (*_names(index), dimension, secrets.randbits(62)),
                )
                _, found = self._opened(db, index)
                make_words(db, found.key)
        check_dimension(index, found.dimension, dimension)

    def upsert(self, records: Sequence[Record]) -> None:
        if not records:
            return
        with self._file.writing() as view:
            for index, group in by_index(records).items():
                db, found = self._opened(view, index)
                entries = entries_of(group, found.dimension)
                db.executemany(
                    "insert or replace into vector_records"
                    " (index_key, uri, id, generation, text, metadata, vector, context)"
                    " values (?, ?, ?, ?, ?, ?, ?, ?)",
                    [(found.key, *_columns(entry)) for entry in entries],
                )

    def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        with self._file.writing() as view:
            db, found = self._opened(view, index)
            if _publish(db, found, uri, generation):
                _count_change(db, found)

    def replace_documents(self, index: IndexKey, generations: Mapping[str, int]) -> None:
        with self._file.writing() as view:
            db, found = self._opened(view, index)
            db.execute(
                "create temp table if not exists wanted (uri text primary key, generation integer)"
            )
            db.execute("delete from wanted")
            db.executemany("insert into wanted values (?, ?)", generations.items())
            # Few statements: FTS5 writes its words out at the end of each that changes them.
            key = (found.key,)
            gone = db.execute(f"select 1 from vector_records where {_FALLING} limit 1", key)
            fallen = gone.fetchone() is not None
            if fallen:
                remove_words(db, found.key, _FALLING, key)
                db.execute(f"delete from vector_records where {_FALLING}", key)
            db.execute(f"delete from vector_records where {_STALE}", key)
            add_words(db, found.key, _RISING, key)
            risen = db.execute(f"update vector_records set live = 1 where {_RISING}", key)
            if fallen or risen.rowcount:
                _count_change(db, found)

    def similarity_search(self, vector: Vector, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        compile_filter(options.where)
        vector = np.asarray(vector)
        with self._file.reading() as view:
            db, found = self._opened(view, options.index)
            check_query(vector, options.index, found.dimension)
            snapshot = self._snapshot(db, options.index, found)
            allowed = snapshot.masks.mask(
                options.where, lambda rows: _by_rows(db, "metadata", rows)
            )
            if options.ids is not None:
                among = _rows_of(db, found.key, options.ids)
                allowed = snapshot.matrix.among(among, allowed)
            hits = snapshot.matrix.top(vector, options.top_k, options.min_score, allowed)
            return _matches(db, hits)

    def lexical_search(self, query: str, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allows = compile_filter(options.where)
        words = terms(query)
        with self._file.reading() as view:
            db, found = self._opened(view, options.index)
            if not words:
                return []
            rows = ranked(db, found.key, words, options.ids)
            matches = best_matches(rows, allows, options.top_k)
            rows.close()
            return matches

    def fetch(self, index: IndexKey, ids: Collection[str]) -> dict[str, StoredRecord]:
        with self._file.reading() as view:
            db, found = self._opened(view, index)
            rows = db.execute(
                f"select id, uri, text, metadata, vector, generation from {_LIVE}"
                " and id in (select value from json_each(?))",
                (found.key, json.dumps(list(ids))),
            )
            return {
                id_: StoredRecord(
                    id_,
                    uri,
                    text,
                    stored_metadata(id_, text, generation, metadata),
                    unit_vector(blob),
                )
                for id_, uri, text, metadata, blob, generation in rows
            }

    def delete_by_filter(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        with self._file.writing() as db:
            found = _find(db, filter.index)
            if db is None or found is None:
                return 0
            meant = "index_key = :key"
            if filter.uri is not None:
                meant += " and uri = :uri"
            if filter.generation is not None:
                meant += " and generation = :generation"
            if filter.except_generation is not None:
                meant += " and generation <> :except_generation"
            values = {
                "key": found.key,
                "uri": filter.uri,
                "generation": filter.generation,
                "except_generation": filter.except_generation,
            }
            seen = f"select 1 from vector_records where {meant} and live limit 1"
            if db.execute(seen, values).fetchone():
                remove_words(db, found.key, f"{meant} and live", values)
                _count_change(db, found)
            return db.execute(f"delete from vector_records where {meant}", values).rowcount

    def count(self, index: IndexKey) -> int:
        with self._file.reading() as view:
            db, found = self._opened(view, index)
            return int(db.execute(f"select count(*) from {_LIVE}", (found.key,)).fetchone()[0])

    def drop(self, index: IndexKey) -> None:
        with self._file.writing() as db:
            found = _find(db, index)
            if db is not None and found is not None:
                db.execute("delete from vector_records where index_key = ?", (found.key,))
                db.execute("delete from vector_indexes where key = ?", (found.key,))
                drop_words(db, found.key)
        self._latest.pop(index, None)

    def close(self) -> None:
        self._file.close()
        self._latest = {}

    def __str__(self) -> str:
        return f"sqlite store {self._file}"

    def _opened(
        self, view: sqlite3.Connection | None, index: IndexKey
    ) -> tuple[sqlite3.Connection, _Index]:
        found = _find(view, index)
        if view is None or found is None:
            self._latest.pop(index, None)
            raise not_opened(index, self)
        return view, found

    def _snapshot(self, db: sqlite3.Connection, index: IndexKey, found: _Index) -> _Snapshot:
        latest = self._latest.setdefault(index, _Latest())
        with latest.lock:
            known = latest.snapshot
            if known is not None and known.index == found:
                return known
            if known is not None and known.index.birth != found.birth:
                known = None
            loaded = _load(db, found, known)
            # Another thread may have begun earlier and still see an older version.
            if known is None or known.index.version < found.version:
                latest.snapshot = loaded
            return loaded


# Left to itself, SQLite reads all of an index by another of its indexes, which is longer too.
_LIVE = "vector_records indexed by vector_records_live where index_key = ? and live"


def _of_wanted(condition: str) -> str:
    """Rows of the documents in the table `wanted` for which a condition on both holds."""
    return (
        "row in (select r.row from wanted as w cross join vector_records as r"
        f" on r.index_key = ?1 and r.uri = w.uri where {condition})"
    )


# What was staged again is newer than what is live under the same identity.
_FALLING = _of_wanted(
    "r.live and (r.generation <> w.generation or exists (select 1 from vector_records as new"
    " where new.index_key = ?1 and new.uri = r.uri and new.id = r.id"
    " and new.generation = r.generation and not new.live))"
)
_STALE = _of_wanted("not r.live and r.generation <> w.generation")
_RISING = _of_wanted("not r.live and r.generation = w.generation")


def _publish(db: sqlite3.Connection, found: _Index, uri: str, generation: int) -> bool:
    """Whether that changed what is live."""
    # What was staged again is newer than what is live under the same identity.
    replaced = (
        "index_key = ?1 and uri = ?2 and live and exists (select 1 from vector_records"
        " as new where new.index_key = ?1 and new.uri = ?2 and new.live = 0"
        " and new.id = vector_records.id and new.generation = vector_records.generation)"
    )
    remove_words(db, found.key, replaced, (found.key, uri))
    db.execute(f"delete from vector_records where {replaced}", (found.key, uri))
    values = (found.key, uri, generation)
    document = "index_key = ?1 and uri = ?2"
    falling = f"{document} and live and generation <> ?3"
    rising = f"{document} and not live and generation = ?3"
    remove_words(db, found.key, falling, values)
    add_words(db, found.key, rising, values)
    changed = db.execute(
        "update vector_records set live = (generation = ?3)"
        f" where {document} and live <> (generation = ?3)",
        values,
    )
    return changed.rowcount > 0


def _columns(entry: Entry) -> tuple[object, ...]:
    return (
        entry.uri,
        entry.id,
        entry.generation,
        entry.text,
        entry.metadata,
        entry.vector.data,
        entry.context,
    )


def _find(db: sqlite3.Connection | None, index: IndexKey) -> _Index | None:
    if db is None:
        return None
    row = db.execute(
        "select key, dimension, birth, version from vector_indexes"
        " where tenant = ? and project = ? and scope = ? and kb = ? and number = ?",
        _names(index),
    ).fetchone()
    return None if row is None else _Index(*row)


def _names(index: IndexKey) -> tuple[str, str, str, str, int]:
    owner = index.namespace
    return owner.tenant, owner.project, owner.scope, owner.kb, index.number


def _count_change(db: sqlite3.Connection, index: _Index) -> None:
    db.execute("update vector_indexes set version = version + 1 where key = ?", (index.key,))


def _load(db: sqlite3.Connection, index: _Index, known: _Snapshot | None) -> _Snapshot:
    matrix = ExactMatrix.empty(index.dimension) if known is None else known.matrix
    live = db.execute(f"select id, row from {_LIVE}", index[:1])
    matrix = matrix.replaced(live, lambda rows: _vectors(db, rows, index.dimension))
    return _Snapshot(index, matrix, Masks(matrix.rows, None if known is None else known.masks))


def _vectors(
    db: sqlite3.Connection, rows: Sequence[int], dimension: int
) -> Iterator[tuple[int, Vector]]:
    for row, blob in _by_rows(db, "vector", rows):
        vector = np.frombuffer(blob, "<f4")
        if len(vector) != dimension or not np.isfinite(vector).all():
            raise ValueError(f"the vector of row {row} is none of dimension {dimension}")
        yield row, vector


def _by_rows(db: sqlite3.Connection, columns: str, rows: Sequence[int]) -> sqlite3.Cursor:
    # One parameter for any number of rows: how many SQLite takes varies with its build.
    return db.execute(
        f"select row, {columns} from vector_records where row in (select value from json_each(?))",
        (json.dumps(rows),),
    )


def _rows_of(db: sqlite3.Connection, index_key: int, ids: Iterable[str]) -> list[int]:
    """The rows of published records with these ids."""
    rows = db.execute(
        f"select row from {_LIVE} and id in (select value from json_each(?))",
        (index_key, json.dumps(list(ids))),
    )
    return [row for (row,) in rows]


def _matches(db: sqlite3.Connection, hits: list[tuple[int, float]]) -> list[DocumentMatch]:
    stored = {
        row: rest
        for row, *rest in _by_rows(db, "id, text, metadata, generation", [row for row, _ in hits])
    }
    matches = []
    for row, cosine in hits:
        id_, text, metadata, generation = stored[row]
        scores = {"dense": cosine}
        about = stored_metadata(id_, text, generation, metadata)
        matches.append(DocumentMatch(id_, score_of(cosine), scores, text, about, generation))
    return matches
