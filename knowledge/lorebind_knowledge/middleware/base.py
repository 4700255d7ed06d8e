"""What a wrapper is: it is given a part, and gives back what takes the part's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.stores.base import VectorStore


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One question, and everything that decides its answer."""

    kbs: tuple[SearchableKnowledgeBase, ...]
    """Made for the tenant of the call; their `namespace` says which."""
    question: str
    settings: RetrievalDeclaration
    together: bool = False
    """Whether the knowledge bases are searched as one; otherwise there is one of them."""

    @property
    def tenant(self) -> str:
        return self.kbs[0].namespace.tenant


Retrieve: TypeAlias = "Callable[[Retrieval], Awaitable[QueryResult]]"
"""Answers a question, and raises what `retrieval.search.search` raises."""


class Wraps(Protocol):
    """What a factory named in `wrappers` makes: an object with these methods.

    Each is called once for each part, when it is made, and returns the part as it is or something
    in its place. `lorebind_knowledge.embedders.wrapper.EmbedderWrapper` and
    `lorebind_knowledge.stores.wrapper.StoreWrapper` are bases for that: what is around a store must
    be able to do all that the store can.
    """

    def embedder(self, inner: Embedder) -> Embedder: ...

    def store(self, inner: VectorStore) -> VectorStore: ...

    def retrieval(self, inner: Retrieve) -> Retrieve: ...


class Wrapper:
    """Wraps nothing. Inherit it and override what is to be wrapped."""

    def embedder(self, inner: Embedder) -> Embedder:
        return inner

    def store(self, inner: VectorStore) -> VectorStore:
        return inner

    def retrieval(self, inner: Retrieve) -> Retrieve:
        return inner
