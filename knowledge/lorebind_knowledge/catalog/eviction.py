"""When cached vectors were last used, and which of them go when they take too much room.

The day of the last use is all that is known. So most reads write nothing; the first of a day is
noted in memory and written with many others. What a crash loses of that are notes, and no vectors.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select

from lorebind_knowledge.bridge import call
from lorebind_knowledge.catalog.schema import embeddings
from lorebind_knowledge.catalog.sql import Sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import Connection

    from lorebind_knowledge.catalog.database import Database

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
            with self._alone() as connection:
                Sql(connection).run(
                    "update catalog_embeddings set used_on = :today where key in (:*keys)",
                    today=self.today,
                    keys=noted,
                )

    def _evict_some(self) -> int:
        if self._max_bytes is None:
            return 0
        with self._database.reading() as connection:
            if _bytes_of_all(connection) <= self._max_bytes:
                return 0
        with self._alone() as connection:
            # Asked again: another process may have made room meanwhile.
            excess = _bytes_of_all(connection) - self._max_bytes
            going: list[str] = []
            for key, size in connection.execute(_OLDEST).all():
                if excess <= 0:
                    break
                going.append(key)
                excess -= size
            connection.execute(delete(embeddings).where(embeddings.c.key.in_(going)))
        return len(going)

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        """A transaction beside which no other process changes days or evicts.

        SQLite has one writer anyway. PostgreSQL has many, and two that lock the same rows in
        different orders would wait for each other.
        """
        with self._database.writing() as connection:
            if connection.dialect.name == "postgresql":
                schema = func.hashtextextended(func.current_schema(), 0)
                name = func.hashtextextended("lorebind embedding cache", schema)
                connection.execute(select(func.pg_advisory_xact_lock(name)))
            yield connection


_OLDEST = (
    select(embeddings.c.key, embeddings.c.size)
    .order_by(embeddings.c.used_on, embeddings.c.created_at)
    .limit(_GOING_AT_ONCE)
)


def _bytes_of_all(connection: Connection) -> int:
    return int(connection.scalar(select(func.sum(embeddings.c.size))) or 0)
