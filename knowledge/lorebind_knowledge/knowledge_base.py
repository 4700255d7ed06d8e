"""A knowledge base with the objects that a search needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.retrieval import WeakLevels
from lorebind_knowledge.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorebind_config.declarations.retrieval import AnyReranker, RetrievalDeclaration
    from lorebind_config.errors import Suggestion
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.events import Events
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.plumbing.lanes import Threads
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.stores.langchain.existing import ExistingStore


@dataclass(frozen=True, kw_only=True)
class SearchableKnowledgeBase(ABC):
    """A declared knowledge base for searches by one tenant."""

    id: str
    namespace: Namespace
    retrieval: RetrievalDeclaration
    events: Events
    dedupe: bool = True
    """Whether passages with the same text are returned only once."""
    reranker: Callable[[AnyReranker], Reranker] | None = None
    """Returns a declared reranker, which is created at its first use."""
    weak_levels: WeakLevels = field(default_factory=WeakLevels)
    """The relevances of the best passage below which a match is weak."""

    @property
    @abstractmethod
    def threads(self) -> Threads:
        """The threads of functions that use its database."""

    def emit(
        self,
        hook: str,
        run_id: str = "",
        *,
        texts: Callable[[], Mapping[str, Any]] | None = None,
        **data: Any,
    ) -> None:
        """Send an event of this knowledge base to the extensions; see `Events.emit`."""
        if self.events.extensions:  # an ingest sends an event for each document
            self.events.emit(hook, Event(self.id, run_id, data, self.namespace), texts)


@dataclass(frozen=True, kw_only=True)
class ExistingKnowledgeBase(SearchableKnowledgeBase):
    """A knowledge base that another program fills, and that Lorebind only searches."""

    store: ExistingStore

    @property
    def threads(self) -> Threads:
        return self.store.threads


@dataclass(frozen=True, kw_only=True)
class IndexedKnowledgeBase(SearchableKnowledgeBase):
    """A knowledge base that Lorebind fills. A `Corpus` is ingested into it."""

    embedder: Embedder
    sparse: SparseEmbedder | None = None
    """The embedder of the terms of its passages; None: they have none."""
    index: Index
    """The vector database with its catalog. It also stores the indexes of other knowledge bases."""
    keep: int = 0
    """Number of earlier indexes that stay after a rebuild, for `rollback`."""
    has_sources: bool = True
    """Whether it has sources; if not, all its documents are added."""

    @property
    def catalog(self) -> Catalog:
        return self.index.catalog

    @property
    def threads(self) -> Threads:
        return self.index.catalog.threads

    @property
    def ingest_command(self) -> Suggestion:
        """The shell command that ingests the knowledge base, for messages."""
        return self.namespace.command("ingest")

    @property
    def fill_command(self) -> Suggestion:
        """The shell command that fills the empty knowledge base, for messages."""
        return self.ingest_command if self.has_sources else self.namespace.command("add", " FILE")

    @property
    def reindex_command(self) -> Suggestion:
        """The shell command that rebuilds the index, for messages."""
        return self.namespace.command("reindex")
