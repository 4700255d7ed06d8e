"""The embedded store: a SQLite database, and a matrix of each space in memory.

Vectors are float32 blobs in the file. Each process holds the vectors of a space as a matrix, which
it updates when the version of the space in the file has changed.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE, Settings
from lorebind_config.declarations.vector_dbs import CatalogDeclaration, VectorDBBase
from lorebind_config.errors import StoreError, UsageError
from lorebind_knowledge.database.sqlite import SqliteDatabase
from lorebind_knowledge.stores.base import VectorStore

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Partition, Vector
    from lorebind_knowledge.stores.base import SearchHits, StoredVector
    from lorebind_knowledge.stores.matrix import ExactMatrix, Numbers

_SPACES = """create table if not exists store_spaces (
  space integer primary key,
  dimension integer not null,
  version integer not null
)"""
"""`version` is a random number that changes with every write."""

_BYTES = 4
"""The size of a float32."""

_VECTORS = """create table if not exists store_vectors (
  row integer primary key,
  space integer not null,
  number integer not null,
  embedding blob not null,
  unique (space, number)
)"""

_ROWS_AT_ONCE = 1024


class SqliteVectorDBConfig(Settings):
    """Settings of the SQLite store."""

    templated: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(
        ".lorebind/lorebind.db",
        min_length=1,
        description="The database file, relative to the project folder.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "write", OUTSIDE


class SqliteVectorDB(VectorDBBase):
    """Vectors and catalog in one SQLite file. This is the default."""

    type: Literal["sqlite"] = Field(description="Store everything in a SQLite file.")
    config: SqliteVectorDBConfig = Field(
        default_factory=SqliteVectorDBConfig, description="Which file."
    )

    @property
    def own_catalog(self) -> CatalogDeclaration:
        """The catalog in the same file."""
        return CatalogDeclaration(path=self.config.path)


Declaration = SqliteVectorDB


def make(declaration: SqliteVectorDB, environment: PartEnvironment) -> SqliteStore:
    return SqliteStore(environment.root / environment.fill(declaration.config.path))


class _Latest:
    """The vectors that this process has loaded of a space."""

    def __init__(self, empty: ExactMatrix) -> None:
        self.lock = threading.Lock()
        self.loaded: tuple[int | None, ExactMatrix] = None, empty
        """A version of the space, and its vectors."""


class SqliteStore(VectorStore):
    """A `VectorStore` in one SQLite file; exact, for one machine.

    The file is created, with its folder, when the first vector is added. It may hold other tables
    whose names do not begin with `store_`. Any number of threads and processes may use it at the
    same time.
    """

    def __init__(self, file: Path | str | None) -> None:
        """
        Args:
            file: the file; None means in memory, as for `MemoryStore`.
        """
        path = None if file is None else Path(file)
        if path is not None and path.name == ":memory:":
            raise UsageError("SqliteStore needs a file; to keep vectors in memory, use MemoryStore")
        self._name = "memory store" if path is None else f"sqlite store {path.absolute()}"
        self._database = SqliteDatabase(path, self._name)
        self._latest: dict[Partition, _Latest] = {}
        self._closed = False

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        # With NumPy, as below: an ingest in which nothing has changed does not wait for it.
        from lorebind_knowledge.stores.matrix import stacked

        matrix = stacked(space, vectors)
        rows = [
            (space.index_uid, stored.number, vector.data)
            for stored, vector in zip(vectors, matrix, strict=True)
        ]
        self._check_open()
        if not rows:
            return
        with self._database.writing() as db:
            db.execute(_SPACES)
            db.execute(_VECTORS)
            # The same number is always the same vector, so one that is there stays.
            added = db.executemany(
                "insert or ignore into store_vectors (space, number, embedding) values (?, ?, ?)",
                rows,
            )
            if added.rowcount:
                _count_change(db, space)

    def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        with self._reading() as db:
            matrix = self._matrix(db, space)
        return matrix.nearest(vector, k, allowed_ids)

    def get(self, space: Partition, numbers: Collection[int]) -> Mapping[int, Vector | None]:
        with self._reading() as db:
            version = _version(db, space)
            if version is None:
                return {}
            latest = self._latest.get(space)
            if latest is not None and latest.loaded[0] == version:
                return latest.loaded[1].get(numbers)
            rows = db.execute(
                f"select number, embedding from store_vectors where {_AMONG}",
                (space.index_uid, _json(numbers)),
            )
            return _StoredVectors(rows.fetchall(), space.dimension, self._damaged)

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        if not self._has(space):
            return
        with self._database.writing() as db:
            deleted = db.execute(
                f"delete from store_vectors where {_AMONG}", (space.index_uid, _json(numbers))
            )
            if deleted.rowcount:
                _count_change(db, space)

    def count(self, space: Partition) -> int:
        with self._reading() as db:
            if _version(db, space) is None:
                return 0
            counted = db.execute(
                "select count(*) from store_vectors where space = ?", (space.index_uid,)
            )
            return int(counted.fetchone()[0])

    def drop(self, space: Partition) -> None:
        if self._has(space):
            with self._database.writing() as db:
                db.execute("delete from store_vectors where space = ?", (space.index_uid,))
                db.execute("delete from store_spaces where space = ?", (space.index_uid,))
        self._latest.pop(space, None)

    def close(self) -> None:
        self._closed = True
        self._latest = {}
        self._database.close()

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._check_open()
        try:
            with self._database.reading() as db:
                yield db
        except (TypeError, ValueError) as error:  # the stored data is damaged
            raise self._damaged(error) from error
        except StoreError:
            self._latest = {}  # another process may have been writing the loaded vectors
            raise

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(f"{self}: is damaged; move the file away, then ingest again ({error})")

    def _has(self, space: Partition) -> bool:
        """Return whether anything was ever added; do not create the file."""
        with self._reading() as db:
            return _version(db, space) is not None

    def _matrix(self, db: sqlite3.Connection, space: Partition) -> ExactMatrix:
        from lorebind_knowledge.stores.matrix import ExactMatrix

        version, empty = _version(db, space), ExactMatrix.empty(space.dimension)
        if version is None:
            self._latest.pop(space, None)
            return empty
        latest = self._latest.setdefault(space, _Latest(empty))
        loaded_version, matrix = latest.loaded
        if loaded_version == version:
            return matrix
        with latest.lock:
            # Looked at again: another thread may have loaded it while this one waited.
            loaded_version, matrix = latest.loaded
            if loaded_version != version:
                self._forget_others(space)
                matrix = _loaded(db, space, matrix)
                latest.loaded = version, matrix
            return matrix

    def _forget_others(self, space: Partition) -> None:
        """Free the vectors of other indexes of a knowledge base: searches use one at a time."""
        for other in list(self._latest):
            if other.index.namespace == space.index.namespace and other != space:
                self._latest.pop(other, None)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the {self} is closed")


_AMONG = "space = ? and number in (select value from json_each(?))"
"""One parameter for all numbers, because the limit on parameters varies with SQLite's build."""


