"""The catalog of one vector database: its ledger, its embedding cache, its ingest locks."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.catalog.database import SqliteDatabase
from lorebind_knowledge.catalog.embedding_cache import EmbeddingCache
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.data_folder import make_data_folder, refuse_frozen
from lorebind_knowledge.errors import IngestRunningError, StoreError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lorebind_knowledge.catalog.database import Database
    from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
    from lorebind_knowledge.namespace import Namespace


class Catalog:
    """What must be as durable as the vectors it speaks of, and so lives beside them."""

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
        self._database: Database = postgres or SqliteDatabase(path)
        self.ledger = Ledger(self._database)
        self.embeddings = EmbeddingCache(self._database, cache_bytes)
        self._locked: set[Namespace] = set()
        self._locking = threading.Lock()

    @contextmanager
    def ingest_lock(self, namespace: Namespace) -> Iterator[None]:
        """Held while a knowledge base is ingested; a crash frees it, wherever the catalog lives.

        Raises:
            IngestRunningError: when an ingest of the same knowledge base is under way.
            ReadOnlyError: when the catalog can be read only.
            StoreError: when the lock's file cannot be made, or PostgreSQL cannot be reached.
        """
        from filelock import FileLock, Timeout

        refusal = IngestRunningError(
            f"another ingest of knowledge base {namespace.kb!r} is under way; wait for it to end"
        )
        name = digest(namespace.tenant, namespace.project, namespace.scope, namespace.kb)[:16]
        if self._postgres is not None:
            with self._postgres.lock(name) as free:
                if not free:
                    raise refusal
                yield
            return
        path = self._path
        if path is None:
            with self._locking:
                if namespace in self._locked:
                    raise refusal
                self._locked.add(namespace)
            try:
                yield
            finally:
                self._locked.discard(namespace)
            return
        refuse_frozen(path)
        make_data_folder(path)
        lock = FileLock(path.with_name(f"{path.name}.{name}.lock"), timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise refusal from None
        except OSError as error:
            raise StoreError(
                f"cannot lock {lock.lock_file}: {error.strerror or error}; "
                "make the folder of the database writable"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def close(self) -> None:
        self._database.close()
