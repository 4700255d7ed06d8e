"""The knowledge of a project: its declared knowledge bases, whose parts are created when needed."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.project import LOCAL
from lorebind_config.errors import (
    EmbedderError,
    MissingDependencyError,
    NotIngestedError,
    UsageError,
)
from lorebind_config.namespace import COLLECTION_SCOPE, PROJECT_SCOPE, IndexKey, Namespace
from lorebind_knowledge.events import Event, Events, Extension
from lorebind_knowledge.handle import KnowledgeHandle
from lorebind_knowledge.middleware import Retrieval
from lorebind_knowledge.parts import Parts
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import Threads
from lorebind_knowledge.records import Overview, Partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_config.declarations.embedders import SparseEmbedderDeclaration
    from lorebind_config.declarations.retrieval import AnyReranker, RetrievalDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.collection import LorebindVectorStore
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.index.purging import OrphanedIndex, Purge, TenantOwned
    from lorebind_knowledge.parts import Starter
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.scale.engine import Engine, WorkerInfo
    from lorebind_knowledge.scale.worker import Worker


class KnowledgeService:
    """Ingests and searches the knowledge bases of a loaded project.

    Embedders and stores are created once, at their first use, and shared. Safe to share among
    threads and tasks. Every call applies to `tenant`.
    """

    def __init__(
        self, loaded: LoadedProject, events: Events | None = None, *, parts: Parts | None = None
    ) -> None:
        """
        Args:
            loaded: the project.
            events: the object that receives all events. By default a new one.
            parts: objects that another service has created; None means own ones. With None, the
                project's declared extensions are subscribed to `events`.

        Raises:
            UsageError, PluginError: a declared extension or wrapper cannot be created.
        """
        self.events = events or Events()
        if parts is None:
            if declared := loaded.project.extensions:
                from lorebind_knowledge.extensions.make import make_extensions

                for extension in make_extensions(declared, loaded.environment):
                    self.events.subscribe(extension)
            for extension in self.events.extensions:
                self._show_state(extension)
        self._parts = parts or Parts(loaded)
        self.events.tracers = self._parts.middleware.tracers
        self._loaded = loaded
        self._handles: dict[tuple[str, str | None], KnowledgeHandle] = {}

    def over(self, loaded: LoadedProject) -> KnowledgeService:
        """Return a service with other knowledge bases of the project; it shares everything else."""
        return KnowledgeService(loaded, self.events, parts=self._parts)

    def subscribe(self, extension: Extension) -> None:
        """Send all events to this extension too; metrics show the state of the catalogs.

        Raises:
            UsageError: see `Events.subscribe`.
        """
        self.events.subscribe(extension)
        self._show_state(extension)

    def _show_state(self, extension: Extension) -> None:
        from lorebind_knowledge.extensions.prometheus import Prometheus

        if isinstance(extension, Prometheus):
            extension.show_state(self.overview)

    @property
    def tenant(self) -> str:
        """The tenant of the call that asks; see `LoadedProject.tenant`."""
        return self._loaded.tenant

    def start_with(self, starter: Starter) -> None:
        """Let others ingest knowledge bases with `ingest: on_start`; see `Parts.starter`."""
        self._parts.starter = starter

    def open(self, kb_id: str, workflow: str | None = None) -> KnowledgeHandle:
        """Return a declared knowledge base, as a workflow or the project sees it.

        Raises:
            NotFoundError: there is no such knowledge base; the message lists the known ones.
        """
        handle = self._handles.get((kb_id, workflow))
        if handle is None:
            declared = self._loaded.knowledge_base(kb_id, workflow)
            handle = KnowledgeHandle(self._loaded, self._parts, self.events, *declared)
            self._handles[kb_id, workflow] = handle
        return handle

    def sparse_embedder(self, declaration: SparseEmbedderDeclaration) -> SparseEmbedder:
        """Return a declared sparse embedder.

        Raises:
            EmbedderError, MissingDependencyError: it cannot be created.
        """
        return self._parts.sparse_embedder(declaration)

    def embedder(self, embedder_id: str | None = None) -> Embedder:
        """Return a declared embedder; None means the project's default.

        Raises:
            NotFoundError: there is no such embedder; the message lists the known ones.
            EmbedderError, MissingDependencyError: it cannot be created.
        """
        return self._parts.embedder(self._loaded.embedder(embedder_id))

    def index(self, db_id: str | None = None) -> Index:
        """Return a declared vector database with its catalog; None means the project's default.

        Raises:
            NotFoundError: there is no such database; the message lists the known ones.
            ReadOnlyError: another program fills the database.
            StoreError, MissingDependencyError: it cannot be created.
        """
        return self._parts.index(self._loaded.vector_db(db_id))

    async def ping(self, db_id: str) -> None:
        """Ask a declared vector database and its catalog; nothing is written.

        Raises:
            StoreError: one of them does not answer.
            NotFoundError, ReadOnlyError, MissingDependencyError: as for `index`.
        """
        index = await call(self.index, db_id)
        # No project can have this name, because ids contain no spaces.
        nobody = Namespace("a ping", "a ping", PROJECT_SCOPE, "ping")
        config = getattr(self._loaded.vector_db(db_id), "config", None)
        dimension = getattr(config, "dimension", None) or 1
        with index.catalog.threads.lane("read"):
            await call(index.catalog.ledger.index, nobody, "active")
            await call(index.store.count, Partition(IndexKey(nobody), 1, dimension))

    def reranker(self, declaration: AnyReranker) -> Reranker:
        """Return a declared reranker; raise `RerankerError` if it cannot be created."""
        return self._parts.reranker(declaration)

    async def query_several(
        self,
        handles: Sequence[KnowledgeHandle],
        question: str,
        settings: Sequence[RetrievalDeclaration],
    ) -> QueryResult:
        """Search several knowledge bases, and return one ranking.

        Those with the same embedder and settings are searched as if they were one; see
        `lorebind_knowledge.retrieval.search.search`. The others are searched at the same time; see
        `lorebind_knowledge.retrieval.several.merged`. Each is ingested first if that is due; see
        `KnowledgeHandle.start`.

        Args:
            handles: the knowledge bases; those without an ingest are listed as `skipped`.
            question: any text that is not blank.
            settings: the settings of each.

        Raises:
            UsageError: no knowledge base is given.
            LorebindError: the first failure of a search, when all have ended.
        """
        from lorebind_knowledge.retrieval.several import joined_searches, merged

        started = time.perf_counter()
        for handle in handles:
            await handle.start()
        kbs = [handle.searchable for handle in handles]
        if not kbs:
            raise UsageError("there is no knowledge base to search")
        searches = joined_searches(zip(kbs, settings, strict=True))
        requests = [Retrieval(each.kbs, question, each.settings) for each in searches]
        if len(requests) == 1:
            return await self._parts.middleware.retrieve(requests[0])
        # All end before an error is raised, so that no search goes on unnoticed.
        ended = await asyncio.gather(
            *map(self._parts.middleware.retrieve, requests), return_exceptions=True
        )
        results: list[QueryResult | NotIngestedError] = []
        for result in ended:
            if isinstance(result, BaseException) and not isinstance(result, NotIngestedError):
                raise result
            results.append(result)
        return merged(searches, results, time.perf_counter() - started)

    def first_alike(self, handles: Sequence[KnowledgeHandle]) -> list[int]:
        """Return for each knowledge base the position of the first with the same embedder.

        Raises:
            LorebindError: a database or an embedder cannot be created.
        """
        from lorebind_knowledge.retrieval.several import embedder_of

        keys = [embedder_of(handle.searchable) for handle in handles]
        return [keys.index(key) for key in keys]

    def worker(self, concurrency: int) -> Worker:
        """Return a worker that embeds the texts of all knowledge bases of the project.

        Args:
            concurrency: maximum number of calls at the same time, for each embedder.

        Raises:
            UsageError: ingests of this project embed in their own process.
            LorebindError: an embedder or a vector database cannot be created.
        """
        from lorebind_knowledge.scale.worker import Worker

        return Worker(self._served_by_workers(), concurrency)

    def workers(self) -> list[WorkerInfo]:
        """Return the live workers that embed texts of the project; none if ingests do it.

        Raises:
            LorebindError: an embedder or a vector database cannot be created, or an outage.
        """
        if self._loaded.project.ingestion.engine == LOCAL:
            return []
        workers: list[WorkerInfo] = []
        for _, engine, embedders in self._served_by_workers():
            if listed := getattr(engine, "workers", None):
                workers += [
                    replace(info, embedder=str(embedders[info.embedder].fingerprint))
                    for info in listed(list(embedders))
                ]
        return workers

    def _served_by_workers(self) -> list[tuple[Catalog, Engine, dict[str, Any]]]:
        """Return the catalogs with their engines, and the embedders by `key_of`."""
        from lorebind_knowledge.scale.pool import Pool, key_of

        served: dict[int, tuple[Catalog, Engine, dict[str, Any]]] = {}
        for handle, _ in self._filled_by_us():
            catalog, embedders = handle.embedding
            pool = catalog.embeddings.maker
            if not isinstance(pool, Pool):
                raise UsageError(
                    "ingests of this project embed in their own process; for workers, declare "
                    "'engine: distributed' under 'ingestion'"
                )
            _, _, by_key = served.setdefault(id(catalog), (catalog, pool.engine, {}))
            by_key |= {key_of(embedder): embedder for embedder in embedders}
        return list(served.values())

    def overview(self) -> Overview:
        """Return the state of all knowledge bases of all tenants, and of workers.

        It blocks, for as long as the databases need to count documents.

        Raises:
            StoreError, MissingDependencyError: a database cannot be read.
        """
        from lorebind_knowledge.catalog.overview import read_overview
        from lorebind_knowledge.scale.pool import Pool

        overview = Overview()
        homes = {(handle.scope, handle.id): db_id for handle, db_id in self._filled_by_us()}
        for db in self._loaded.project.vector_dbs_or_default:
            if db.is_existing:
                continue
            catalog = self.index(db.id).catalog
            states = read_overview(catalog, self._loaded.project.name)
            overview.batches |= states.batches
            overview.knowledge_bases |= {
                namespace: state
                for namespace, state in states.knowledge_bases.items()
                if homes.get((namespace.scope, namespace.kb), db.id) == db.id
            }
        for handle, _ in self._filled_by_us():
            with suppress(EmbedderError, MissingDependencyError):  # searches report it
                catalog, embedders = handle.embedding
                if isinstance(catalog.embeddings.maker, Pool):
                    catalog.embeddings.maker.count_slots(embedders, overview.batches)
        return overview

    def collection(
        self, name: str, *, embedder: str | None = None, vector_db: str | None = None
    ) -> LorebindVectorStore:
        """Return a `VectorStore` of LangChain for documents that are added by code.

        The documents belong to no knowledge base, even one with the same name: no ingest finds or
        deletes them. They belong to the project and to the tenant of each use. The collection is
        created at its first use.

        Args:
            name: the name of the collection.
            embedder: the id of a declared embedder; None means the project's default.
            vector_db: the id of a declared vector database; None means the project's default.

        Raises:
            NotFoundError: there is no such embedder or vector database.
            UsageError: the embedder makes no vectors, and a collection is searched by them.
        """
        from lorebind_knowledge.collection import LorebindVectorStore

        if not self._loaded.embedder(embedder).makes_vectors:
            raise UsageError(
                f"collection {name!r} is searched by vectors, and the embedder makes none; name "
                "another embedder"
            )

        def owner() -> Namespace:
            return self._loaded.namespace(COLLECTION_SCOPE, name)

        return LorebindVectorStore(self.index(vector_db), self.embedder(embedder), owner)

    async def undeclared(self, make_index: TenantOwned = dict) -> list[OrphanedIndex]:
        """Return the stored data of knowledge bases that are no longer declared.

        Args:
            make_index: see `lorebind_knowledge.index.purging.Purge`.
        """
        with Threads().lane("read"):  # of no database, because it reads all of them
            return await call(lambda: self._purge(make_index).find())

    async def purge(self, make_index: TenantOwned = dict) -> list[OrphanedIndex]:
        """Remove the data that `undeclared` returns; see `index.purging.Purge.remove`."""
        with Threads().lane("read"):
            return await call(lambda: self._purge(make_index).remove())

    def _filled_by_us(self) -> Iterator[tuple[KnowledgeHandle, str]]:
        """Yield the declared knowledge bases, without those that others fill, with the ids of their
        vector databases."""
        for kb, workflow in self._loaded.every_knowledge_base():
            if not self._loaded.is_existing(kb):
                yield self.open(kb.id, workflow), self._loaded.vector_db(kb.vector_db).id

    def _purge(self, make_index: TenantOwned) -> Purge:
        from lorebind_knowledge.index.purging import Purge

        project = self._loaded.project
        declared = {(handle.scope, handle.id): db_id for handle, db_id in self._filled_by_us()}
        databases = [db for db in project.vector_dbs_or_default if not db.is_existing]
        indexes = {db.id: self.index(db.id) for db in databases}
        return Purge(project.name, indexes, declared, make_index)

    async def close(self) -> None:
        """Close all open stores and catalogs; a later call opens them again."""
        self.events.emit("shutdown", Event(""))
        await self._parts.close()
