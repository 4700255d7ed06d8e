"""The embedders, vector databases and rerankers of a project, each made at its first use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lorebind_knowledge.bridge import call
from lorebind_knowledge.configuration.make_part import PartEnvironment
from lorebind_knowledge.embedders.make import make_embedder
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.loaders.readers import Loading
from lorebind_knowledge.middleware.chain import Middleware
from lorebind_knowledge.rerankers.make import make_reranker
from lorebind_knowledge.run_once import Once
from lorebind_knowledge.stores.make import make_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import AnyReranker
    from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
    from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.stores.langchain.existing import ExistingStore

T = TypeVar("T")


class Parts:
    """What is made from declarations, and shared by all that declare the same.

    Safe to share among threads and tasks.
    """

    def __init__(self, loaded: LoadedProject) -> None:
        """
        Raises:
            UsageError, PluginError: a wrapper that is declared cannot be made.
        """
        self._environment = loaded.environment
        self.middleware = Middleware(loaded.project.wrappers, loaded.environment)
        self.loading = Loading(loaded.project.loading)
        self._making = threading.Lock()
        self._embedders: _Made[Embedder] = _Made()
        self._indexes: _Made[Index] = _Made()
        self._existing: _Made[ExistingStore] = _Made()
        self._rerankers: _Made[Reranker] = _Made()
        self.started = Once()
        """The knowledge bases that were ingested because they are declared with `on_start`."""

    def embedder(self, declaration: EmbedderDeclaration) -> Embedder:
        """
        Raises:
            EmbedderError, MissingDependencyError: it cannot be made.
        """

        def make() -> Embedder:
            return self.middleware.embedder(make_embedder(declaration, self._environment))

        with self._making:
            return self._embedders.get(declaration, make)

    def index(self, declaration: VectorDBDeclaration) -> Index:
        """A vector database with its catalog.

        Raises:
            StoreError, MissingDependencyError: it cannot be made.
        """

        def make() -> Index:
            store, catalog = make_store(declaration, self._environment)
            return Index(self.middleware.store(store), catalog)

        with self._making:
            return self._indexes.get(declaration, make)

    def existing(
        self, declaration: VectorDBDeclaration, embedder: EmbedderDeclaration
    ) -> ExistingStore:
        """A vector database that others fill.

        Raises:
            UsageError, StoreError: what is declared cannot be imported, or is no `VectorStore`.
        """
        from lorebind_knowledge.embedders.langchain_embeddings import LorebindEmbeddings
        from lorebind_knowledge.stores.langchain.declaration import make_existing

        def make() -> ExistingStore:
            declared: Any = declaration
            environment = PartEnvironment(self._environment)
            return make_existing(
                declared, environment, lambda: LorebindEmbeddings(self.embedder(embedder))
            )

        with self._making:
            return self._existing.get((declaration, embedder), make)

    def reranker(self, declaration: AnyReranker) -> Reranker:
        """
        Raises:
            RerankerError: it cannot be made.
        """
        with self._making:
            return self._rerankers.get(
                declaration, lambda: make_reranker(declaration, self._environment)
            )

    async def close(self) -> None:
        """Close every store and catalog that was opened; a later use opens them again."""
        with self._making:
            opened: list[Index | ExistingStore] = [*self._indexes.all(), *self._existing.all()]
            self._embedders, self._indexes, self._existing = _Made(), _Made(), _Made()
            self.started = Once()  # what was kept in memory is gone
        for one in opened:
            await call(one.close)


class _Made(Generic[T]):
    """What was made, each with what it is declared as. Not hashed: settings may be mappings."""

    def __init__(self) -> None:
        self._made: list[tuple[object, T]] = []

    def get(self, declared: object, make: Callable[[], T]) -> T:
        for other, made in self._made:
            if other == declared:
                return made
        made = make()
        self._made.append((declared, made))
        return made

    def all(self) -> list[T]:
        return [made for _, made in self._made]
