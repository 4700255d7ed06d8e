"""Approximate indexes of pgvector: up to three for each large space of a store.

Adding a vector to an index of all vectors takes 40 times as long as adding the row alone. As the
numbers of a space only grow, each index covers a range of numbers that ends at the newest vector of
its time. Later vectors are in no index and are searched exactly, until there are enough of them for
another index, see `ann_builds`.

Small spaces are searched exactly, which takes milliseconds. With partial indexes, the vectors of
one space do not displace those of another, and an index is dropped with its space. With the default
settings, searches of 100,000 vectors miss fewer than 2 percent of the 10 nearest
(`benchmarks/pgvector.py`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from lorebind_config.declarations.vector_dbs import Metric
    from lorebind_knowledge.records import Partition
    from lorebind_knowledge.stores.pgvector.settings import AnnIndexConfig
    from lorebind_knowledge.stores.pgvector.table import Table

_OPERATORS = {"cosine": ("<=>", "cosine"), "l2": ("<->", "l2"), "ip": ("<#>", "ip")}
# The largest dimensions that pgvector indexes, in single precision and in half precision.
_SINGLE, _HALF = 2000, 4000
_MOST_CANDIDATES = 1000
_SLOTS = range(1, 10)
"""The last digits of names. More than the indexes of a space, because a merged index is built
beside those that it replaces."""
_BEFORE_ALL = -1
"""Less than every number."""
_BOUND = re.compile(r"number (>|<=) '?(\d+)")
"""A limit in the predicate of an index, as PostgreSQL prints it."""


class AnnRange(NamedTuple):
    """An approximate index over the rows of a space in a range of numbers."""

    name: str
    after: int
    """The number before the first; of the first index, one that is less than all."""
    last: int
    rows: int
    """Roughly the number of its rows."""
    options: dict[str, str]
    """The options that it was built with."""

    @property
    def numbers(self) -> str:
        """The SQL condition for its numbers."""
        first = "" if self.after == _BEFORE_ALL else f"number > {self.after} and "
        return f"{first}number <= {self.last}"


@dataclass(frozen=True, slots=True)
class AnnIndex:
    """Names, finds and searches the approximate indexes of a table."""

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

    def names(self, space: Partition) -> list[str]:
        """Return the names that indexes of a space may have."""
        return [f"{self.base}_{space.name}_{slot}" for slot in _SLOTS]

    def sql(self, space: Partition, index: AnnRange) -> str:
        """Return the statement that creates an index, which blocks neither readers nor writers."""
        kind = _kind(space)
        if self.config.type == "hnsw":
            options = f"m = {self.config.m}, ef_construction = {self.config.ef_construction}"
        else:
            # The formula that pgvector's documentation recommends.
            fitting = index.rows // 1000 if index.rows <= 1_000_000 else math.isqrt(index.rows)
            options = f"lists = {self.config.lists or min(max(fitting, 10), 32768)}"
        return (
            f'create index concurrently "{index.name}" on {self.table.quoted}'
            f" using {self.config.type} ((embedding::{kind})"
            f" {kind.partition('(')[0]}_{_OPERATORS[self.metric][1]}_ops) with ({options})"
            f" where space = {space.index_uid} and {index.numbers}"
        )

    def existing(self, db: psycopg.Connection) -> dict[str, bool]:
        """Return the names of all indexes of the table, each with whether it is finished."""
        rows = db.execute(
            "select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where i.indrelid = to_regclass(%s)",
            [self.table.quoted],
        )
        return dict(rows.fetchall())

    def ranges(self, db: psycopg.Connection, space: Partition) -> list[AnnRange]:
        """Return the finished indexes of a space, each of which begins where the last one ends.

        The numbers after the last one are in no index. The list is empty if there is none.
        """
        rows = db.execute(
            "select c.relname, pg_get_expr(i.indpred, i.indrelid), c.reltuples, c.reloptions"
            " from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where i.indisvalid and i.indrelid = to_regclass(%s) and c.relname = any(%s)",
            [self.table.quoted, self.names(space)],
        ).fetchall()
        finished = [
            AnnRange(
                name, *_bounds(predicate), int(count), dict(o.split("=") for o in options or ())
            )
            for name, predicate, count, options in rows
        ]
        chain: list[AnnRange] = []
        # A merged index is there before those that it replaces are dropped: prefer the longest.
        while following := [index for index in finished if index.after == end_of(chain)]:
            chain.append(max(following, key=lambda index: index.last))
        return chain

    def prepare(
        self, db: psycopg.Connection, ranges: Sequence[AnnRange], k: int, *, filtered: bool
    ) -> None:
        """Set up a transaction for one search of indexes.

        The search continues until enough rows pass the filter.
        """
        settings: dict[str, Any]
        if self.config.type == "hnsw":
            settings = {
                "hnsw.ef_search": min(self.candidates(k), _MOST_CANDIDATES),
                "hnsw.iterative_scan": "relaxed_order",
                "hnsw.max_scan_tuples": 2**31 - 1,
            }
        else:
            lists = max(int(index.options.get("lists", 100)) for index in ranges)
            settings = {
                "ivfflat.probes": self.config.probes or math.ceil(math.sqrt(lists)),
                "ivfflat.iterative_scan": "relaxed_order",
                "ivfflat.max_probes": 32768,
            }
        if not filtered:
            # Without a filter the index is always best; with one, the planner estimates rows.
            # Vectors without an index are sorted nevertheless, which costs so much by the
            # planner's reckoning that an older PostgreSQL would compile the statement.
            settings |= {"enable_sort": "off", "jit": "off"}
        calls = (f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        db.execute(f"select {', '.join(calls)}")

    def order(self, space: Partition) -> str:
        """Return the `order by` expression that lets PostgreSQL use the index."""
        kind = _kind(space)
        return f"embedding::{kind} {_OPERATORS[self.metric][0]} %(query)s::{kind}"

    def candidates(self, k: int) -> int:
        """Return the number of rows to take from an index, of which the best are found exactly."""
        return max(k, self.config.ef_search if self.config.type == "hnsw" else 100)

    @property
    def base(self) -> str:
        """The beginning of the names of all its indexes."""
        # PostgreSQL cuts names at 63 bytes. The names of spaces, which follow, are unique.
        return (self.config.name or f"{self.table.name}_ann")[:44]


def end_of(chain: Sequence[AnnRange]) -> int:
    """Return the number after which no index covers the vectors."""
    return chain[-1].last if chain else _BEFORE_ALL


def _bounds(predicate: str) -> tuple[int, int]:
    limits = dict(_BOUND.findall(predicate))
    return int(limits.get(">", _BEFORE_ALL)), int(limits["<="])


def _kind(space: Partition) -> str:
    return f"{'vector' if space.dimension <= _SINGLE else 'halfvec'}({space.dimension})"
