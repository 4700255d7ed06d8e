"""The catalog of one vector database: its transactions, its ledger and its embedding cache."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from lorebind_config.errors import IngestRunningError, StoreError
from lorebind_config.namespace import tenant
from lorebind_config.project_files import make_data_folder
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.added import AddedDocuments
from lorebind_knowledge.catalog.call_rates import CallRates
from lorebind_knowledge.catalog.embedding_cache import EmbeddingCache
from lorebind_knowledge.catalog.excluded import ExcludedDocuments
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.catalog.recognized import RecognizedPages
from lorebind_knowledge.catalog.runs import Runs
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import EmbeddedDatabase
from lorebind_knowledge.database.sqlite_file import refuse_frozen
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.databases import Database, PostgresDatabase
    from lorebind_knowledge.database.sql import Sql

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.2
"""Seconds between two attempts to take a lease that another writer holds."""
_PAUSE_GROWTH = 1.5


class Catalog:
    """Stores everything that a vector database does not: see `schema`.

    Without the catalog, the vectors cannot be used.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        postgres: PostgresDatabase | None = None,
        cache_bytes: int | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        """
        Args:
            path: the SQLite file.
            postgres: the PostgreSQL database. Without `path` and `postgres`, the catalog is kept
                in memory.
            cache_bytes: maximum size of all cached vectors; None means no limit.
            lease_seconds: duration of a lease that is not renewed; None means the default.
        """
        self._path, self.postgres, self._lease_seconds = path, postgres, lease_seconds
        self._database: Database = postgres or EmbeddedDatabase(path, CATALOG)
        self.threads = self._database.threads
        """The threads of functions that use this catalog, or the vectors that belong to it."""
        self.ledger = Ledger(self._database)
        self.runs = Runs(self._database)
        self.added = AddedDocuments(self._database)
        self.excluded = ExcludedDocuments(self._database)
        self.recognized = RecognizedPages(self._database)
        self.embeddings = EmbeddingCache(self._database, cache_bytes)
        self.call_rates = CallRates(postgres) if postgres is not None else None
        """The limits of embedders for all processes together; None if they have no database."""
        self._locked: set[Namespace] = set()
        self._locking = threading.Lock()

    @property
    def is_remote(self) -> bool:
        """Whether the catalog is on a server, so that calls mostly wait for its responses."""
        return self.postgres is not None

    @property
    def order(self) -> str:
        """The place of its connections in the order in which a search of several takes them."""
        return f"{id(self)}" if self.postgres is None else self.postgres.key

    def reading(self) -> AbstractContextManager[Sql]:
        """Open a consistent snapshot. Missing tables read as empty and are not created."""
        return self._database.reading()

    @contextmanager
    def writing(self, lease: Lease) -> Iterator[Sql]:
        """Open a write transaction for the holder of a lease.

        Raises:
            LeaseLostError: another process has taken over; nothing is written.
        """
        with self._database.writing() as sql:
            leases.check(sql, lease)
            yield sql

    def finish_load(self) -> None:
        """Update PostgreSQL's statistics immediately instead of a minute later.

        Call it after large writes: PostgreSQL then plans searches by the current contents of the
        tables. Does nothing on SQLite.
        """
        if self.postgres is None:
            return
        # A role that does not own the tables may not do this; the server does it later.
        with suppress(StoreError), self.postgres.writing() as sql:
            sql.run("analyze catalog_versions, catalog_chunks (space, version, number, id)")

    @contextmanager
    def lease(self, namespace: Namespace) -> Iterator[Lease]:
        """Hold the lease to write a knowledge base, and renew it until the end of the block.

        If the previous holder has ended, in any way, the lease is free immediately. If it was
        suspended or lost its connection, the lease is free when it has expired.

        Raises:
            IngestRunningError: another process holds the lease.
            ReadOnlyError: the catalog is read-only.
            StoreError: the lock file cannot be created, or PostgreSQL cannot be reached.
        """
        with self._process_lock(namespace) as alone:
            lease = leases.take(self._database, namespace, alone=alone, seconds=self._lease_seconds)
            if lease is None:
                raise IngestRunningError(
                    f"another ingest of knowledge base {namespace.kb!r} is under way; "
                    "wait for it to end"
                )
            with leases.renewed(self._database, lease):
                yield lease

    @asynccontextmanager
    async def hold_lease(self, namespace: Namespace, *, wait: bool) -> AsyncIterator[Lease]:
        """Hold the lease to write a knowledge base or a collection; see `lease`.

        Calls in the block run in the lane of ingests, and as the namespace's tenant.

        Args:
            namespace: the knowledge base or collection.
            wait: whether to wait for another writer instead of raising.

        Raises:
            IngestRunningError: another writer holds the lease.
            ReadOnlyError, StoreError: see `lease`.
        """
        stack = ExitStack()
        with self.threads.lane("ingest"), tenant(namespace.tenant):
            try:
                lease = await self._enter_lease(stack, namespace, wait=wait)
                before = leases.held.set(lease)
                try:
                    yield lease
                finally:
                    leases.held.reset(before)
            finally:
                await call(stack.close)

    async def _enter_lease(self, stack: ExitStack, namespace: Namespace, *, wait: bool) -> Lease:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await call(stack.enter_context, self.lease(namespace))
            except IngestRunningError:
                if not wait:
                    raise
            # Polling, because a thread that waits for a lock cannot be cancelled.
            # Of random length, so that processes that wait together do not look together.
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(_PAUSE_GROWTH * pause, _LONGEST_PAUSE)

    @contextmanager
    def _process_lock(self, namespace: Namespace) -> Iterator[bool]:
        """Try to take the lock that is freed when its process ends; yield whether we hold it."""
        from filelock import FileLock, Timeout

        name = leases.lease_name(namespace)
        if self.postgres is not None:
            with self.postgres.lock(name) as free:
                yield free
            return
        path = self._path
        if path is None:
            with self._locking:
                free = namespace not in self._locked
                self._locked.add(namespace)
            try:
                yield free
            finally:
                if free:
                    self._locked.discard(namespace)
            return
        refuse_frozen(path)
        make_data_folder(path)
        # Not bound to a thread: one thread takes it, and another one releases it (`hold_lease`).
        lock = FileLock(path.with_name(f"{path.name}.{name}.lock"), timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        except OSError as error:
            raise StoreError(
                f"cannot lock {lock.lock_file}: {error.strerror or error}; "
                "make the folder of the database writable"
            ) from error
        try:
            yield True
        finally:
            lock.release()

    def close(self) -> None:
        self.embeddings.close()
        self._database.close()
