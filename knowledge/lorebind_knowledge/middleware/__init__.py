"""Middleware: the wrappers of embedders, stores and searches, and the code that applies them.

A wrapper receives a part and returns its replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.stores.base import VectorStore


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A question with everything that determines its result."""

    kbs: tuple[SearchableKnowledgeBase, ...]
    """Created for the tenant of the call; their `namespace` names it."""
    question: str
    settings: RetrievalDeclaration

    @property
    def tenant(self) -> str:
        return self.kbs[0].namespace.tenant


Retrieve: TypeAlias = "Callable[[Retrieval], Awaitable[QueryResult]]"
"""Runs a search; raises the same errors as `retrieval.search.search`."""


class Wrapper:
    """Wraps nothing. Subclass it and override the methods for the parts to wrap.

    Each method is called once per part, when the part is made, and returns the part itself or a
    replacement. Derive replacements from `lorebind_knowledge.embedders.wrapper.EmbedderWrapper` or
    `lorebind_knowledge.stores.wrapper.StoreWrapper`: the replacement of a store must support
    everything that the store supports. A class derived from `EmbedderWrapper` that overrides only
    `wrap_call` can replace embedders and sparse embedders.
    """

    def embedder(self, inner: Embedder) -> Embedder:
        return inner

    def sparse_embedder(self, inner: SparseEmbedder) -> SparseEmbedder:
        return inner

    def store(self, inner: VectorStore) -> VectorStore:
        return inner

    def retrieval(self, inner: Retrieve) -> Retrieve:
        return inner
