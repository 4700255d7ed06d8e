"""The embedders, vector databases and rerankers of a project, each created at its first use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from lorebind_config.declarations.project import LOCAL
from lorebind_config.errors import ReadOnlyError
from lorebind_config.reading.make_part import PartEnvironment
from lorebind_knowledge.catalog.shared_pace import SharedPace
from lorebind_knowledge.embedders.retrying import RetryingEmbedder
from lorebind_knowledge.embedders.wrapper import (
    EmbedderWrapper,
    make_embedder,
    make_sparse_embedder,
)
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.loaders.readers import Loading
from lorebind_knowledge.middleware.chain import Middleware
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.run_once import Once
from lorebind_knowledge.rerankers.base import make_reranker
from lorebind_knowledge.stores.make import make_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_config.declarations.embedders import (
        EmbedderDeclaration,
        SparseEmbedderDeclaration,
    )
    from lorebind_config.declarations.retrieval import AnyReranker
    from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
    from lorebind_config.namespace import Namespace
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.stores.langchain.existing import ExistingStore

T = TypeVar("T")

Starter: TypeAlias = "Callable[[Namespace, str], Awaitable[StartReport | None]]"
"""Ingests a knowledge base with `ingest: on_start`, whose declaration it gets as JSON, and waits
until that is done. It returns None if it cannot, and the caller has to."""


class StartReport(NamedTuple):
    """The outcome of an ingest because of `on_start`."""

    status: str
    """That of the report of the ingest."""
    reasons: Sequence[str] = ()
    """Why sources could not be read."""


class Parts:
    """Objects created from declarations and shared by all equal declarations.

    Safe to share among threads and tasks.
    """

    def __init__(self, loaded: LoadedProject) -> None:
        """
        Raises:
            UsageError, PluginError: a declared wrapper cannot be created.
        """
        self._environment = loaded.environment
        self._ingestion = loaded.project.ingestion
        self._shared = loaded.project.shared_vector_db
        self.middleware = Middleware(loaded.project.wrappers, loaded.environment)
        self.loading = Loading(loaded.project.loading)
        self._embedders: _Shared[Embedder] = _Shared()
        self._sparse_embedders: _Shared[SparseEmbedder] = _Shared()
        self._indexes: _Shared[Index] = _Shared()
        self._existing: _Shared[ExistingStore] = _Shared()
        self._rerankers: _Shared[Reranker] = _Shared()
        self.started = Once()
        """The knowledge bases that were ingested because of `ingest: on_start`."""
        self.starter: Starter | None = None
        """Ingests them instead of this process, if others can search what it ingests."""

    def embedder(self, declaration: EmbedderDeclaration) -> Embedder:
        """Return the embedder of a declaration.

        Raises:
            EmbedderError, MissingDependencyError: it cannot be created.
        """

        def make() -> Embedder:
            embedder = make_embedder(declaration, self._environment)
            self._share_pace(embedder)
            return self.middleware.embedder(embedder) if declaration.makes_vectors else embedder

        return self._embedders.get(declaration, make)

    def sparse_embedder(self, declaration: SparseEmbedderDeclaration) -> SparseEmbedder:
        """Return the sparse embedder of a declaration.

        Raises:
            EmbedderError, MissingDependencyError: it cannot be created.
        """

        def make() -> SparseEmbedder:
            inner = make_sparse_embedder(declaration, self._environment)
            self._share_pace(inner)
            return self.middleware.sparse_embedder(inner)

        return self._sparse_embedders.get(declaration, make)

    def _share_pace(self, embedder: Embedder | SparseEmbedder) -> None:
        """Let an embedder keep the limits of its provider together with other processes.

        They are in the first catalog that is in PostgreSQL. Without one, the limits hold for this
        process.
        """
        part: Any = embedder
        while isinstance(part, EmbedderWrapper) and not isinstance(part, RetryingEmbedder):
            part = part.inner
        shared = self._shared
        if isinstance(part, RetryingEmbedder) and shared is not None:
            part.pace = SharedPace(
                part.pace, lambda: part.fingerprint, lambda: self.index(shared).catalog
            )

    def index(self, declaration: VectorDBDeclaration) -> Index:
        """Return a vector database with its catalog.

        Raises:
            ReadOnlyError: another program fills the database.
            StoreError, MissingDependencyError: it cannot be created.
        """
        if declaration.is_existing:
            raise ReadOnlyError(
                f"vector database {declaration.id!r} is filled by another program (existing: "
                "true), so it can only be searched"
            )

        def make() -> Index:
            ingestion = self._ingestion
            seconds = (
                ingestion.lease_seconds if "lease_seconds" in ingestion.model_fields_set else None
            )
            store, catalog = make_store(declaration, self._environment, lease_seconds=seconds)
            if ingestion.engine != LOCAL and catalog.postgres is not None:
                from lorebind_knowledge.scale.pool import make_pool

                catalog.embeddings.maker = make_pool(ingestion.engine, catalog.postgres)
            return Index(self.middleware.store(store), catalog)

        return self._indexes.get(declaration, make)

    def existing(
        self, declaration: VectorDBDeclaration, embedder: EmbedderDeclaration
    ) -> ExistingStore:
        """Return a vector database that another program fills.

        Raises:
            UsageError, StoreError: the declared class cannot be imported, or is not a
                `VectorStore`.
        """
        # Both import LangChain, which takes half a second.
        from lorebind_knowledge.collection import LorebindEmbeddings
        from lorebind_knowledge.stores.langchain.declaration import make_existing

        def make() -> ExistingStore:
            declared: Any = declaration
            environment = PartEnvironment(self._environment)
            return make_existing(
                declared, environment, lambda: LorebindEmbeddings(self.embedder(embedder))
            )

        return self._existing.get((declaration, embedder), make)

    def reranker(self, declaration: AnyReranker) -> Reranker:
        """Return the reranker of a declaration.

        Raises:
            RerankerError: it cannot be created.
        """
        return self._rerankers.get(
            declaration, lambda: make_reranker(declaration, self._environment)
        )

    async def close(self) -> None:
        """Close all open stores and catalogs; a later use opens them again."""
        opened: list[Index | ExistingStore] = [*self._indexes.clear(), *self._existing.clear()]
        self._embedders.clear()
        self._sparse_embedders.clear()
        self.started = Once()  # databases in memory are lost
        for database in opened:
            await call(database.close)


class _Shared(Generic[T]):
    """Created objects with their declarations. A list, because settings may be unhashable."""

    def __init__(self) -> None:
        self._parts: list[tuple[object, T]] = []
        # Held while an object is created: two threads must not open the same database twice.
        self._lock = threading.Lock()

    def get(self, declared: object, make: Callable[[], T]) -> T:
        with self._lock:
            for other, part in self._parts:
                if other is declared or other == declared:
                    return part
            part = make()
            self._parts.append((declared, part))
            return part

    def clear(self) -> list[T]:
        """Forget all objects, and return them."""
        with self._lock:
            parts, self._parts = self._parts, []
        return [part for _, part in parts]
