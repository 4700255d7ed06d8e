"""What a search works on: the question, the index, and the candidates it brings together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from lorebind_knowledge.bridge import call
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.records import SearchOptions
from lorebind_knowledge.stores.base import FetchStore, LexicalStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from lorebind_knowledge.declarations import AnyReranker, RetrievalDeclaration
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import DocumentMatch, StoredRecord, Vector
    from lorebind_knowledge.rerankers.base import Reranker


class Searching(Protocol):
    """One question to an index, or to several: what strategies ask for."""

    @property
    def question(self) -> str: ...

    @property
    def settings(self) -> RetrievalDeclaration: ...

    @property
    def name(self) -> str:
        """What is searched, for messages."""
        ...

    @property
    def has_words(self) -> bool:
        """Whether words can be searched."""
        ...

    @property
    def dedupe(self) -> bool:
        """Whether passages that say the same are found once."""
        ...

    async def dense(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        """The nearest records by cosine, best first; the question is embedded once."""
        ...

    async def lexical(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        """The records that match the words best, best first.

        Raises:
            UsageError: the store cannot search words.
        """
        ...

    async def stored(self, ids: Collection[str]) -> dict[str, StoredRecord]:
        """Records by their ids, with their vectors.

        Raises:
            UsageError: the store does not give records back.
        """
        ...

    def reranker(self, declaration: AnyReranker) -> Reranker:
        """A declared reranker."""
        ...

    def part(self, match: DocumentMatch) -> Search:
        """The search of the one index that a match is from."""
        ...

    @property
    def hit_score(self) -> float | None:
        """The cosine from which a question's best passage usually answers it; None if unknown."""
        ...

    def under(self, settings: RetrievalDeclaration) -> Searching:
        """The same question with other settings; it is not embedded again."""
        ...


class QuestionEmbedding:
    """The vector of a question, made at its first use and only once."""

    def __init__(self, embedder: Embedder, question: str) -> None:
        self._embedder = embedder
        self._question = question
        self._task: asyncio.Task[Vector] | None = None

    async def vector(self) -> Vector:
        """Shape (dimension,).

        Raises:
            EmbedderError: the embedder failed.
        """
        if self._task is None:
            self._task = asyncio.ensure_future(embed_query(self._embedder, self._question))
        return await self._task


_NAMES = ("kb_id", "uri")
_SPAN = ("start", "end", "line_start", "line_end")
_Found = TypeVar("_Found", "DocumentMatch", "StoredRecord")


@dataclass
class Search:
    """One question to one index. What is asked of embedder and store stands here, and only here."""

    kb: KnowledgeBase
    index: IndexKey
    question: str
    settings: RetrievalDeclaration
    embedding: QuestionEmbedding | None = field(default=None, repr=False)
    """Shared by the searches of one question; None means one of its own."""

    async def dense(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        if self.embedding is None:
            self.embedding = QuestionEmbedding(self.kb.embedder, self.question)
        options = self._options(top_k, ids)
        vector = await self.embedding.vector()
        return self._sound(await call(self.kb.store.similarity_search, vector, options))

    async def lexical(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        if not self.has_words:
            raise UsageError(
                f"the vector database of {self.name} cannot search words, as the "
                f"strategy {self.settings.strategy!r} does; use the strategy 'similarity'"
            )
        store = cast("LexicalStore", self.kb.store)
        options = self._options(top_k, ids)
        return self._sound(await call(store.lexical_search, self.question, options))

    async def stored(self, ids: Collection[str]) -> dict[str, StoredRecord]:
        if not isinstance(self.kb.store, FetchStore):
            raise UsageError(
                f"the vector database of {self.name} does not give vectors back, "
                "which 'mmr' and 'neighbours' need; use another strategy"
            )
        found = await call(self.kb.store.fetch, self.index, ids)
        self._sound(list(found.values()))
        return found

    @property
    def name(self) -> str:
        return f"knowledge base {self.kb.id!r}"

    @property
    def has_words(self) -> bool:
        return isinstance(self.kb.store, LexicalStore)

    @property
    def dedupe(self) -> bool:
        return self.kb.dedupe

    def reranker(self, declaration: AnyReranker) -> Reranker:
        if self.kb.reranker is None:
            raise UsageError(f"{self.name} was made without rerankers")
        return self.kb.reranker(declaration)

    def part(self, match: DocumentMatch) -> Search:
        return self

    @property
    def hit_score(self) -> float | None:
        return self.kb.embedder.hit_score

    def under(self, settings: RetrievalDeclaration) -> Search:
        if self.embedding is None:
            self.embedding = QuestionEmbedding(self.kb.embedder, self.question)
        return replace(self, settings=settings)

    def _options(self, top_k: int, ids: Collection[str] | None) -> SearchOptions:
        return SearchOptions(self.index, top_k, None, self.settings.filters, ids)

    def _sound(self, found: list[_Found]) -> list[_Found]:
        """The same; what all that follows relies on is there."""
        for passage in found:
            about = passage.metadata
            named = all(isinstance(about.get(key), str) for key in _NAMES)
            if not named or not all(isinstance(about.get(key, 0), int) for key in _SPAN):
                raise StoreError(
                    f"the metadata of passage {passage.id} of {self.name} are damaged; "
                    f"build its index anew with: {self.kb.reindex_command}"
                )
        return found


Ranking: TypeAlias = "list[DocumentMatch]"
"""Passages in the order that a strategy gives them; fewer are always a prefix of more."""
Strategy: TypeAlias = "Callable[[Searching, int], Awaitable[Ranking]]"
"""Ranks so many passages, fewer where there are not so many, or at once all that it ever will."""


def with_figures(match: DocumentMatch, score: float, **figures: Any) -> DocumentMatch:
    """A match with another score, and further raw figures beside those it has."""
    return replace(match, score=score, scores={**match.scores, **figures})
