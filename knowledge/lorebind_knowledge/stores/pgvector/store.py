"""The store in PostgreSQL with pgvector: for many processes and machines."""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import IndexMismatchError, StoreError
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.database.postgres_connections import Connections
from lorebind_knowledge.database.postgres_pool import Limits
from lorebind_knowledge.database.postgres_rows import insert_rows
from lorebind_knowledge.stores.base import SearchHits, VectorStore, batches
from lorebind_knowledge.stores.pgvector.ann import AnnIndex, end_of
from lorebind_knowledge.stores.pgvector.ann_builds import AnnBuilds
from lorebind_knowledge.stores.pgvector.filters import sql_filter
from lorebind_knowledge.stores.pgvector.settings import PgvectorSettings
from lorebind_knowledge.stores.pgvector.table import Table, rows_of, vector_text, vectors_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import psycopg

    from lorebind_knowledge.records import Partition, Vector
    from lorebind_knowledge.stores.base import StoredVector
    from lorebind_knowledge.stores.pgvector.ann import AnnRange

log = logging.getLogger("lorebind.stores")

# Maximum number of vectors per statement.
_BLOCK = 1000
_LOCK_SECONDS = 30
_SECONDS_BETWEEN_LOOKS = 10.0
_SECONDS_AFTER_FAILURE = 600.0


