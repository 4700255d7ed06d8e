"""A handle of a declared knowledge base: everything that a call on it needs, looked up once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from lorebind_config.checks.template_checks import run_references, run_values
from lorebind_config.editing.resources import export_resources
from lorebind_config.errors import ReadOnlyError, SourceError, UsageError
from lorebind_knowledge.embedders.wrapper import AnnouncingEmbedder
from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase, IndexedKnowledgeBase
from lorebind_knowledge.middleware import Retrieval
from lorebind_knowledge.parts import StartReport
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from pathlib import Path

    from lorebind_config.declarations.embedders import EmbedderDeclaration
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_config.declarations.retrieval import RetrievalDeclaration, WeakLevels
    from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
    from lorebind_config.namespace import Namespace
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.events import Events
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.packing.pack import PackReport
    from lorebind_knowledge.packing.unpack import UnpackReport
    from lorebind_knowledge.parts import Parts
    from lorebind_knowledge.records import MatchingTerms, QueryResult
    from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore

R = TypeVar("R")


class KnowledgeHandle:
    """A declared knowledge base; `KnowledgeService.open` returns it.

    It opens nothing by itself: the index and the embedder are created when a call needs them, so
    that documents can be listed even if the embedder cannot be created. Every call applies to its
    own tenant, see `LoadedProject.tenant`.
    """

    def __init__(
        self,
        loaded: LoadedProject,
        parts: Parts,
        events: Events,
        declaration: KnowledgeBaseDeclaration,
        scope: str,
    ) -> None:
        """
        Args:
            loaded: the project.
            parts: the embedders and databases that the project shares.
            events: receives the events of the knowledge base.
            declaration: the declared knowledge base.
            scope: see `Namespace`.
        """
        self._loaded, self._parts, self._events = loaded, parts, events
        self.declaration, self.scope = declaration, scope

    @property
    def id(self) -> str:
        return self.declaration.id

    @property
    def namespace(self) -> Namespace:
        """The namespace for the tenant of this call."""
        return self._loaded.namespace(self.scope, self.id)

    @cached_property
    def retrieval(self) -> RetrievalDeclaration:
        """The declared settings of searches, with the default strategy."""
        return self._loaded.retrieval(self.declaration)

    @property
    def index(self) -> Index:
        """The vector database with its catalog.

        Raises:
            ReadOnlyError: another program fills the database.
            StoreError, MissingDependencyError: it cannot be created.
        """
        return self._parts.index(self._vector_db)

    @property
    def is_existing(self) -> bool:
        """Whether another program fills it."""
        return self._vector_db.is_existing

    @property
    def has_vectors(self) -> bool:
        """Whether its passages have vectors to compare; without them, words and terms count."""
        return self._embedder.makes_vectors

    @cached_property
    def _vector_db(self) -> VectorDBDeclaration:
        return self._loaded.vector_db(self.declaration.vector_db)

    @cached_property
    def _embedder(self) -> EmbedderDeclaration:
        return self._loaded.embedder(self.declaration.embedder)

    @property
    def _sparse_embedder(self) -> SparseEmbedder | None:
        declared = self._loaded.sparse_embedder(self.declaration)
        return None if declared is None else self._parts.sparse_embedder(declared)

    @cached_property
    def _weak_levels(self) -> WeakLevels:
        return self._loaded.weak_levels(self.declaration)

    @property
    def embedding(self) -> tuple[Catalog, list[Embedder | SparseEmbedder]]:
        """The catalog that caches its vectors, and the embedders of both kinds that make them.

        Raises:
            LorebindError: as for `kb`.
        """
        sparse = self._sparse_embedder
        embedders: list[Embedder | SparseEmbedder] = [sparse] if sparse else []
        if self.has_vectors:
            embedders.append(self._parts.embedder(self._embedder))
        return self.index.catalog, embedders

    @property
    def kb(self) -> IndexedKnowledgeBase:
        """The knowledge base with its index and embedder, for the tenant of this call.

        Raises:
            ReadOnlyError: another program fills its vector database.
            LorebindError: its database or embedder cannot be created.
        """
        namespace, declaration = self.namespace, self.declaration
        embedder: Embedder = self._parts.embedder(self._embedder)
        if self.has_vectors:
            embedder = AnnouncingEmbedder(embedder, self._events, namespace)
        sparse = self._sparse_embedder
        return IndexedKnowledgeBase(
            id=self.id,
            namespace=namespace,
            embedder=embedder,
            sparse=AnnouncingEmbedder(sparse, self._events, namespace) if sparse else None,
            index=self.index,
            keep=declaration.keep,
            has_sources=bool(declaration.sources),
            retrieval=declaration.retrieval,
            dedupe=declaration.preprocess.dedupe,
            reranker=self._parts.reranker,
            weak_levels=self._weak_levels,
            events=self._events,
        )

    @property
    def searchable(self) -> SearchableKnowledgeBase:
        """The knowledge base for searches by this call; others may fill it.

        Raises:
            LorebindError: its database or embedder cannot be created.
        """
        if not self.is_existing:
            return self.kb
        return ExistingKnowledgeBase(
            id=self.id,
            namespace=self.namespace,
            retrieval=self.retrieval,
            reranker=self._parts.reranker,
            weak_levels=self._weak_levels,
            events=self._events,
            store=self._parts.existing(self._vector_db, self._embedder),
        )

    def corpus(self, values: Mapping[str, Any] | None = None, *, embeds: bool = True) -> Corpus:
        """Return the knowledge base with its sources and chunker, for ingestion.

        Args:
            values: the values for `{{ .workflow.… }}` in its sources: `input` and `vars`.
            embeds: whether a semantic chunker may call the embedder. If not, it compares words.

        Raises:
            PluginError: its chunker cannot be created.
            UsageError: a step of its preprocessing cannot be created.
            LorebindError: as for `kb`.
        """
        from lorebind_knowledge.chunking.make import make_chunker  # searches need none of these
        from lorebind_knowledge.ingest.corpus import Corpus
        from lorebind_knowledge.sources.make import make_source
        from lorebind_knowledge.transforms.steps import make_steps

        kb, declaration, environment = self.kb, self.declaration, self._loaded.environment
        sources = [
            make_source(source, environment, workflow=values) for source in declaration.sources
        ]
        keys = [source.key for source in sources]
        return Corpus(
            kb=kb,
            sources=sources,
            declared=dict(zip(keys, declaration.sources, strict=True)),
            root=environment.root,
            chunker=make_chunker(
                declaration.chunking,
                partial(kb.catalog.embeddings.vectors, kb.embedder)
                if embeds and self.has_vectors
                else None,
                kb.embedder.fingerprint.key,
                environment,
            ),
            metadata=declaration.metadata,
            remove_html=declaration.preprocess.remove_html,
            steps=make_steps(declaration.preprocess.steps, environment),
            html_extractor=declaration.preprocess.html.extractor,
            pdf_tables=declaration.preprocess.pdf.tables,
            language=declaration.language,
            loading=self._parts.loading,
            large_chunks=declaration.chunking.exceeds_default,
            token_price=self._embedder.token_price,
        )

    async def pack(self, out: BinaryIO) -> PackReport:
        """Write it to a binary stream; see `lorebind_knowledge.packing.pack.pack`."""
        from lorebind_knowledge.packing.pack import pack

        workflow = self.scope.partition("workflow/")[2] or None
        declaration = export_resources(self._loaded, self.id, workflow)
        declaration.pop("vector_dbs", None)  # another project has its own
        return await pack(self.kb, declaration, out)

    async def unpack(
        self, path: Path | str | BinaryIO, *, wait: bool = False, run_id: str | None = None
    ) -> UnpackReport:
        """Replace its index by that of a pack; see `lorebind_knowledge.packing.unpack.unpack`."""
        from lorebind_knowledge.packing.unpack import unpack

        return await unpack(
            self.kb,
            path,
            declared=self.declaration.written(),
            token_price=self._embedder.token_price,
            wait=wait,
            run_id=run_id,
        )

    async def read(self, read: Callable[..., R], *args: Any, **options: Any) -> R:
        """Return the result of `read(namespace, catalog, *args, **options)`."""
        namespace, catalog = self.namespace, self.index.catalog
        with catalog.threads.lane("read"):
            return await call(read, namespace, catalog, *args, **options)

    async def start(self, arguments: Mapping[str, Any] | None = None) -> None:
        """Ingest it if it declares `ingest: on_start`, unless it has been ingested already.

        It is ingested again if `arguments` has different values for the names that its sources
        use; see `Once`. If the sources use such names and `arguments` is None, nothing happens: the
        run of the workflow ingests it. An existing index that is read-only is searched as it is.

        Args:
            arguments: as for `corpus`.

        Raises:
            SourceError: none of its sources could be read.
            LorebindError: see `ingest`.
        """
        declaration = self.declaration
        if declaration.ingest != "on_start" or (arguments is None and run_references(declaration)):
            return

        from lorebind_knowledge.ingest.engine import ingest

        written = declaration.model_dump_json()

        async def ingest_it() -> None:
            starter, report = self._parts.starter, None
            try:
                if starter is not None and arguments is None and self._vector_db.is_shared:
                    report = await starter(self.namespace, written)
                if report is None:
                    ended = await ingest(self.corpus(arguments), wait=True)
                    reasons = [source.reason for source in ended.sources]
                    report = StartReport(ended.status, reasons)
            except ReadOnlyError:
                # An index that cannot be written is searched as it is.
                return
            if report.status == "failed":
                reason = "; ".join(report.reasons)
                raise SourceError(f"knowledge base {self.id!r} cannot be ingested: {reason}")

        # The declaration is part of the key, because a server may replace it at runtime.
        key = (self._loaded.tenant, self.scope, self.id, written)
        values = None if arguments is None else run_values(declaration, arguments)
        await self._parts.started.do(key, ingest_it, values)

    async def query(
        self, question: str, settings: RetrievalDeclaration | None = None
    ) -> QueryResult:
        """Search it; see `lorebind_knowledge.retrieval.search.search`.

        It is ingested first if that is due; see `start`. `settings` default to the declared ones.
        """
        await self.start()
        request = Retrieval((self.searchable,), question, settings or self.retrieval)
        return await self._parts.middleware.retrieve(request)

    async def matching_terms(self, question: str, result: QueryResult) -> MatchingTerms:
        """Return the terms that its passages in a result have in common with the question."""
        from lorebind_knowledge.retrieval.explaining import matching_terms

        return {} if self.is_existing else await matching_terms(self.kb, question, result.matches)

    def vector_store(self) -> KnowledgeBaseVectorStore:
        """Return it as a read-only `VectorStore` of LangChain.

        Raises:
            UsageError: it has no vectors.
            LorebindError: as for `index`.
        """
        if not self.has_vectors:
            raise UsageError(
                f"knowledge base {self.id!r} has no vectors (embedder: none), and a vector store "
                "searches by vectors only; use its retriever"
            )
        from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore

        return KnowledgeBaseVectorStore(self.index, lambda: self.kb)
