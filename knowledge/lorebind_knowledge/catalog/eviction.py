"""When cached vectors were last used, and which of them go when they take too much room.

The day of the last use is all that is known. So most reads write nothing; the first of a day is
noted in memory and written with many others. What a crash loses of that are notes, and no vectors.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lorebind_knowledge.database.base import Database
    from lorebind_knowledge.database.sql import Sql

_SECONDS_PER_DAY = 86_400
_NOTED_AT_ONCE = 2_000
_GOING_AT_ONCE = 500
"""Rows in one transaction, so that no other writer waits long for a large eviction."""


class Recency:
    """Keeps the days of use in the catalog, and its vectors within a number of bytes."""

    def __init__(
        self,
        database: Database,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            database: the catalog's.
            max_bytes: of all vectors together, what is stored beside them not counted; None is no
                bound.
            clock: the time in seconds since 1970.
        """
        self._database = database
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: set[str] = set()

    @property
    def today(self) -> int:
        """In days since 1970."""
        return int(self._clock() // _SECONDS_PER_DAY)

    def note(self, keys: Iterable[str]) -> None:
        """These were used today. It is written when there are many of them, else by `trim`."""
        with self._lock:
            self._noted.update(keys)
            if len(self._noted) < _NOTED_AT_ONCE:
                return
        self._save()

    async def trim(self) -> int:
        """Let the least recently used vectors go while all take more room than they may.

        May be cancelled or killed anywhere, and be called by several processes at once.

        Returns:
            how many went.

        Raises:
            StoreError: the catalog cannot be written.
        """
        await call(self._save)
        gone = 0
        while went := await call(self._evict_some):
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

    def _evict_some(self) -> int:
        if self._max_bytes is None:
            return 0
        with self._database.reading() as sql:
            if _bytes_of_all(sql) <= self._max_bytes:
                return 0
        with self._alone() as sql:
            # Asked again: another process may have made room meanwhile.
            excess = _bytes_of_all(sql) - self._max_bytes
            going: list[str] = []
            for key, size in sql.run(_OLDEST, limit=_GOING_AT_ONCE):
                if excess <= 0:
                    break
                going.append(key)
                excess -= size if type(size) is int else 0  # a damaged row goes all the same
            sql.run("delete from catalog_embeddings where key in (:*going)", going=going)
        return len(going)

    @contextmanager
    def _alone(self) -> Iterator[Sql]:
        """A transaction beside which no other process changes days or evicts.

        SQLite has one writer anyway. PostgreSQL has many, and two that lock the same rows in
        different orders would wait for each other.
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
