"""Eviction of cached vectors: the days on which they were used, and the size limit.

Only the day of the last use is stored, so most reads write nothing. The first use of a day is
noted in memory and written together with many others. A crash loses such notes, but no vectors.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

_SECONDS_PER_DAY = 86_400
_NOTED_AT_ONCE = 2_000
_GOING_AT_ONCE = 500
"""Rows per transaction, so that a large eviction does not block other writers for long."""


class LruEviction:
    """Stores the day of each vector's last use, and keeps the vectors within a size limit."""

    def __init__(
        self,
        database: Database,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            database: the catalog's.
            max_bytes: maximum size of all vectors, without the data stored next to them; None
                means no limit.
            clock: returns the time in seconds since 1970.
        """
        self._database = database
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: set[str] = set()

    @property
    def today(self) -> int:
        """The current day, in days since 1970."""
        return int(self._clock() // _SECONDS_PER_DAY)

    def note(self, keys: Iterable[str]) -> None:
        """Note that these were used today. Many notes are written together, the rest by `trim`."""
        with self._lock:
            self._noted.update(keys)
            if len(self._noted) < _NOTED_AT_ONCE:
                return
        self._save()

    async def trim(self) -> int:
        """Evict the least recently used vectors until all fit into the size limit.

        It may be cancelled or killed at any point, and several processes may call it at the same
        time.

        Returns:
            the number of evicted vectors.

        Raises:
            StoreError: the catalog cannot be written.
        """
        gone = 0
        while went := await call(self._trim_some):
            gone += went
        return gone

    def _save(self) -> None:
        with self._lock:
            noted, self._noted = sorted(self._noted), set()
        if noted:
            with self._alone() as sql:
                sql.run(
                    "update catalog_embeddings set used_on = :today where key in (:*keys)",
                    today=self.today,
                    keys=noted,
                )

    def _trim_some(self) -> int:
        self._save()
        if self._max_bytes is None:
            return 0
        with self._database.reading() as sql:
            if _bytes_of_all(sql) <= self._max_bytes:
                return 0
        with self._alone() as sql:
            # Read again: another process may have evicted vectors in the meantime.
            excess = _bytes_of_all(sql) - self._max_bytes
            going: list[str] = []
            for key, size in sql.run(_OLDEST, limit=_GOING_AT_ONCE):
                if excess <= 0:
                    break
                going.append(key)
                excess -= size if type(size) is int else 0  # a damaged row is evicted too
            sql.run("delete from catalog_embeddings where key in (:*going)", going=going)
        return len(going)

    @contextmanager
    def _alone(self) -> Iterator[Sql]:
        """Open a transaction during which no other process writes days or evicts.

        SQLite allows only one writer anyway. In PostgreSQL, two writers that lock the same rows in
        different orders would deadlock.
        """
        with self._database.writing() as sql:
            if sql.is_postgres:
                sql.run(
                    "select pg_advisory_xact_lock(hashtextextended('lorebind embedding cache',"
                    " hashtextextended(current_schema(), 0)))"
                )
            yield sql


_OLDEST = "select key, size from catalog_embeddings order by used_on, created_at limit :limit"


def _bytes_of_all(sql: Sql) -> int:
    return int(sql.run("select coalesce(sum(size), 0) from catalog_embeddings")[0][0])
