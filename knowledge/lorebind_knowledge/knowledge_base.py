"""One knowledge base with the parts made that a search needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.declarations import AnyReranker, RetrievalDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.events import Events
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.namespace import Namespace
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.stores.langchain.existing import ExistingStore


@dataclass(frozen=True, kw_only=True)
class SearchableKnowledgeBase:
    """A declared knowledge base as a search sees it, for one tenant."""

    id: str
    namespace: Namespace
    retrieval: RetrievalDeclaration
    events: Events
    dedupe: bool = True
    """Whether passages that say the same are found once."""
    reranker: Callable[[AnyReranker], Reranker] | None = None
    """Gives a declared reranker, made at its first use."""

    def emit(
        self,
        hook: str,
        run_id: str = "",
        *,
        texts: Callable[[], Mapping[str, Any]] | None = None,
        **data: Any,
    ) -> None:
        """Tell the extensions what happened to it, see `Events.emit`."""
        self.events.emit(hook, Event(self.id, run_id, data, self.namespace), texts)


@dataclass(frozen=True, kw_only=True)
class ExistingKnowledgeBase(SearchableKnowledgeBase):
    """One that others fill, to be searched as it stands."""

    store: ExistingStore
    hit_score: float | None
    """The cosine of the best passage below which a match is weak; None if it is not known."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeBase(SearchableKnowledgeBase):
    """The parts of one that Lorebind fills. A `Corpus` is ingested into it."""

    embedder: Embedder
    index: Index
    """The vector database with its catalog; it holds the indexes of others too."""

    @property
    def catalog(self) -> Catalog:
        return self.index.catalog

    @property
    def ingest_command(self) -> str:
        """The command that ingests it, for messages that send a user there."""
        return self.namespace.command("ingest")

    @property
    def reindex_command(self) -> str:
        """The command that builds its index anew."""
        return self.namespace.command("reindex")
