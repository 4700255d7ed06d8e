"""A pool of connections to PostgreSQL, for any thread, before and after a fork.

psycopg_pool connects in the background: during an outage, its callers wait for its whole timeout
and are never told the reason. Here the caller connects, and gets the error at once.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.postgres.address import import_psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from lorebind_knowledge.postgres.address import PostgresAddress

IDLE_SECONDS = 10.0
"""How long the server lets a writer that says nothing keep its locks: it may have been stopped.
Less than a lease lasts."""
# After that long it is worth a round trip to ask whether the server is still there.
_TRUSTED_SECONDS = 1.0
_KEPT_SECONDS = 300.0


class Connections:
    """Transactions on one database, a limited number at a time."""

    def __init__(
        self,
        address: PostgresAddress,
        name: str,
        *,
        min_size: int = 0,
        max_size: int = 8,
        timeout_seconds: float = 30,
        lock_seconds: float | None = None,
        own_schema: str | None = None,
    ) -> None:
        """
        Args:
            address: the database.
            name: what messages begin with.
            min_size: connections that are kept when they are idle.
            max_size: the most connections at a time.
            timeout_seconds: how long a call waits for a connection.
            lock_seconds: how long a writer waits for others' locks; None leaves it to the server.
            own_schema: the schema that transactions are in; None means the address's.
        """
        self.name = name
        self._address = address
        # For the transaction only: a pooler may hand the connection to others.
        self._enter = "" if own_schema is None else f'; set local search_path to "{own_schema}"'
        self._wait = "" if lock_seconds is None else f"; set local lock_timeout = '{lock_seconds}s'"
        self._min_size = min_size
        self._max_size = max_size
        self._timeout_seconds = timeout_seconds
        self._errors = import_psycopg().errors
        self._closed = False
        self._renew()
        with _all_lock:
            _all.add(self)

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection]:
        """A transaction that sees one state of the database and changes nothing."""
        with self._connected() as connection:
            connection.execute(f"begin isolation level repeatable read, read only{self._enter}")
            yield connection
            connection.execute("commit")

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection]:
        """A transaction that is committed at the end of the block, or not at all."""
        with self._connected() as connection:
            # A writer that is stopped in the middle must not keep others waiting.
            connection.execute(
                "begin isolation level read committed; set local"
                f" idle_in_transaction_session_timeout = '{IDLE_SECONDS:g}s'"
                f"{self._wait}{self._enter}"
            )
            yield connection
            connection.execute("commit")

    @contextmanager
    def single(self) -> Iterator[psycopg.Connection]:
        """A new connection in autocommit mode, for statements that no transaction may hold."""
        self._check_open()
        with self._named():
            connection = self._address.connect(autocommit=True)
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that nobody uses at this moment."""
        with self._lock:
            idle = self._idle.copy()
            self._idle.clear()
        for _, connection in idle:
            connection.close()

    def abandon(self) -> None:
        """Forget the parent's connections after a fork: closing one here would end its session.

        Locks are made anew, since threads that are not in this process may hold them.
        """
        _of_the_parent.extend(connection for _, connection in self._idle)
        self._renew()

    def _renew(self) -> None:
        self._idle: list[tuple[float, psycopg.Connection]] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self._max_size)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        self._check_open()
        free = self._free
        if not free.acquire(timeout=self._timeout_seconds):
            raise StoreError(
                f"{self.name}: all {self._max_size} connections have been in use for "
                f"{self._timeout_seconds:g} s; raise pool.max_size, or make fewer calls at a time"
            )
        try:
            with self._named():
                connection = self._take()
                try:
                    yield connection
                except BaseException:
                    self._undo(connection)
                    raise
                self._give_back(connection)
        finally:
            free.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.name} is closed; open another")

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self._errors.Error as error:
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
        with suppress(self._errors.Error):
            connection.execute("select 1")
            return True
        return False

    def _undo(self, connection: psycopg.Connection) -> None:
        """Roll back and keep the connection; if that fails, close all, others may be lost too."""
        with suppress(self._errors.Error):
            if not connection.closed and connection.pgconn.transaction_status != _ACTIVE:
                connection.execute("rollback")
                self._give_back(connection)
                return
        connection.close()
        self.close_idle()

    def _give_back(self, connection: psycopg.Connection) -> None:
        now = time.monotonic()
        expired = []
        with self._lock:
            self._idle.append((now, connection))
            # The last one in is the first one out, so those at the front have waited longest.
            while self._closed or (
                len(self._idle) > self._min_size and now - self._idle[0][0] > _KEPT_SECONDS
            ):
                if not self._idle:
                    break
                expired.append(self._idle.pop(0)[1])
        for old in expired:
            old.close()


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
