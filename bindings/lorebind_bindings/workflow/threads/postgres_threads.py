"""Threads in PostgreSQL, for several machines.

One connection writes the threads and holds the locks of those that run here. If the connection is
lost, this process loses its locks and can no longer write, and another process may resume the
threads.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver

from lorebind_bindings.workflow.threads.checkpointers import ThreadSaver
from lorebind_bindings.workflow.threads.claims import PATIENCE_SECONDS
from lorebind_bindings.workflow.threads.serializing import encoded
from lorebind_config.errors import StoreError
from lorebind_config.namespace import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from psycopg import Cursor
    from psycopg.rows import DictRow

    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.postgres_address import PostgresAddress

_TRUSTED_SECONDS = 1.0
"""Seconds after the last use until the connection is checked with a round trip."""
_SETUP_SECONDS = 60.0
"""Seconds to wait for another process that creates the tables."""
_NOTICE_LOSS = (
    "set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3"
)
"""Makes the server release the locks of a machine that is gone after a minute, not after hours."""
_NUMBER = "(%s::bigint # hashtextextended(current_schema(), 0))"
"""The number of a lock. PostgreSQL's locks are per database, but each schema has its threads, so
the hash of its name is mixed in (`#` is exclusive or)."""


class PostgresThreads(ThreadSaver, PostgresSaver):
    """LangGraph's saver on a connection that is reopened when it is lost."""

    conn: psycopg.Connection[Any]

    def __init__(self, address: PostgresAddress, beside: PostgresDatabase | None = None) -> None:
        """
        Args:
            address: the database.
            beside: a database beside whose schema the tables have their own; with None, they are
                in that of the connection.

        Raises:
            StoreError: the server cannot be reached, or rejects the connection.
        """
        self.name = f"threads in PostgreSQL at {address}"
        self._address, self._beside = address, beside
        self._process = os.getpid()
        self._held: set[str] = set()
        # Reentrant: a claim is held around a query, which holds it too.
        self._turn = threading.RLock()
        self._parents: psycopg.Connection[Any] | None = None
        self.claims = self  # the same connection holds the locks
        ThreadSaver.__init__(self)
        with self._named():
            PostgresSaver.__init__(self, self._connect(), serde=self.serde)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        # The saver would store text and numbers in a jsonb column, which rejects the character NUL
        # and reformats numbers. Encoded values are stored unchanged.
        copy = checkpoint.copy()
        values = checkpoint["channel_values"].items()
        copy["channel_values"] = {name: encoded(value) for name, value in values}
        return super().put(config, copy, metadata, new_versions)

    def newest(
        self, prefix: str, limit: int, before: str | None = None, after: str | None = None
    ) -> Sequence[str]:
        """See `ThreadSaver.newest`."""
        order = "desc" if after is None else "asc"
        with self._cursor() as cursor:
            cursor.execute(
                "select thread_id from checkpoints"
                " where checkpoint_ns = '' and starts_with(thread_id, %(prefix)s)"
                " group by thread_id"
                " having (%(before)s::text is null or max(checkpoint_id) < %(before)s)"
                " and (%(after)s::text is null or max(checkpoint_id) > %(after)s)"
                f" order by max(checkpoint_id) {order} limit %(limit)s",
                {"prefix": prefix, "before": before, "after": after, "limit": limit},
            )
            keys = [row["thread_id"] for row in cursor.fetchall()]
            return keys if after is None else keys[::-1]

    def take(self, key: str) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (taken := self._try(key)) and time.monotonic() < deadline:
            time.sleep(0.02)  # the server may not have noticed yet that the holder was killed
        return taken

    def free(self, key: str) -> None:
        with self._alone(), suppress(StoreError):
            try:
                # If the connection is lost, the server has released the lock already.
                if not self._is_lost:
                    self._ask(f"pg_advisory_unlock({_NUMBER})", [_number(key)])
            finally:
                self._held.discard(key)

    def is_held(self, key: str) -> bool:
        # pg_locks shows the 64-bit number of a lock in two halves; such locks have objsubid 1.
        halves = "classid::bigint = (number >> 32) & 4294967295 and objid::bigint = number"
        return self._ask(
            f"exists (select from pg_locks, (select {_NUMBER} as number) wanted"
            " where locktype = 'advisory' and granted and objsubid = 1 and database ="
            " (select oid from pg_database where datname = current_database())"
            f" and {halves} & 4294967295)",
            [_number(key)],
        )

    def close(self) -> None:
        with self._alone():
            if not self._is_lost:
                self.conn.close()

    def _try(self, key: str) -> bool:
        with self._alone():
            if key in self._held or not self._ask(
                f"pg_try_advisory_lock({_NUMBER})", [_number(key)]
            ):
                return False
            self._held.add(key)
            return True

    def _ask(self, expression: str, values: list[object]) -> bool:
        with self._cursor() as cursor:
            cursor.execute(f"select {expression} as answer", values)
            (row,) = cursor.fetchall()
            return bool(row["answer"])

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Cursor[DictRow]]:
        with self._alone(), self._named():
            self._be_connected()
            with super()._cursor(pipeline=pipeline) as cursor:
                yield cursor
            self._used = time.monotonic()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise StoreError(f"{self.name}: {self._address.advice(error)}") from error

    def _be_connected(self) -> None:
        if self._held:
            if self._is_lost:
                raise StoreError(
                    f"{self.name}: the connection was lost while threads were running, and other "
                    "processes may run them now; finished tasks are saved, resume the threads"
                )
            return
        if not self._is_lost and time.monotonic() - self._used > _TRUSTED_SECONDS:
            try:
                self.conn.execute("select 1")
            except psycopg.Error:
                self.conn.close()
        if self._is_lost:
            self.conn = self._connect()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._address.connect(autocommit=True)
        try:
            connection.execute(_NOTICE_LOSS)
            if self._beside is not None:
                self._enter(connection, self._beside)
            self._make_tables(connection)
        except BaseException:
            connection.close()
            raise
        self._used = time.monotonic()
        return connection

    def _enter(self, connection: psycopg.Connection[Any], beside: PostgresDatabase) -> None:
        """Use the schema of the threads; create it if it is missing."""
        schema = beside.schema_beside("threads", connection)
        there = connection.execute("select to_regnamespace(quote_ident(%s)) is not null", [schema])
        if there.fetchall() == [(False,)]:
            if not beside.ensure_schema:
                raise StoreError(
                    f"{self.name}: their schema is missing, and ensure_schema is false; create it "
                    f'for the role of the DSN with:\nCREATE SCHEMA "{schema}";'
                )
            with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                connection.execute(f'create schema "{schema}"')  # or another process has just
        connection.execute(f'set search_path to "{schema}"')

    def _make_tables(self, connection: psycopg.Connection[Any]) -> None:
        """Create LangGraph's tables, in one process at a time.

        LangGraph creates indexes concurrently, which waits for all running statements. A statement
        that waits for a lock would be one of them, so the lock is polled instead.
        """
        number = _number("making the tables")
        deadline = time.monotonic() + _SETUP_SECONDS
        while not self._has_tables(connection):
            tried = connection.execute(f"select pg_try_advisory_lock({_NUMBER})", [number])
            if tried.fetchall() == [(True,)]:
                try:
                    PostgresSaver(connection).setup()
                    return
                finally:
                    with suppress(psycopg.Error):
                        connection.execute(f"select pg_advisory_unlock({_NUMBER})", [number])
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self.name}: another process has been creating the tables for "
                    f"{_SETUP_SECONDS:g} s; wait until it ends, or stop it"
                )
            time.sleep(0.05)

    def _has_tables(self, connection: psycopg.Connection[Any]) -> bool:
        rows = connection.execute("select to_regclass('checkpoint_migrations') is not null")
        if rows.fetchall() == [(False,)]:
            return False
        ((version,),) = connection.execute("select max(v) from checkpoint_migrations").fetchall()
        return version is not None and version >= len(self.MIGRATIONS) - 1

    @property
    def _is_lost(self) -> bool:
        return self.conn.closed or self.conn is self._parents

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other threads. After a fork, do not use the parent's connection and locks."""
        if self._process != os.getpid():
            self._process = os.getpid()
            # Threads of the parent, which do not exist here, may hold these locks.
            self._turn, self.lock = threading.RLock(), threading.Lock()
            self._held = set()
            self._parents = self.conn  # closing it would end the parent's session
        with self._turn:
            yield


def _number(name: str) -> int:
    # 60 bits, which a signed bigint can hold.
    return int(digest("lorebind threads", name)[:15], 16)
