"""Approximate indexes of pgvector: one for each large index of a store, over its rows alone.

Small indexes are searched exactly, which costs milliseconds. A partial index keeps the neighbours
of one knowledge base from crowding out those of another, and goes with it. What it finds is put in
order by exact figures, so that what is lost is only what it does not find: at the defaults fewer
than 2 of the 10 nearest in a hundred, among 100,000 embeddings (`benchmarks/pgvector.py`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    import psycopg

    from lorebind_knowledge.declarations.vector_dbs import AnnIndexConfig, Metric
    from lorebind_knowledge.stores.pgvector.schema import Tables

_OPERATORS = {"cosine": ("<=>", "cosine"), "l2": ("<->", "l2"), "ip": ("<#>", "ip")}
# pgvector indexes single precision to the first, and half precision to the second.
_SINGLE, _HALF = 2000, 4000
_MOST_CANDIDATES = 1000
_MOST_MEMORY = 1 << 30


@dataclass(frozen=True, slots=True)
class AnnIndex:
    """How approximate indexes are named, made and searched."""

    tables: Tables
    config: AnnIndexConfig
    metric: Metric

    def check(self, dimension: int) -> None:
        """
        Raises:
            UsageError: pgvector has no approximate index for vectors of this dimension.
        """
        if dimension > _HALF:
            raise UsageError(
                f"pgvector indexes vectors up to dimension {_HALF}, and these have {dimension}; "
                "leave ensure_index out, or take an embedder with shorter vectors"
            )

    def name(self, key: int) -> str:
        """What the index over the rows of this key is called."""
        whole = f"{self._base}_{key}"
        # PostgreSQL cuts names at 63 bytes, and what differs is at the end.
        return whole if len(whole) <= 63 else f"ann_{digest(self._base)[:16]}_{key}"

    def sql(self, key: int, dimension: int, records: int) -> str:
        """What makes it, beside readers and writers."""
        column, operators = (
            self._column(dimension),
            f"{self._kind(dimension)}_{self._operators}_ops",
        )
        if self.config.type == "hnsw":
            options = f"m = {self.config.m}, ef_construction = {self.config.ef_construction}"
        else:
            options = f"lists = {self._lists(records)}"
        return (
            f'create index concurrently "{self.name(key)}" on {self.tables.rows}'
            f" using {self.config.type} (({column}) {operators}) with ({options})"
            f" where index_key = {key}"
        )

    def order(self, dimension: int, query: str) -> str:
        """What orders rows by nearness so that the index is used."""
        return (
            f"{self._column(dimension)} {self._sign} {query}::{self._kind(dimension)}({dimension})"
        )

    def candidates(self, top_k: int) -> int:
        """How many rows to take from the index, of which the best are then found exactly."""
        return max(top_k, self.config.ef_search) if self.config.type == "hnsw" else max(top_k, 100)

    def prepare(self, db: psycopg.Connection, top_k: int, records: int, *, filtered: bool) -> None:
        """Settings for the search of this transaction: it goes on until the filter has its fill."""
        if self.config.type == "hnsw":
            settings: dict[str, Any] = {
                "hnsw.ef_search": min(max(top_k, self.config.ef_search), _MOST_CANDIDATES),
                "hnsw.iterative_scan": "relaxed_order",
                "hnsw.max_scan_tuples": max(records, 1),
            }
        else:
            lists = self._lists(records)
            settings = {
                "ivfflat.probes": self.config.probes or math.ceil(math.sqrt(lists)),
                "ivfflat.iterative_scan": "relaxed_order",
                "ivfflat.max_probes": 32768,
            }
        if not filtered:
            # Without a filter the index is always right; with one, the planner knows what is rare.
            settings["enable_sort"] = "off"
        calls = ", ".join(
            f"set_config('{name}', '{value}', true)" for name, value in settings.items()
        )
        db.execute(f"select {calls}")

    def build(self, db: psycopg.Connection, key: int, dimension: int, records: int) -> bool:
        """Make the index of a key, and remove those whose rows are gone; False if another does so.

        `db` is outside of a transaction, and is closed afterwards. It takes some ten seconds for
        each ten thousand rows, and up to a gigabyte of the server's memory.
        """
        from psycopg import errors

        lock = int(digest("lorebind pgvector index", self.tables.name)[:15], 16)
        row = db.execute(f"select pg_try_advisory_lock({lock})").fetchone()
        if not row or not row[0]:
            return False
        version = db.execute(
            "select extversion from pg_extension where extname = 'vector'"
        ).fetchone()
        if version and [int(part) for part in version[0].split(".")[:2]] < [0, 8]:
            raise StoreError(
                f"pgvector {version[0]} on the server is older than 0.8, which ensure_index needs; "
                "upgrade it and run: alter extension vector update"
            )
        kept = {
            self.name(other) for (other,) in db.execute(f"select key from {self.tables.indexes}")
        }
        for name, valid in self._made(db):
            # One that is not valid was left by a process that ended while it was made.
            if name not in kept or not valid:
                db.execute(f'drop index concurrently if exists "{name}"')
            elif name == self.name(key):
                return True
        self._give_memory(db, dimension, records)
        try:
            db.execute(self.sql(key, dimension, records))
        except errors.DiskFull:
            # Processes that build together share memory, of which a container has little; one
            # needs none, and may use what is left on the disk.
            db.execute("set max_parallel_maintenance_workers = 0")
            db.execute(f'drop index concurrently if exists "{self.name(key)}"')
            db.execute(self.sql(key, dimension, records))
        # The planner weighs the index by what it knows of the table, after a bulk load nothing.
        db.execute(f"analyze {self.tables.rows}")
        return True

    def _give_memory(self, db: psycopg.Connection, dimension: int, records: int) -> None:
        """Let the whole graph be built in memory, which is many times quicker; never less."""
        if self.config.type != "hnsw":
            return
        # A vector, its links on the lowest level, and what pgvector notes of each.
        wanted = min(records * (4 * dimension + 40 * self.config.m + 400), _MOST_MEMORY)
        db.execute(
            "select set_config('maintenance_work_mem', greatest(%s::bigint,"
            " pg_size_bytes(current_setting('maintenance_work_mem'))) / 1024 || 'kB', false)",
            [wanted],
        )

    def _made(self, db: psycopg.Connection) -> list[tuple[str, bool]]:
        rows = db.execute(
            "select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where i.indrelid = to_regclass(%s)",
            [self.tables.rows],
        ).fetchall()
        ours = re.compile(rf"(?:{self._base}|ann_{digest(self._base)[:16]})_\d+")
        return [(name, valid) for name, valid in rows if ours.fullmatch(name)]

    @property
    def _base(self) -> str:
        return self.config.name or f"{self.tables.name}_ann"

    @property
    def _sign(self) -> str:
        return _OPERATORS[self.metric][0]

    @property
    def _operators(self) -> str:
        return _OPERATORS[self.metric][1]

    def _kind(self, dimension: int) -> str:
        return "vector" if dimension <= _SINGLE else "halfvec"

    def _column(self, dimension: int) -> str:
        return f"embedding::{self._kind(dimension)}({dimension})"

    def _lists(self, records: int) -> int:
        # What pgvector's documentation advises.
        fitting = records // 1000 if records <= 1_000_000 else math.isqrt(records)
        return self.config.lists or min(max(fitting, 10), 32768)
