"""The knowledge of a project: its declared knowledge bases, with their parts made when needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.chunking.registry import make_chunker
from lorebind_knowledge.embedders.registry import make_embedder
from lorebind_knowledge.events import Event, Events
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.planning import plan
from lorebind_knowledge.knowledge_base import KnowledgeBase
from lorebind_knowledge.retrieval.search import search
from lorebind_knowledge.scope import Namespace, current_tenant
from lorebind_knowledge.sources.registry import make_source
from lorebind_knowledge.statistics import KnowledgeStats, knowledge_stats
from lorebind_knowledge.stores.registry import make_store

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.stores.base import VectorStore


class KnowledgeService:
    """Ingests and searches the knowledge bases of a loaded project.

    Embedders and stores are made once, at their first use, and shared. Safe to share among threads
    and tasks; every call works for the tenant of its own context.
    """

    def __init__(self, loaded: LoadedProject, events: Events | None = None) -> None:
        self.events = events or Events()
        self._loaded = loaded
        self._making = threading.Lock()
        self._embedders: dict[str, Embedder] = {}
        self._stores: dict[str, tuple[VectorStore, Catalog]] = {}

    def knowledge_base(self, kb_id: str, workflow: str | None = None) -> KnowledgeBase:
        """A declared knowledge base, as a workflow (or the project) sees it.

        Raises:
            NotFoundError: naming the ones there are.
        """
        declaration, scope = self._loaded.knowledge_base(kb_id, workflow)
        loaded = self._loaded
        with self._making:
            embedder = loaded.embedder(declaration.embedder)
            if embedder.id not in self._embedders:
                self._embedders[embedder.id] = make_embedder(embedder, loaded.environment)
            vector_db = loaded.vector_db(declaration.vector_db)
            if vector_db.id not in self._stores:
                self._stores[vector_db.id] = make_store(vector_db, loaded.environment)
            made, (store, catalog) = self._embedders[embedder.id], self._stores[vector_db.id]
        return KnowledgeBase(
            id=kb_id,
            namespace=Namespace(current_tenant(), loaded.project.name, scope, kb_id),
            sources=[make_source(source, loaded.root) for source in declaration.sources],
            chunker=make_chunker(declaration.chunking),
            embedder=made,
            store=store,
            catalog=catalog,
            retrieval=declaration.retrieval,
            events=self.events,
            metadata=declaration.metadata,
        )

    async def ingest(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        strategy: str = "upsert",
        allow_mass_delete: bool = False,
        wait: bool = False,
    ) -> IngestReport:
        """See `lorebind_knowledge.ingest.engine.ingest`."""
        kb = self.knowledge_base(kb_id, workflow)
        return await ingest(kb, strategy=strategy, allow_mass_delete=allow_mass_delete, wait=wait)

    async def plan(self, kb_id: str, *, workflow: str | None = None) -> IngestPlan:
        """What an ingest would do now; touches nothing."""
        return await plan(self.knowledge_base(kb_id, workflow))

    async def query(
        self,
        kb_id: str,
        question: str,
        settings: RetrievalDeclaration | None = None,
        *,
        workflow: str | None = None,
    ) -> QueryResult:
        """See `lorebind_knowledge.retrieval.search.search`."""
        return await search(self.knowledge_base(kb_id, workflow), question, settings)

    async def stats(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeStats:
        """What is in the index of a knowledge base; touches nothing."""
        return await call(knowledge_stats, self.knowledge_base(kb_id, workflow))

    async def close(self) -> None:
        """Close every store and catalog that was opened; a later call opens them again."""
        self.events.emit("shutdown", Event(""))
        with self._making:
            opened, self._stores = list(self._stores.values()), {}
            self._embedders = {}
        for store, catalog in opened:
            await call(store.close)
            catalog.close()
