"""The catalog of one vector database: its transactions, its ledger and its embedding cache."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.added import AddedDocuments
from lorebind_knowledge.catalog.embedding_cache import EmbeddingCache
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.catalog.runs import Runs
from lorebind_knowledge.catalog.tables import CATALOG
from lorebind_knowledge.data_folder import make_data_folder
from lorebind_knowledge.database.embedded import EmbeddedDatabase
from lorebind_knowledge.errors import IngestRunningError, StoreError
from lorebind_knowledge.sqlite.file import refuse_frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.base import Database
    from lorebind_knowledge.database.postgres import PostgresDatabase
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.namespace import Namespace


class Catalog:
    """Keeps all that a vector database does not: see `schema`. Without it, vectors mean nothing."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        postgres: PostgresDatabase | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        """
        Args:
            path: the SQLite file.
            postgres: the database in PostgreSQL. With neither, the catalog is kept in memory.
            cache_bytes: the most that the cached vectors may take; None is no bound.
        """
        self._path, self._postgres = path, postgres
        self._database: Database = postgres or EmbeddedDatabase(path, CATALOG)
        self.ledger = Ledger(self._database)
        self.runs = Runs(self._database)
        self.added = AddedDocuments(self._database)
        self.embeddings = EmbeddingCache(self._database, cache_bytes)
        self._locked: set[Namespace] = set()
        self._locking = threading.Lock()

    @property
    def is_remote(self) -> bool:
        """Whether a server answers, for which this process only waits."""
        return self._postgres is not None

    def reading(self) -> AbstractContextManager[Sql]:
        """One consistent view. What was not made yet reads as empty, and is not made."""
        return self._database.reading()

    @contextmanager
    def writing(self, lease: Lease) -> Iterator[Sql]:
        """A transaction of the holder of a lease.

        Raises:
            LeaseLostError: another process has taken over; nothing is written.
        """
        with self._database.writing() as sql:
            leases.check(sql, lease)
            yield sql

    def finish_load(self) -> None:
        """Let PostgreSQL plan searches by what the tables hold now, instead of a minute later.

        The words that were added last are put into their index, where they are found quickly. To be
        called when much was written.
        """
        if self._postgres is None:
            return
        # Who does not own the tables leaves it to the server.
        with suppress(StoreError), self._postgres.writing() as sql:
            sql.run("select gin_clean_pending_list('catalog_words_terms')")
            sql.run(
                "analyze catalog_versions, catalog_chunks (space, version, number, id),"
                " catalog_words (space, number)"
            )

    @contextmanager
    def lease(self, namespace: Namespace) -> Iterator[Lease]:
        """The right to write a knowledge base, renewed until the end of the block.

        A process that ended, however it ended, is followed at once; one that was stopped or cut
        off, when its lease has expired.

        Raises:
            IngestRunningError: another process has it.
            ReadOnlyError: when the catalog can be read only.
            StoreError: when the lock's file cannot be made, or PostgreSQL cannot be reached.
        """
        with self._process_lock(namespace) as alone:
            lease = leases.take(self._database, namespace, alone=alone)
            if lease is None:
                raise IngestRunningError(
                    f"another ingest of knowledge base {namespace.kb!r} is under way; "
                    "wait for it to end"
                )
            with leases.kept(self._database, lease):
                yield lease

    @contextmanager
    def _process_lock(self, namespace: Namespace) -> Iterator[bool]:
        """Held by a process that writes, and free when that has ended; whether we hold it now."""
        from filelock import FileLock, Timeout

        name = leases.lease_name(namespace)
        if self._postgres is not None:
            with self._postgres.lock(name) as free:
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
        self._database.close()
