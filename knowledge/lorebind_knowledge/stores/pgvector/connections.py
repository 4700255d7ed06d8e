"""Connections to PostgreSQL for any thread, before and after a fork, and errors in words.

psycopg_pool connects in the background, so that whoever asks it during an outage waits for its
whole timeout and is never told the reason. Here the caller connects and hears it at once.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from lorebind_knowledge.catalog.postgres import import_psycopg
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from lorebind_knowledge.catalog.postgres import PostgresAddress
    from lorebind_knowledge.declarations.vector_dbs import PoolConfig

_LOCK_SECONDS = 30
# After that long it is worth a round trip to ask whether the server is still there.
_TRUSTED_SECONDS = 1.0
_KEPT_SECONDS = 300.0


class Connections:
    """Transactions on one database, a limited number at a time."""

    def __init__(self, address: PostgresAddress, name: str, pool: PoolConfig) -> None:
        """
        Args:
            address: the database.
            name: what messages begin with.
            pool: how many connections, and how long to wait for one.
        """
        self.name = name
        self._address = address
        self._pool = pool
        self.errors = import_psycopg().errors
        """psycopg's module of that name."""
        self._closed = False
        self._renew()
        with _all_lock:
            _all.add(self)

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection]:
        """One consistent view."""
        with self._transaction("begin isolation level repeatable read, read only") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection]:
        """A transaction that is committed at the end of the block, or not at all."""
        begin = f"begin; set local lock_timeout = '{_LOCK_SECONDS}s'"
        with self._transaction(begin) as connection:
            yield connection

    @contextmanager
    def single(self) -> Iterator[psycopg.Connection]:
        """A connection for statements that no transaction may hold, and of no limit."""
        with self._named():
            connection = self._address.connect(autocommit=True)
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        self._closed = True
        self._close_idle()

    def abandon(self) -> None:
        """Leave to the parent what belongs to it: closing a connection here would end its session.

        Locks may be held by threads that are not in this process.
        """
        _of_the_parent.extend(connection for _, connection in self._idle)
        self._renew()

    def _renew(self) -> None:
        self._idle: list[tuple[float, psycopg.Connection]] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self._pool.max_size)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[psycopg.Connection]:
        if self._closed:
            raise StoreError(f"{self.name}: the store is closed")
        free = self._free
        if not free.acquire(timeout=self._pool.timeout_seconds):
            raise StoreError(
                f"{self.name}: all {self._pool.max_size} connections have been in use for "
                f"{self._pool.timeout_seconds:g} s; raise pool.max_size, or ask less at a time"
            )
        try:
            with self._named():
                connection = self._take()
                try:
                    connection.execute(begin)
                    yield connection
                    connection.execute("commit")
                except BaseException:
                    self._undo(connection)
                    raise
                self._give_back(connection)
        finally:
            free.release()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self.errors.Error as error:
            raise StoreError(f"{self.name}: {self._address.advice(error)}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.name}: not valid Unicode: {error}") from error

    def _take(self) -> psycopg.Connection:
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return self._address.connect(autocommit=True)
            if time.monotonic() - since < _TRUSTED_SECONDS or self._answers(connection):
                return connection
            connection.close()

    def _answers(self, connection: psycopg.Connection) -> bool:
        with suppress(self.errors.Error):
            connection.execute("select 1")
            return True
        return False

    def _undo(self, connection: psycopg.Connection) -> None:
        """Roll back and keep the connection if that works; if not, none of the others may."""
        with suppress(self.errors.Error):
            if not connection.closed and connection.pgconn.transaction_status != _ACTIVE:
                connection.execute("rollback")
                self._give_back(connection)
                return
        connection.close()
        self._close_idle()

    def _give_back(self, connection: psycopg.Connection) -> None:
        now = time.monotonic()
        expired = []
        with self._lock:
            self._idle.append((now, connection))
            # The last one in is the first one out, so those at the front have waited longest.
            while self._closed or (
                len(self._idle) > self._pool.min_size and now - self._idle[0][0] > _KEPT_SECONDS
            ):
                if not self._idle:
                    break
                expired.append(self._idle.pop(0)[1])
        for old in expired:
            old.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


# `PQTRANS_ACTIVE`: a statement is under way, as after an interrupt, and cannot be waited for.
_ACTIVE = 1

_all: WeakSet[Connections] = WeakSet()
_all_lock = threading.Lock()
_of_the_parent: list[psycopg.Connection] = []


def _after_fork_in_child() -> None:
    _all_lock.release()
    for connections in list(_all):
        connections.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_all_lock.acquire,
        after_in_parent=_all_lock.release,
        after_in_child=_after_fork_in_child,
    )