class PgvectorStore(VectorStore):
    """A `VectorStore` in PostgreSQL.

    The extension and the table are created when the first vector is added. The table holds vectors
    of any dimension. Methods block for a few round trips each; threads make them usable from every
    event loop. Any number of threads and processes may use the table at the same time.

    Searches are exact. With `ensure_index`, a space of `ann_from` vectors or more gets an
    approximate index: at the end of an ingest, or in the background of a search. Vectors that are
    added later are searched exactly, until there are `ann_more_from` and they get an index, too.
    """

    filters = True

    def __init__(
        self,
        dsn: str | PostgresAddress,
        settings: PgvectorSettings | None = None,
        *,
        ann_from: int = 10_000,
        ann_more_from: int = 25_000,
    ) -> None:
        """
        Args:
            dsn: the database.
            settings: the settings; None means the defaults.
            ann_from: number of vectors from which a space gets an approximate index, if the
                settings ask for one.
            ann_more_from: number of vectors without an index from which a space gets another one.

        Raises:
            UsageError: the DSN is invalid.
            MissingDependencyError: psycopg is not installed.
        """
        address = PostgresAddress(dsn) if isinstance(dsn, str) else dsn
        self._settings = settings = settings or PgvectorSettings()
        self._name = f"pgvector store, table {settings.table!r} at {address}"
        self._table = Table(settings.table)
        self._db = Connections(
            address,
            self._name,
            limits=Limits(settings.pool.min_size, settings.pool.max_size),
            timeout_seconds=settings.pool.timeout_seconds,
            lock_seconds=_LOCK_SECONDS,
        )
        self.is_exact = not settings.ensure_index
        self._ann = AnnIndex(self._table, settings.index, settings.metric)
        self._builds = AnnBuilds(self._ann, first_from=ann_from, more_from=ann_more_from)
        self._has_table = False
        self._next_looks: dict[int, float] = {}
        """When a search looks again whether a space should get an index."""

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        self._check(space)
        if not self._is_there():
            with self._db.writing() as db:
                self._table.make(db, self._name, allowed=self._settings.ensure_schema)
        target = f"{self._table.quoted} (space, number, embedding, fields, dates)"
        # Sorted, because writers that add the same numbers in different orders could deadlock.
        ordered = sorted(vectors, key=lambda stored: stored.number)
        with self._using(self._db.writing()) as db:
            for block in batches(ordered, _BLOCK):
                insert_rows(db, target, rows_of(space, block), "on conflict do nothing")

    def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        condition, values = sql_filter(where)
        values |= {"query": vector_text(vector), "k": k}
        rows = (
            f"select number, embedding from {self._table.quoted}"
            f" where space = {space.index_uid} and {condition}"
        )
        # By inner product, which is faster than the cosine and equal at length 1. For a vector
        # of length 0 it is 0, while pgvector's cosine is NaN.
        best = "order by embedding <#> %(query)s::vector limit %(k)s"
        hits: list[tuple[int, bytes]] = []
        is_exact = False
        if self._is_there():
            with self._using(self._db.joining()) as db:
                # A binary cursor returns vectors as bytes, and only those of the final rows.
                cursor = db.cursor(binary=True)
                if chain := self._indexes(db, space):
                    self._ann.prepare(db, chain, k, filtered=bool(where))
                    near = f"order by {self._ann.order(space)} limit {self._ann.candidates(k)}"
                    parts = [f"({rows} and {index.numbers} {near})" for index in chain]
                    parts.append(f"({rows} and number > {end_of(chain)} {best})")
                    statement = f"select * from ({' union all '.join(parts)}) as near {best}"
                    hits = cursor.execute(statement, values).fetchall()
                if len(hits) < k:
                    # An index may stop early, or miss vectors of length 0.
                    hits = cursor.execute(f"{rows} {best}", values).fetchall()
                    is_exact = True
        vectors = vectors_of([data for _, data in hits], space.dimension)
        return SearchHits([number for number, _ in hits], vectors, is_exact=is_exact)

    def get(self, space: Partition, numbers: Collection[int]) -> dict[int, Vector]:
        stored: dict[int, Vector] = {}
        if self._is_there():
            with self._using(self._db.joining()) as db:
                for block in batches(list(numbers), _BLOCK):
                    statement = self._among("select number, embedding", space)
                    rows = db.cursor(binary=True).execute(statement, [block]).fetchall()
                    vectors = vectors_of([data for _, data in rows], space.dimension)
                    stored.update(zip((number for number, _ in rows), vectors, strict=True))
        return stored

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        if self._is_there():
            with self._using(self._db.writing()) as db:
                for block in batches(list(numbers), _BLOCK):
                    db.execute(self._among("delete", space), [block])

    def count(self, space: Partition) -> int:
        self._check(space)
        if not self._is_there():
            return 0
        with self._using(self._db.joining()) as db:
            return self._table.count(db, space)

    def drop(self, space: Partition) -> None:
        if self._is_there():
            with self._using(self._db.writing()) as db:
                self._table.clear(db, space)
            if self._settings.ensure_schema:
                with self._db.single() as db:
                    self._builds.drop(db, space)

    def finish_load(self, space: Partition) -> None:
        if not self._is_there():
            return
        with self._using(self._db.writing()) as db:
            self._table.merge_counts(db, space)
        if self.is_exact or not self._settings.ensure_schema:
            return
        with self._using(self._db.joining()) as db:
            are_due = self._builds.are_due(db, space, self._ann.ranges(db, space))
        if are_due:
            self.build_index(space)

    def build_index(self, space: Partition) -> None:
        """Build the approximate index that a space needs now, and wait for it.

        Nothing happens if it needs none, or if another process is building one.

        Raises:
            StoreError: `ensure_schema` is false, so it may not be created (the message has the
                statements for it); or PostgreSQL refused.
        """
        with self._db.single() as db:
            if self._settings.ensure_schema:
                self._builds.build(db, space)
            elif step := self._builds.step(db, space):
                raise StoreError(
                    f"{self._name}: the approximate index is missing, and ensure_schema is false; "
                    f"run:\n{step}"
                )

    def close(self) -> None:
        self._db.close()

    def __str__(self) -> str:
        return self._name

    def _check(self, space: Partition) -> None:
        declared = self._settings.dimension
        if declared not in (None, space.dimension):
            raise IndexMismatchError(
                f"{space}: its vectors have dimension {space.dimension}, but the vector "
                f"database is declared with dimension {declared}; change the declaration or the "
                "embedder"
            )
        if not self.is_exact:
            self._ann.check(space)

    def _is_there(self) -> bool:
        """Return whether the table exists; if not, nothing was added yet."""
        if self._has_table:
            return True
        with self._db.joining() as db:
            there = self._table.is_there(db, self._name)
        if there:  # never reset here: another thread may have found it in the meantime
            self._has_table = True
        return there

    @contextmanager
    def _using(
        self, transaction: AbstractContextManager[psycopg.Connection]
    ) -> Iterator[psycopg.Connection]:
        try:
            with transaction as db:
                yield db
        except StoreError:
            self._has_table = False  # it may have been dropped: the next call checks
            raise

    def _among(self, verb: str, space: Partition) -> str:
        """Return a statement about the vectors whose numbers are in its parameter."""
        return (
            f"{verb} from {self._table.quoted}"
            f" where space = {space.index_uid} and number = any(%s::bigint[])"
        )

    def _indexes(self, db: psycopg.Connection, space: Partition) -> list[AnnRange]:
        """Return the approximate indexes to search; start building one that is due."""
        if self.is_exact:
            return []
        chain = self._ann.ranges(db, space)
        now = time.monotonic()
        if now >= self._next_looks.get(space.index_uid, 0):
            # Few vectors are looked at each time, which is fast.
            self._next_looks[space.index_uid] = now + (_SECONDS_BETWEEN_LOOKS if chain else 0)
            if self._builds.are_due(db, space, chain):
                self._next_looks[space.index_uid] = math.inf
                threading.Thread(
                    target=self._build_behind, args=[space], name="lorebind-pgvector", daemon=True
                ).start()
        return chain

    def _build_behind(self, space: Partition) -> None:
        pause = _SECONDS_AFTER_FAILURE
        try:
            self.build_index(space)
            pause = _SECONDS_BETWEEN_LOOKS
        except Exception as error:  # searches stay exact, and are only slower
            log.warning("%s", error)
        finally:
            self._next_looks[space.index_uid] = time.monotonic() + pause
