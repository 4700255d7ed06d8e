"""The knowledge of a project: its declared knowledge bases, with their parts made when needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call, finish, lane
from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.configuration import defaults
from lorebind_knowledge.configuration.run_values import run_references, run_values
from lorebind_knowledge.documents.changing import add_documents, delete_all, delete_document
from lorebind_knowledge.documents.listing import (
    count_documents,
    find_document,
    list_chunks,
    list_documents,
)
from lorebind_knowledge.documents.runs import find_run, list_runs
from lorebind_knowledge.embedders.announcing import AnnouncingEmbedder
from lorebind_knowledge.errors import ReadOnlyError, SourceError, UsageError
from lorebind_knowledge.events import Event, Events
from lorebind_knowledge.extensions.make import make_extension
from lorebind_knowledge.index.purging import Purge
from lorebind_knowledge.ingest.corpus import Corpus
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.planning import plan
from lorebind_knowledge.ingest.reindexing import reindex
from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase, KnowledgeBase
from lorebind_knowledge.middleware.base import Retrieval
from lorebind_knowledge.namespace import COLLECTION_SCOPE, Namespace, current_tenant
from lorebind_knowledge.parts import Parts
from lorebind_knowledge.sources.make import make_source
from lorebind_knowledge.statistics import KnowledgeStats, knowledge_stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.embedding_cache import Embedded
    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import (
        AnyReranker,
        RetrievalDeclaration,
    )
    from lorebind_knowledge.documents.listing import ChunkInfo, DocumentInfo
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.index.purging import Made, Undeclared
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import Matrix, QueryResult
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore


class KnowledgeService:
    """Ingests and searches the knowledge bases of a loaded project.

    Embedders and stores are made once, at their first use, and shared. Safe to share among threads
    and tasks; every call works for the tenant of its own context.
    """

    def __init__(
        self, loaded: LoadedProject, events: Events | None = None, *, parts: Parts | None = None
    ) -> None:
        """
        Args:
            loaded: the project.
            events: who is told what happens.
            parts: what another service has made; None means parts of its own.

        Raises:
            UsageError, PluginError: an extension or a wrapper that is declared cannot be made.
        """
        self.events = events or Events()
        if parts is None:
            for declared in loaded.project.extensions:
                self.events.subscribe(make_extension(declared, loaded.environment))
        self._parts = parts or Parts(loaded)
        self._loaded = loaded

    def over(self, loaded: LoadedProject) -> KnowledgeService:
        """A service for the same project with other knowledge bases; it shares everything else."""
        return KnowledgeService(loaded, self.events, parts=self._parts)

    def namespace(self, kb_id: str, workflow: str | None = None) -> Namespace:
        """What a declared knowledge base is called in its catalog, for the tenant of this call.

        Raises:
            NotFoundError: naming the ones there are.
        """
        _, scope = self._loaded.knowledge_base(kb_id, workflow)
        return Namespace(current_tenant(), self._loaded.project.name, scope, kb_id)

    def knowledge_base(self, kb_id: str, workflow: str | None = None) -> KnowledgeBase:
        """A declared knowledge base, as a workflow (or the project) sees it, for searches.

        Raises:
            NotFoundError: naming the ones there are.
        """
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        namespace = self.namespace(kb_id, workflow)
        return KnowledgeBase(
            id=kb_id,
            namespace=namespace,
            embedder=AnnouncingEmbedder(
                self.embedder(declaration.embedder), self.events, namespace
            ),
            index=self.index(declaration.vector_db),
            retrieval=declaration.retrieval,
            dedupe=declaration.preprocess.dedupe,
            reranker=self.reranker,
            events=self.events,
        )

    def existing(self, kb_id: str, workflow: str | None = None) -> ExistingKnowledgeBase:
        """A declared knowledge base that others fill.

        Raises:
            NotFoundError: naming the ones there are.
            UsageError, StoreError: what is declared cannot be imported, or is no `VectorStore`.
        """
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        embedder = self._loaded.embedder(declaration.embedder)
        strategy = {"strategy": self._loaded.default_strategy(declaration)}
        own = "strategy" in declaration.retrieval.model_fields_set
        return ExistingKnowledgeBase(
            id=kb_id,
            namespace=self.namespace(kb_id, workflow),
            retrieval=declaration.retrieval.model_copy(update={} if own else strategy),
            reranker=self.reranker,
            events=self.events,
            store=self._parts.existing(self._loaded.vector_db(declaration.vector_db), embedder),
            hit_score=self._loaded.hit_score(declaration),
        )

    def corpus(
        self,
        kb_id: str,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
        *,
        embeds: bool = True,
    ) -> Corpus:
        """A declared knowledge base with its sources and its chunker, for ingestion.

        Args:
            kb_id: the knowledge base.
            workflow: the workflow that sees it.
            given: what `{{ .workflow.… }}` stands for in its sources: `input` and `vars`.
            embeds: whether a semantic chunker may use the embedder; otherwise it compares words.

        Raises:
            NotFoundError: naming the ones there are.
            PluginError: its chunker cannot be made.
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
                partial(_vectors, kb.catalog, kb.embedder) if embeds else None,
                kb.embedder.fingerprint.key,
                environment,
            ),
            metadata=declaration.metadata,
            remove_html=declaration.preprocess.remove_html,
            html_extractor=declaration.preprocess.html.extractor,
            language=declaration.language,
            loading=self._parts.loading,
        )

    def embedder(self, embedder_id: str | None = None) -> Embedder:
        """A declared embedder; None means the project's default.

        Raises:
            NotFoundError: naming the ones there are.
            EmbedderError, MissingDependencyError: it cannot be made.
        """
        return self._parts.embedder(self._loaded.embedder(embedder_id))

    def index(self, db_id: str | None = None) -> Index:
        """A declared vector database with its catalog; None means the project's default.

        Raises:
            NotFoundError: naming the ones there are.
            ReadOnlyError: others fill it.
            StoreError, MissingDependencyError: it cannot be made.
        """
        declaration = self._loaded.vector_db(db_id)
        if declaration.is_existing:
            raise ReadOnlyError(
                f"vector database {declaration.id!r} is filled by others (existing: true), so it "
                "can be searched and nothing else"
            )
        return self._parts.index(declaration)

    def reranker(self, declaration: AnyReranker) -> Reranker:
        """A declared reranker, made at its first use.

        Raises:
            RerankerError: it cannot be made.
        """
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
        """See `lorebind_knowledge.ingest.engine.ingest`; `given` as for `corpus`."""
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
        """What an ingest would do now; touches nothing, and asks no embedder for vectors.

        So a semantic chunker compares words, and its chunks are an estimate.
        """
        corpus = self.corpus(kb_id, workflow, given, embeds=False)
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        price = self._loaded.embedder(declaration.embedder).token_price
        with lane("ingest"):
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
        """See `lorebind_knowledge.ingest.reindexing.reindex`; `given` as for `corpus`."""
        return await reindex(self.corpus(kb_id, workflow, given), plan, run_id, wait=wait)

    async def start(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Ingest a knowledge base that is declared with `ingest: on_start`, unless that was done.

        It is done again when `given` has other values for what its sources name, see `Once`. Where
        they name something and nothing is given, it is left to whoever runs the workflow. An index
        that is there and can be read only is searched as it is.

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

        # What is declared is a part of it: a server may replace a declaration while it runs.
        key = (current_tenant(), scope, kb_id, declaration.model_dump_json())
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
        """See `lorebind_knowledge.retrieval.search.search`; ingests first what wants that."""
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
        """See `lorebind_knowledge.retrieval.search.search_several`."""
        for kb_id in kb_ids:
            await self.start(kb_id, workflow=workflow)
        kbs = tuple(self._searchable(kb_id, workflow) for kb_id in kb_ids)
        if not kbs:
            raise UsageError("there is no knowledge base to search")
        asked = Retrieval(kbs, question, settings, together=True)
        return await self._parts.middleware.retrieve(asked)

    def vector_store(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeBaseVectorStore:
        """A knowledge base as LangChain's `VectorStore`, which searches it and cannot change it.

        Raises:
            NotFoundError: no such knowledge base.
        """
        from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore

        return KnowledgeBaseVectorStore(self.knowledge_base(kb_id, workflow))

    def collection(
        self, name: str, *, embedder: str | None = None, vector_db: str | None = None
    ) -> LorebindVectorStore:
        """Documents that are added by hand, as LangChain's `VectorStore`, made when first used.

        They are no knowledge base's, whatever the name: no ingest finds or deletes them. They
        belong to the project and to the tenant of this call.

        Args:
            name: what the collection is called.
            embedder, vector_db: declared ones; None means the project's defaults.

        Raises:
            NotFoundError: no such embedder or vector database.
        """
        from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore

        namespace = Namespace(current_tenant(), self._loaded.project.name, COLLECTION_SCOPE, name)
        return LorebindVectorStore(self.index(vector_db), self.embedder(embedder), namespace)

    async def undeclared(self, made: Made = dict) -> list[Undeclared]:
        """What the vector databases hold of knowledge bases that are not declared any more.

        Args:
            made: see `lorebind_knowledge.index.purging.Purge`.
        """
        return await call(lambda: self._purge(made).find())

    async def purge(self, made: Made = dict) -> list[Undeclared]:
        """Remove that, see `lorebind_knowledge.index.purging.Purge.remove`."""
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
        """What is in the index of a knowledge base; touches nothing."""
        return await call(knowledge_stats, *self._catalog(kb_id, workflow))

    async def runs(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> Sequence[RunInfo]:
        """See `lorebind_knowledge.documents.runs.list_runs`."""
        return await call(list_runs, *self._catalog(kb_id, workflow), limit, before)

    async def run(self, kb_id: str, run_id: str, *, workflow: str | None = None) -> RunInfo:
        """See `lorebind_knowledge.documents.runs.find_run`."""
        return await call(find_run, *self._catalog(kb_id, workflow), run_id)

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
        """See `lorebind_knowledge.documents.listing.list_documents`."""
        kb = self.knowledge_base(kb_id, workflow)
        return await call(list_documents, kb, state, limit=limit, after=after, before=before)

    async def document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """See `lorebind_knowledge.documents.listing.find_document`."""
        return await call(find_document, self.knowledge_base(kb_id, workflow), document)

    async def count_documents(self, kb_id: str, *, workflow: str | None = None) -> dict[str, int]:
        """See `lorebind_knowledge.documents.listing.count_documents`."""
        return await call(count_documents, self.knowledge_base(kb_id, workflow))

    async def chunks(
        self,
        kb_id: str,
        document: str,
        *,
        workflow: str | None = None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[ChunkInfo]:
        """See `lorebind_knowledge.documents.listing.list_chunks`."""
        kb = self.knowledge_base(kb_id, workflow)
        return await call(list_chunks, kb, document, limit=limit, after=after)

    async def add_documents(
        self,
        kb_id: str,
        documents: Sequence[Any],
        *,
        workflow: str | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """See `lorebind_knowledge.documents.changing.add_documents`."""
        return await add_documents(self.corpus(kb_id, workflow), documents, run_id)

    async def delete_document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """See `lorebind_knowledge.documents.changing.delete_document`."""
        return await delete_document(self.knowledge_base(kb_id, workflow), document)

    async def delete(self, kb_id: str, *, workflow: str | None = None) -> None:
        """See `lorebind_knowledge.documents.changing.delete_all`."""
        await delete_all(self.knowledge_base(kb_id, workflow))

    async def close(self) -> None:
        """Close every store and catalog that was opened; a later call opens them again."""
        self.events.emit("shutdown", Event(""))
        await self._parts.close()

    def _searchable(self, kb_id: str, workflow: str | None) -> SearchableKnowledgeBase:
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        kind = self.existing if self._loaded.is_existing(declaration) else self.knowledge_base
        return kind(kb_id, workflow)

    def _catalog(self, kb_id: str, workflow: str | None) -> tuple[Namespace, Catalog]:
        """What a knowledge base is called, and the catalog that holds it."""
        declaration, _ = self._loaded.knowledge_base(kb_id, workflow)
        return self.namespace(kb_id, workflow), self.index(declaration.vector_db).catalog


def _vectors(catalog: Catalog, embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Vectors for a chunker, which works in a thread."""
    embedding: Any = catalog.embeddings.embed(embedder, texts)
    embedded: Embedded = finish(embedding)
    return embedded.vectors
