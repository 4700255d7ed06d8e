"""A pool of connections to PostgreSQL, for any thread, before and after a fork.

psycopg_pool connects in the background: during an outage, its callers wait for its whole timeout
and never get the reason. Here the caller connects, and gets the error immediately.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from lorebind_config.errors import StoreError
from lorebind_knowledge.database.postgres_address import import_psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from lorebind_knowledge.database.postgres_address import PostgresAddress

IDLE_SECONDS = 10.0
"""Seconds that the server lets an idle writer, which may be suspended, keep its locks. Shorter than
a lease."""
# A connection that was idle for longer is checked with a round trip before it is used.
_TRUSTED_SECONDS = 1.0
_KEPT_SECONDS = 300.0
# A server that is frozen accepts a statement and never answers.
_CHECK_SECONDS = 10.0


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
            name: the beginning of messages.
            min_size: number of idle connections that stay open.
            max_size: maximum number of connections in use at the same time.
            timeout_seconds: seconds a call waits for a connection.
            lock_seconds: seconds a writer waits for locks of others; None means the server's
                setting.
            own_schema: the schema that transactions use; None means the address's.
        """
        self.name = name
        self._address = address
        # Set for the transaction only, because a pooler may give the connection to others.
        self._enter = "" if own_schema is None else f'; set local search_path to "{own_schema}"'
        self.begin_reading = f"begin isolation level repeatable read, read only{self._enter}"
        """The statement that begins a transaction of `reading`."""
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
        """Open a read-only transaction that sees one state of the database."""
        with self._connected() as connection:
            connection.execute(self.begin_reading)
            yield connection
            connection.execute("commit")

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection]:
        """Open a transaction that is committed at the end of the block, or rolled back."""
        with self._connected() as connection:
            # A writer that is suspended in a transaction must not block others.
            connection.execute(
                "begin isolation level read committed; set local"
                f" idle_in_transaction_session_timeout = '{IDLE_SECONDS:g}s'"
                f"{self._wait}{self._enter}"
            )
            yield connection
            connection.execute("commit")

    @contextmanager
    def single(self) -> Iterator[psycopg.Connection]:
        """Open a connection in autocommit mode, for statements that no transaction may contain."""
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
        """Close the connections that are not in use at the moment."""
        with self._lock:
            idle = self._idle.copy()
            self._idle.clear()
        for _, connection in idle:
            connection.close()

    def abandon(self) -> None:
        """Forget the parent's connections after a fork: closing one here would end its session.

        Locks are replaced, because threads that do not exist in this process may hold them.
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
                f"{self._timeout_seconds:g} s; raise pool.max_size, or make fewer concurrent calls"
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
        """Send a statement, and return whether the result comes in time."""
        pgconn, deadline = connection.pgconn, time.monotonic() + _CHECK_SECONDS
        with suppress(self._errors.Error), selectors.DefaultSelector() as selector:
            pgconn.send_query(b"select 1")
            selector.register(pgconn.socket, selectors.EVENT_READ)
            while pgconn.is_busy() or pgconn.get_result() is not None:
                if pgconn.is_busy():
                    if not selector.select(deadline - time.monotonic()):
                        return False
                    pgconn.consume_input()
            return pgconn.transaction_status == _IDLE
        return False

    def _undo(self, connection: psycopg.Connection) -> None:
        """Roll back and keep the connection; if that fails, close all: others may be lost too."""
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
            # The pool is last in, first out, so the first connections have been idle the longest.
            while self._closed or (
                len(self._idle) > self._min_size and now - self._idle[0][0] > _KEPT_SECONDS
            ):
                if not self._idle:
                    break
                expired.append(self._idle.pop(0)[1])
        for old in expired:
            old.close()


# `PQTRANS_IDLE`: the connection is usable, and in no transaction.
_IDLE = 0
# `PQTRANS_ACTIVE`: a statement is still running, as after an interrupt; a rollback would wait.
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
