"""Builds the approximate indexes of `ann`, and merges them, so that a space has at most three.

One process builds at a time, under an advisory lock. An index that is left unfinished is dropped by
the next build.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.pgvector.ann import AnnRange, end_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from lorebind_knowledge.records import Partition
    from lorebind_knowledge.stores.pgvector.ann import AnnIndex

_MOST_INDEXES = 3
"""Maximum number for each space: a search reads all of them."""


class Step(NamedTuple):
    """The next index to build."""

    target: AnnRange
    sql: str
    replaced: list[str]
    """The names of the indexes that it makes superfluous."""

    def __str__(self) -> str:
        """Return the statements for an administrator."""
        drops = (f'drop index concurrently "{name}"' for name in self.replaced)
        return "".join(f"{statement};\n" for statement in (self.sql, *drops))


class AnnBuilds:
    """Decides which indexes a space needs, and builds them."""

    def __init__(self, ann: AnnIndex, *, first_from: int, more_from: int) -> None:
        """
        Args:
            ann: names the indexes.
            first_from: number of vectors from which a space gets its first index.
            more_from: number of later vectors from which they get an index, too.
        """
        self._ann, self._table = ann, ann.table
        self._first_from, self._more_from = first_from, more_from

    def are_due(self, db: psycopg.Connection, space: Partition, chain: Sequence[AnnRange]) -> bool:
        """Return whether enough vectors are in no index that they should get one.

        Vectors of one dimension are those of an embedder that makes none, and never searched.
        """
        if space.dimension == 1:
            return False
        allowed = self._more_from if chain else self._first_from
        query = f"select {self._rest(space, chain)} offset %s limit 1"
        return bool(db.execute(query, [allowed - 1]).rowcount)

    def step(self, db: psycopg.Connection, space: Partition) -> Step | None:
        """Return the next index to build, the first one for any number of vectors; None if none.

        It covers the vectors that are in no index. It also covers those of the last index while
        these are at most twice as many, or there would be too many indexes. Each vector is
        therefore part of few builds.
        """
        chain = self._ann.ranges(db, space)
        if chain and not self.are_due(db, space, chain):
            return None
        rest = self._rest(space, chain)
        rows, newest = db.execute(f"select count(*), max(number) {rest}").fetchone() or (0, None)
        if newest is None:
            return None
        kept = list(chain)
        while kept and (len(kept) >= _MOST_INDEXES or kept[-1].rows <= 2 * rows):
            rows += kept.pop().rows
        names = self._ann.names(space)
        free = min(set(names).difference(self._ann.existing(db)))
        target = AnnRange(free, end_of(kept), newest, rows, {})
        replaced = [merged.name for merged in chain[len(kept) :]]
        return Step(target, self._ann.sql(space, target), replaced)

    def build(self, db: psycopg.Connection, space: Partition) -> None:
        """Create the index that a space needs next, and drop those that are not needed.

        It takes about five seconds per ten thousand vectors, and memory of the server. Nothing
        happens if the space needs none, or if another process is building.

        Args:
            db: a connection without a transaction, to be closed afterwards.
            space: the space.
        """
        from psycopg import errors

        if not self._lock(db):
            return
        row = db.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
        if row and [int(part) for part in row[0].split(".")[:2]] < [0, 8]:
            raise StoreError(
                f"pgvector {row[0]} on the server is older than 0.8, which ensure_index needs; "
                "upgrade it and run: alter extension vector update"
            )
        self._tidy(db, space)
        step = self.step(db, space)
        if step is None:
            return
        self._give_memory(db, space, step.target.rows)
        try:
            db.execute(step.sql)
        except errors.DiskFull:
            # Parallel workers use shared memory, of which a container has little. Without them,
            # the build may use the remaining disk space.
            db.execute("set max_parallel_maintenance_workers = 0")
            self._drop(db, step.target.name)
            db.execute(step.sql)
        # After a bulk load, the planner has no statistics and would not use the index.
        db.execute(f"analyze {self._table.quoted}")
        for name in step.replaced:
            self._drop(db, name)

    def drop(self, db: psycopg.Connection, space: Partition) -> None:
        """Drop the indexes of a space; for `db`, see `build`.

        While another process is building an index, they stay, and the next build drops them.
        """
        if self._lock(db):
            for name in self._ann.names(space):
                self._drop(db, name)

    def _rest(self, space: Partition, chain: Sequence[AnnRange]) -> str:
        inside = f"space = {space.index_uid} and number > {end_of(chain)}"
        return f"from {self._table.quoted} where {inside}"

    def _lock(self, db: psycopg.Connection) -> bool:
        # Do not wait for the lock: the process that builds an index would wait for this one.
        row = db.execute(f"select pg_try_advisory_lock({self._table.lock('index')})").fetchone()
        return bool(row and row[0])

    def _drop(self, db: psycopg.Connection, name: str) -> None:
        db.execute(f'drop index concurrently if exists "{name}"')

    def _tidy(self, db: psycopg.Connection, space: Partition) -> None:
        """Drop indexes that are unfinished, without rows, or replaced by others of the space."""
        needed = {index.name for index in self._ann.ranges(db, space)}
        ours = re.compile(rf"{self._ann.base}_([0-9a-f]{{16}})_\d")
        for name, valid in self._ann.existing(db).items():
            if match := ours.fullmatch(name):
                index_uid = int(match[1], 16)
                used = f"select 1 from {self._table.quoted} where space = {index_uid} limit 1"
                # An index is invalid if the process that built it ended too early. If it ended a
                # little later, a merged index and those that it replaced are there.
                superfluous = index_uid == space.index_uid and name not in needed
                if not valid or superfluous or not db.execute(used).fetchone():
                    self._drop(db, name)

    def _give_memory(self, db: psycopg.Connection, space: Partition, records: int) -> None:
        """Raise the memory limit so that the graph is built in memory, which is much faster."""
        config = self._ann.config
        if config.type != "hnsw":
            return
        # The vector, its links on the lowest level, and pgvector's data about each.
        needed = min(records * (4 * space.dimension + 40 * config.m + 400), config.build_max_bytes)
        db.execute(
            "select set_config('maintenance_work_mem', greatest(%s::bigint,"
            " pg_size_bytes(current_setting('maintenance_work_mem'))) / 1024 || 'kB', false)",
            [needed],
        )
