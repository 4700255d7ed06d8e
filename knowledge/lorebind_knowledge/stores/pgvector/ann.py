"""Approximate indexes of pgvector: one for each large space of a store, over its rows only.

Small spaces are searched exactly, which takes milliseconds. With partial indexes, the vectors of
one space do not displace those of another, and an index is dropped with its space. With the default
settings, searches of 100,000 vectors miss fewer than 2 percent of the 10 nearest
(`benchmarks/pgvector.py`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import StoreError, UsageError

if TYPE_CHECKING:
    import psycopg

    from lorebind_config.declarations.vector_dbs import Metric
    from lorebind_knowledge.records import Partition
    from lorebind_knowledge.stores.pgvector.settings import AnnIndexConfig
    from lorebind_knowledge.stores.pgvector.table import Table

_OPERATORS = {"cosine": ("<=>", "cosine"), "l2": ("<->", "l2"), "ip": ("<#>", "ip")}
# The largest dimensions that pgvector indexes, in single precision and in half precision.
_SINGLE, _HALF = 2000, 4000
_MOST_CANDIDATES = 1000
_MOST_MEMORY = 1 << 30


@dataclass(frozen=True, slots=True)
class AnnIndex:
    """Names, builds and searches the approximate indexes of a table."""

    table: Table
    config: AnnIndexConfig
    metric: Metric

    def check(self, space: Partition) -> None:
        """
        Raises:
            UsageError: pgvector has no approximate index for vectors of this dimension.
        """
        if space.dimension > _HALF:
            raise UsageError(
                f"{space}: pgvector indexes vectors up to dimension {_HALF}, but these have "
                f"{space.dimension}; remove ensure_index, or use an embedder with shorter vectors"
            )

    def name(self, space: Partition) -> str:
        """Return the name of the index over the rows of a space."""
        return f"{self._base}_{space.name}"

    def sql(self, space: Partition, records: int) -> str:
        """Return the statement that creates it, which blocks neither readers nor writers."""
        kind = _kind(space)
        if self.config.type == "hnsw":
            options = f"m = {self.config.m}, ef_construction = {self.config.ef_construction}"
        else:
            # The formula that pgvector's documentation recommends.
            fitting = records // 1000 if records <= 1_000_000 else math.isqrt(records)
            options = f"lists = {self.config.lists or min(max(fitting, 10), 32768)}"
        return (
            f'create index concurrently "{self.name(space)}" on {self.table.quoted}'
            f" using {self.config.type} ((embedding::{kind})"
            f" {kind.partition('(')[0]}_{_OPERATORS[self.metric][1]}_ops) with ({options})"
            f" where space = {space.index_uid}"
        )

    def prepare(self, db: psycopg.Connection, space: Partition, k: int, *, filtered: bool) -> bool:
        """Set up a transaction for one search; return False if the index is missing or unfinished.

        The search continues until enough rows pass the filter.
        """
        row = db.execute(
            "select c.reloptions from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where i.indisvalid and i.indexrelid = to_regclass(%s)",
            [f'"{self.name(space)}"'],
        ).fetchone()
        if row is None:
            return False
        settings: dict[str, Any]
        if self.config.type == "hnsw":
            settings = {
                "hnsw.ef_search": min(self.candidates(k), _MOST_CANDIDATES),
                "hnsw.iterative_scan": "relaxed_order",
                "hnsw.max_scan_tuples": 2**31 - 1,
            }
        else:
            options = dict(option.split("=") for option in row[0] or ())
            lists = int(options.get("lists", 100))
            settings = {
                "ivfflat.probes": self.config.probes or math.ceil(math.sqrt(lists)),
                "ivfflat.iterative_scan": "relaxed_order",
                "ivfflat.max_probes": 32768,
            }
        if not filtered:
            # Without a filter the index is always best; with one, the planner estimates rows.
            settings["enable_sort"] = "off"
        calls = (f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        db.execute(f"select {', '.join(calls)}")
        return True

    def order(self, space: Partition) -> str:
        """Return the `order by` expression that lets PostgreSQL use the index."""
        kind = _kind(space)
        return f"embedding::{kind} {_OPERATORS[self.metric][0]} %(query)s::{kind}"

    def candidates(self, k: int) -> int:
        """Return the number of rows to take from the index, of which the best are found exactly."""
        return max(k, self.config.ef_search if self.config.type == "hnsw" else 100)

    def build(self, db: psycopg.Connection, space: Partition, records: int) -> None:
        """Create the index of a space, and drop indexes whose rows are gone.

        It takes about ten seconds per ten thousand rows, and up to a gigabyte of the server's
        memory. Nothing happens if the index exists, or if another process is building one.

        Args:
            db: a connection without a transaction, to be closed afterwards.
            space: the space.
            records: number of its rows.
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
        if self._tidy(db, space):
            return
        self._give_memory(db, space, records)
        try:
            db.execute(self.sql(space, records))
        except errors.DiskFull:
            # Parallel workers use shared memory, of which a container has little. Without them,
            # the build may use the remaining disk space.
            db.execute("set max_parallel_maintenance_workers = 0")
            self._drop(db, self.name(space))
            db.execute(self.sql(space, records))
        # After a bulk load, the planner has no statistics and would not use the index.
        db.execute(f"analyze {self.table.quoted}")

    def drop(self, db: psycopg.Connection, space: Partition) -> None:
        """Drop the index of a space if there is one; for `db`, see `build`.

        While another process is building an index, it stays, and the next build drops it.
        """
        if self._lock(db):
            self._drop(db, self.name(space))

    def _lock(self, db: psycopg.Connection) -> bool:
        # Do not wait for the lock: the process that builds an index would wait for this one.
        row = db.execute(f"select pg_try_advisory_lock({self.table.lock('index')})").fetchone()
        return bool(row and row[0])

    def _drop(self, db: psycopg.Connection, name: str) -> None:
        db.execute(f'drop index concurrently if exists "{name}"')

    def _tidy(self, db: psycopg.Connection, space: Partition) -> bool:
        """Drop indexes that are no longer needed, and return whether the space's index exists."""
        rows = db.execute(
            "select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where i.indrelid = to_regclass(%s)",
            [self.table.quoted],
        ).fetchall()
        ours = re.compile(rf"{self._base}_([0-9a-f]{{16}})")
        there = False
        for name, valid in rows:
            if match := ours.fullmatch(name):
                used = (
                    f"select 1 from {self.table.quoted} where space = {int(match[1], 16)} limit 1"
                )
                # An index is invalid if the process that built it ended too early.
                if not valid or not db.execute(used).fetchone():
                    self._drop(db, name)
                elif name == self.name(space):
                    there = True
        return there

    def _give_memory(self, db: psycopg.Connection, space: Partition, records: int) -> None:
        """Raise the memory limit so that the graph is built in memory, which is much faster."""
        if self.config.type != "hnsw":
            return
        # The vector, its links on the lowest level, and pgvector's data about each.
        needed = min(records * (4 * space.dimension + 40 * self.config.m + 400), _MOST_MEMORY)
        db.execute(
            "select set_config('maintenance_work_mem', greatest(%s::bigint,"
            " pg_size_bytes(current_setting('maintenance_work_mem'))) / 1024 || 'kB', false)",
            [needed],
        )

    @property
    def _base(self) -> str:
        # PostgreSQL cuts names at 63 bytes. The names of spaces, which follow, are unique.
        return (self.config.name or f"{self.table.name}_ann")[:46]


def _kind(space: Partition) -> str:
    return f"{'vector' if space.dimension <= _SINGLE else 'halfvec'}({space.dimension})"