def _json(numbers: Collection[int]) -> str:
    return json.dumps([int(number) for number in numbers])


def _version(db: sqlite3.Connection, space: Partition) -> int | None:
    """Return the version of a space, or None if it is empty or was dropped."""
    try:
        row = db.execute(
            "select version, dimension from store_spaces where space = ?", (space.index_uid,)
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table: store_spaces" not in str(error):
            raise
        return None
    if row is None:
        return None
    version, dimension = row
    if dimension != space.dimension or type(version) is not int:
        raise ValueError(f"{space} has the dimension {dimension!r} and the version {version!r}")
    return version


def _count_change(db: sqlite3.Connection, space: Partition) -> None:
    # Not a count, which may stand for other vectors after a backup was restored.
    db.execute(
        "insert into store_spaces values (?, ?, ?)"
        " on conflict (space) do update set version = excluded.version",
        (space.index_uid, space.dimension, secrets.randbits(62)),
    )


class _StoredVectors(Mapping[int, "Vector"]):
    """Vectors by number, decoded when one is read: checking that they exist needs no NumPy."""

    def __init__(
        self,
        rows: list[tuple[int, bytes]],
        dimension: int,
        damaged: Callable[[Exception], StoreError],
    ) -> None:
        if any(len(embedding) != _BYTES * dimension for _, embedding in rows):
            raise ValueError("a vector has another dimension")
        self._rows, self._dimension, self._damaged = dict(rows), dimension, damaged

    @cached_property
    def _vectors(self) -> dict[int, Vector]:
        try:
            numbers, vectors = _decoded(list(self._rows.items()), self._dimension)
        except (TypeError, ValueError) as error:
            raise self._damaged(error) from error
        return dict(zip(numbers.tolist(), vectors, strict=True))

    def __getitem__(self, number: int) -> Vector:
        return self._vectors[number]

    def __contains__(self, number: object) -> bool:
        return number in self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _loaded(db: sqlite3.Connection, space: Partition, before: ExactMatrix) -> ExactMatrix:
    import numpy as np

    rows = db.execute(
        "select number from store_vectors where space = ? order by number", (space.index_uid,)
    )
    numbers = np.fromiter(chain.from_iterable(rows), np.int64)
    return before.replaced(numbers, partial(_vectors, db, space))


def _vectors(
    db: sqlite3.Connection, space: Partition, missing: Numbers
) -> Iterator[tuple[Numbers, Matrix]]:
    for start in range(0, len(missing), _ROWS_AT_ONCE):
        part = missing[start : start + _ROWS_AT_ONCE]
        # Numbers are ascending, so few rows in the range are not wanted.
        rows = db.execute(
            "select number, embedding from store_vectors"
            " where space = ? and number between ? and ?",
            (space.index_uid, int(part[0]), int(part[-1])),
        ).fetchall()
        if len(rows) > len(part):
            numbers = set(part.tolist())
            rows = [row for row in rows if row[0] in numbers]
        if len(rows) < len(part):
            raise ValueError(f"vectors of {space} are missing")
        yield _decoded(rows, space.dimension)


def _decoded(rows: list[tuple[int, bytes]], dimension: int) -> tuple[Numbers, Matrix]:
    import numpy as np

    numbers = np.array([number for number, _ in rows], np.int64)
    joined = b"".join([embedding for _, embedding in rows])
    vectors: Matrix = np.frombuffer(joined, "<f4").reshape(len(rows), dimension)
    if not np.isfinite(vectors).all():
        raise ValueError("a vector holds NaN or infinity")
    return numbers, vectors
