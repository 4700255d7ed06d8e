"""The knowledge of a project: its declared knowledge bases, whose parts are created when needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.declarations import defaults
from lorebind_config.errors import ReadOnlyError, SourceError, UsageError
from lorebind_config.namespace import COLLECTION_SCOPE, Namespace, tenant
from lorebind_config.reading.run_values import run_references, run_values
from lorebind_knowledge.bridge import call
from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.documents import listing
from lorebind_knowledge.documents.changing import add_documents, delete_all, delete_document
from lorebind_knowledge.documents.runs import find_run, list_runs
from lorebind_knowledge.embedders.announcing import AnnouncingEmbedder
from lorebind_knowledge.events import Event, Events
from lorebind_knowledge.extensions.make import make_extensions
from lorebind_knowledge.index.purging import Purge
from lorebind_knowledge.ingest.corpus import Corpus
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.planning import plan
from lorebind_knowledge.ingest.reindexing import reindex
from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase, KnowledgeBase
from lorebind_knowledge.lanes import Threads
from lorebind_knowledge.middleware.base import Retrieval
from lorebind_knowledge.parts import Parts
from lorebind_knowledge.sources.make import make_source
from lorebind_knowledge.statistics import KnowledgeStats, knowledge_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_config.declarations import AnyReranker, RetrievalDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore
    from lorebind_knowledge.documents.listing import ChunkInfo, DocumentInfo
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.index.purging import Made, OrphanedIndex
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore

R = TypeVar("R")


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
            for extension in make_extensions(loaded.project.extensions, loaded.environment):
                self.events.subscribe(extension)
        self._parts = parts or Parts(loaded)
        self._loaded = loaded

    def over(self, loaded: LoadedProject) -> KnowledgeService:
        """Return a service with other knowledge bases of the project; it shares everything else."""
        return KnowledgeService(loaded, self.events, parts=self._parts)

    @property
    def tenant(self) -> str:
        """The tenant of the call that asks; see `LoadedProject.tenant`."""
        return self._loaded.tenant

    def namespace(self, kb_id: str, workflow: str | None = None) -> Namespace:
        """Return the namespace of a declared knowledge base for the tenant of this call.

        Raises:
            NotFoundError: there is no such knowledge base; the message lists the known ones.
        """
        _, scope = self._loaded.knowledge_base(kb_id, workflow)
        return self._namespace(scope, kb_id)

    def _namespace(self, scope: str, name: str) -> Namespace:
        loaded = self._loaded
        return Namespace(loaded.tenant, loaded.project.name, scope, name, loaded.tenancy_required)

    def knowledge_base(self, kb_id: str, workflow: str | None = None) -> KnowledgeBase:
        """Return a declared knowledge base for searches, as a workflow or the project sees it.

        Raises:
            NotFoundError: there is no such knowledge base; the message lists the known ones.
            ReadOnlyError: another program fills its vector database; see `existing`.
        """
        declaration, scope = self._loaded.knowledge_base(kb_id, workflow)
        namespace = self._namespace(scope, kb_id)
        embedder = self.embedder(declaration.embedder)
        return KnowledgeBase(
            id=kb_id,
            namespace=namespace,
            embedder=AnnouncingEmbedder(embedder, self.events, namespace),
            index=self.index(declaration.vector_db),
            has_sources=bool(declaration.sources),
            retrieval=declaration.retrieval,
            dedupe=declaration.preprocess.dedupe,
            reranker=self.reranker,
            weak_levels=self._loaded.weak_levels(declaration),
            events=self.events,
        )

    def existing(self, kb_id: str, workflow: str | None = None) -> ExistingKnowledgeBase:
        """Return a declared knowledge base that another program fills.

        Raises:
            NotFoundError: there is no such knowledge base; the message lists the known ones.
            UsageError, StoreError: the declared class cannot be imported, or is not a
                `VectorStore`.
        """
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        embedder = self._loaded.embedder(declaration.embedder)
        return ExistingKnowledgeBase(
            id=kb_id,
            namespace=self.namespace(kb_id, workflow),
            retrieval=self._loaded.retrieval(declaration),
            reranker=self.reranker,
            weak_levels=self._loaded.weak_levels(declaration),
            events=self.events,
            store=self._parts.existing(self._loaded.vector_db(declaration.vector_db), embedder),
        )

    def corpus(
        self,
        kb_id: str,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
        *,
        embeds: bool = True,
    ) -> Corpus:
        """Return a declared knowledge base with its sources and chunker, for ingestion.

        Args:
            kb_id: the id of the knowledge base.
            workflow: the workflow that declares it, or whose view of the project applies.
            given: the values for `{{ .workflow.… }}` in its sources: `input` and `vars`.
            embeds: whether a semantic chunker may call the embedder. If not, it compares words.

        Raises:
            NotFoundError: there is no such knowledge base; the message lists the known ones.
            PluginError: its chunker cannot be created.
        """
        kb = self.knowledge_base(kb_id, workflow)
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        environment = self._loaded.environment
        return Corpus(
            kb=kb,
            sources=[
                make_source(source, environment, workflow=given) for source in declaration.sources
            ],
            chunker=make_chunker(
                declaration.chunking,
                partial(kb.catalog.embeddings.vectors, kb.embedder) if embeds else None,
                kb.embedder.fingerprint.key,
                environment,
            ),
            metadata=declaration.metadata,
            remove_html=declaration.preprocess.remove_html,
            html_extractor=declaration.preprocess.html.extractor,
            language=declaration.language,
            loading=self._parts.loading,
            large_chunks=declaration.chunking.exceeds_default,
        )

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
        declaration = self._loaded.vector_db(db_id)
        if declaration.is_existing:
            raise ReadOnlyError(
                f"vector database {declaration.id!r} is filled by another program (existing: "
                "true), so it can only be searched"
            )
        return self._parts.index(declaration)

    def reranker(self, declaration: AnyReranker) -> Reranker:
        """Return a declared reranker; raise `RerankerError` if it cannot be created."""
        return self._parts.reranker(declaration)

    async def ingest(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
        only_failed: bool = False,
        allow_mass_delete: bool = False,
        wait: bool = False,
        plan: IngestPlan | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Ingest a knowledge base; see `ingest.engine.ingest`. `given` is as for `corpus`."""
        return await ingest(
            self.corpus(kb_id, workflow, given),
            strategy=strategy,
            only_failed=only_failed,
            allow_mass_delete=allow_mass_delete,
            wait=wait,
            plan=plan,
            run_id=run_id,
        )

    async def plan(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
    ) -> IngestPlan:
        """Return what an ingest would do now, without changing anything or calling an embedder.

        A semantic chunker falls back to comparing words, so its number of chunks is an estimate.
        """
        corpus = self.corpus(kb_id, workflow, given, embeds=False)
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        price = self._loaded.embedder(declaration.embedder).token_price
        with corpus.kb.threads.lane("ingest"), tenant(corpus.kb.namespace.tenant):
            return await plan(corpus, strategy=strategy, price=price)

    async def reindex(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
        wait: bool = False,
        plan: IngestPlan | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Rebuild an index; see `ingest.reindexing.reindex`. `given` is as for `corpus`."""
        corpus = self.corpus(kb_id, workflow, given)
        with corpus.kb.threads.lane("read"):
            return await reindex(corpus, plan, run_id, wait=wait)

    async def start(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Ingest a knowledge base with `ingest: on_start`, unless it has been ingested already.

        It is ingested again if `given` has different values for the names that its sources use; see
        `Once`. If the sources use such names and `given` is None, nothing happens: the run of the
        workflow ingests it. An existing index that is read-only is searched as it is.

        Raises:
            SourceError: none of its sources could be read.
            LorebindError: see `ingest`.
        """
        declaration, scope = self._loaded.knowledge_base(kb_id, workflow)
        if declaration.ingest != "on_start" or (given is None and run_references(declaration)):
            return

        async def ingest_it() -> None:
            try:
                report = await self.ingest(kb_id, workflow=workflow, given=given, wait=True)
            except ReadOnlyError:
                return
            if report.status == "failed":
                reasons = "; ".join(source.reason for source in report.sources)
                raise SourceError(f"knowledge base {kb_id!r} cannot be ingested: {reasons}")

        # The declaration is part of the key, because a server may replace it at runtime.
        key = (self.tenant, scope, kb_id, declaration.model_dump_json())
        values = None if given is None else run_values(declaration, given)
        await self._parts.started.do(key, ingest_it, values)

    async def query(
        self,
        kb_id: str,
        question: str,
        settings: RetrievalDeclaration | None = None,
        *,
        workflow: str | None = None,
    ) -> QueryResult:
        """Search a knowledge base; see `lorebind_knowledge.retrieval.search.search`.

        It is ingested first if that is due; see `start`. `settings` default to the declared ones.
        """
        await self.start(kb_id, workflow=workflow)
        kb = self._searchable(kb_id, workflow)
        asked = Retrieval((kb,), question, settings or kb.retrieval)
        return await self._parts.middleware.retrieve(asked)

    async def query_several(
        self,
        kb_ids: Sequence[str],
        question: str,
        settings: RetrievalDeclaration,
        *,
        workflow: str | None = None,
    ) -> QueryResult:
        """Search several knowledge bases; see `lorebind_knowledge.retrieval.search.search_several`.

        Each is ingested first if that is due; see `start`.

        Raises:
            UsageError: no knowledge base is given.
        """
        for kb_id in kb_ids:
            await self.start(kb_id, workflow=workflow)
        kbs = tuple(self._searchable(kb_id, workflow) for kb_id in kb_ids)
        if not kbs:
            raise UsageError("there is no knowledge base to search")
        asked = Retrieval(kbs, question, settings, together=True)
        return await self._parts.middleware.retrieve(asked)

    def vector_store(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeBaseVectorStore:
        """Return a knowledge base as a read-only `VectorStore` of LangChain; see `index`."""
        from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore

        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        find = partial(self.knowledge_base, kb_id, workflow)
        return KnowledgeBaseVectorStore(self.index(declaration.vector_db), find)

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
        """
        from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore

        owner = partial(self._namespace, COLLECTION_SCOPE, name)
        return LorebindVectorStore(self.index(vector_db), self.embedder(embedder), owner)

    async def undeclared(self, made: Made = dict) -> list[OrphanedIndex]:
        """Return the stored data of knowledge bases that are no longer declared.

        Args:
            made: see `lorebind_knowledge.index.purging.Purge`.
        """
        with Threads().lane("read"):  # of no database, because it reads all of them
            return await call(lambda: self._purge(made).find())

    async def purge(self, made: Made = dict) -> list[OrphanedIndex]:
        """Remove the data that `undeclared` returns; see `index.purging.Purge.remove`."""
        with Threads().lane("read"):
            return await call(lambda: self._purge(made).remove())

    def _purge(self, made: Made) -> Purge:
        project = self._loaded.project
        declared = {}
        for kb, workflow in self._loaded.every_knowledge_base():
            _, scope = self._loaded.knowledge_base(kb.id, workflow)
            if not self._loaded.is_existing(kb):
                declared[scope, kb.id] = self._loaded.vector_db(kb.vector_db).id
        databases = [db for db in defaults.vector_dbs(project) if not db.is_existing]
        indexes = {db.id: self.index(db.id) for db in databases}
        return Purge(project.name, indexes, declared, made)

    async def stats(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeStats:
        """Return statistics of a knowledge base's index, without changing anything."""
        return await self._read(kb_id, workflow, knowledge_stats)

    async def runs(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> Sequence[RunInfo]:
        """Return ingest runs; see `lorebind_knowledge.documents.runs.list_runs`."""
        return await self._read(kb_id, workflow, list_runs, limit, before)

    async def run(self, kb_id: str, run_id: str, *, workflow: str | None = None) -> RunInfo:
        """Return an ingest run; see `lorebind_knowledge.documents.runs.find_run`."""
        return await self._read(kb_id, workflow, find_run, run_id)

    async def documents(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
    ) -> list[DocumentInfo]:
        """Return documents; see `lorebind_knowledge.documents.listing.list_documents`."""
        asked = {"limit": limit, "after": after, "before": before}
        return await self._read(kb_id, workflow, listing.list_documents, state, **asked)

    async def document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """Return a document; see `lorebind_knowledge.documents.listing.find_document`."""
        return await self._read(kb_id, workflow, listing.find_document, document)

    async def count_documents(self, kb_id: str, *, workflow: str | None = None) -> dict[str, int]:
        """Count documents by state; see `lorebind_knowledge.documents.listing.count_documents`."""
        return await self._read(kb_id, workflow, listing.count_documents)

    async def chunks(
        self,
        kb_id: str,
        document: str,
        *,
        workflow: str | None = None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[ChunkInfo]:
        """Return the chunks of a document; see `documents.listing.list_chunks`."""
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        at = self.namespace(kb_id, workflow), (index := self.index(declaration.vector_db))
        with index.catalog.threads.lane("read"):
            return await call(listing.list_chunks, *at, document, limit=limit, after=after)

    async def add_documents(
        self,
        kb_id: str,
        documents: Sequence[Any],
        *,
        workflow: str | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Add documents; see `lorebind_knowledge.documents.changing.add_documents`."""
        return await add_documents(self.corpus(kb_id, workflow), documents, run_id)

    async def delete_document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """Delete a document; see `lorebind_knowledge.documents.changing.delete_document`."""
        return await delete_document(self.knowledge_base(kb_id, workflow), document)

    async def delete(self, kb_id: str, *, workflow: str | None = None) -> None:
        """Delete the index of a knowledge base; see `documents.changing.delete_all`."""
        await delete_all(self.knowledge_base(kb_id, workflow))

    async def close(self) -> None:
        """Close all open stores and catalogs; a later call opens them again."""
        self.events.emit("shutdown", Event(""))
        await self._parts.close()

    def _searchable(self, kb_id: str, workflow: str | None) -> SearchableKnowledgeBase:
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        kind = self.existing if self._loaded.is_existing(declaration) else self.knowledge_base
        return kind(kb_id, workflow)

    async def _read(
        self, kb_id: str, workflow: str | None, read: Callable[..., R], *args: Any, **options: Any
    ) -> R:
        """Read the catalog that contains a knowledge base."""
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        catalog = self.index(declaration.vector_db).catalog
        with catalog.threads.lane("read"):
            return await call(read, self.namespace(kb_id, workflow), catalog, *args, **options)
