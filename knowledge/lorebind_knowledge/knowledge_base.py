"""One knowledge base with the parts made that a search needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.declarations import AnyReranker, RetrievalDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.events import Events
    from lorebind_knowledge.namespace import Namespace
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.stores.base import VectorStore


@dataclass(frozen=True)
class KnowledgeBase:
    """The parts of a declared knowledge base, for one tenant. A `Corpus` is ingested into it."""

    id: str
    namespace: Namespace
    embedder: Embedder
    store: VectorStore
    catalog: Catalog
    retrieval: RetrievalDeclaration
    events: Events
    dedupe: bool = True
    """Whether passages that say the same are found once."""
    reranker: Callable[[AnyReranker], Reranker] | None = None
    """Gives a declared reranker, made at its first use."""

    @property
    def ingest_command(self) -> str:
        """The command that ingests it, for messages that send a user there."""
        return self._command("ingest")

    @property
    def reindex_command(self) -> str:
        """The command that builds its index anew."""
        return self._command("reindex")

    def _command(self, verb: str) -> str:
        _, _, workflow = self.namespace.scope.partition("workflow/")
        where = f" --workflow {workflow}" if workflow else ""
        return f"lorebind knowledge {verb} {self.id}{where}"
