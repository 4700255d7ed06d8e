"""Transactions in PostgreSQL, with errors that name the object that uses the database."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_config.errors import DatabaseUnavailableError, StoreError
from lorebind_knowledge.database.postgres_address import import_psycopg
from lorebind_knowledge.database.postgres_pool import Limits, enter_pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from lorebind_knowledge.database.postgres_address import PostgresAddress
    from lorebind_knowledge.database.postgres_pool import Pool

IDLE_SECONDS = 10.0
"""Seconds that the server lets an idle writer, which may be suspended, keep its locks. Those of a
lease are fewer than it has."""


class Connections:
    """Transactions on one database, in connections of its pool."""

    def __init__(
        self,
        address: PostgresAddress,
        name: str,
        *,
        limits: Limits | None = None,
        timeout_seconds: float = 30,
        lock_seconds: float | None = None,
        own_schema: str | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """
        Args:
            address: the database.
            name: the beginning of messages.
            limits: the size of the pool; None means what others ask for.
            timeout_seconds: seconds a call waits for a connection.
            lock_seconds: seconds a writer waits for locks of others; None means the server's
                setting.
            own_schema: the schema that transactions use; None means the address's.
            idle_seconds: see `IDLE_SECONDS`.
        """
        self.name = name
        self._address = address
        # Set for the transaction only, because a pooler may give the connection to others.
        self._enter = "" if own_schema is None else f'; set local search_path to "{own_schema}"'
        self.begin_reading = f"begin isolation level repeatable read, read only{self._enter}"
        """The statement that begins a transaction of `reading`."""
        self._wait = "" if lock_seconds is None else f"; set local lock_timeout = '{lock_seconds}s'"
        self._idle = f"set local idle_in_transaction_session_timeout = '{idle_seconds:g}s'"
        self._limits = limits or Limits()
        self._timeout_seconds = timeout_seconds
        self._errors = import_psycopg().errors
        self._closed = False
        self._pool: Pool | None = None

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection]:
        """Open a read-only transaction that sees one state of the database."""
        with self._connected(self.begin_reading) as connection:
            connection.execute(self.begin_reading)
            yield connection
            connection.execute("commit")

    @contextmanager
    def joining(self) -> Iterator[psycopg.Connection]:
        """Read in the transaction of `reading` that the caller is in, or else in a new one.

        A search that reads its catalog in the same database therefore needs no second connection.
        Settings and errors of the block do not change the rest of the transaction.
        """
        with self._entered().joined(self.begin_reading) as joined:
            if joined is not None:
                with self._named(), joined.transaction(force_rollback=True):
                    yield joined
                return
        with self.reading() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection]:
        """Open a transaction that is committed at the end of the block, or rolled back."""
        # A writer that is suspended in a transaction must not block others.
        # Stricter levels would refuse rows that others have changed since, instead of waiting for
        # them.
        begin = f"begin isolation level read committed; {self._idle}{self._wait}{self._enter}"
        with self._connected(begin) as connection:
            connection.execute(begin)
            yield connection
            connection.execute("commit")

    @contextmanager
    def single(self) -> Iterator[psycopg.Connection]:
        """Open a connection in autocommit mode, for statements that no transaction may contain.

        It is no connection of the pool, because it keeps locks and settings until it is closed.
        """
        self._check_open()
        with self._named():
            connection = self._address.connect(autocommit=True)
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        self._closed = True
        self.leave()

    def leave(self) -> None:
        """Leave the pool, until the next use. The last one to leave closes its connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.leave(self)

    def limit(self, count: int) -> None:
        """Allow the process at most this many connections in the pool, from the next use on."""
        self.leave()
        self._limits = self._limits._replace(cap=count)

    @contextmanager
    def _connected(self, begin: str) -> Iterator[psycopg.Connection]:
        pool = self._entered()
        with pool.slot(self._timeout_seconds) as is_free:
            if not is_free:
                raise StoreError(
                    f"{self.name}: all {pool.size} connections have been in use for "
                    f"{self._timeout_seconds:g} s; raise pool.max_size, or make fewer concurrent "
                    "calls"
                )
            with self._named(), pool.lend(begin) as connection:
                yield connection

    def _entered(self) -> Pool:
        self._check_open()
        if (pool := self._pool) is None:
            pool = self._pool = enter_pool(self._address, self, self._limits)
        return pool

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.name} is closed; open another")

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self._errors.Error as error:
            kind = DatabaseUnavailableError if self._address.is_outage(error) else StoreError
            raise kind(f"{self.name}: {self._address.advice(error)}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.name}: not valid Unicode: {error}") from error
