"""A `VectorStore` of LangChain that others fill: asked by its own methods, and never written.

Classes mean different things by a score: a cosine, a distance, a square of one. Few say which, and
some are wrong. So it is found out with a few of the documents, whose vectors are made anew.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from langchain_core.vectorstores import VectorStore

from lorebind_knowledge.bridge import call, call_client
from lorebind_knowledge.cosines import direction_of
from lorebind_knowledge.errors import NotIngestedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.stores.langchain.recipe import Recipe

Near: TypeAlias = "tuple[Document, float]"
"""A document, and its cosine with the question."""

SCALES: Final[dict[str, Callable[[float], float]]] = {
    "cosines": lambda figure: figure,
    "cosine distances": lambda figure: 1 - figure,
    "squared distances": lambda figure: 1 - figure / 2,
    "distances": lambda figure: 1 - figure * figure / 2,
    "negative inner products": lambda figure: -figure,
    "cosines moved to 0 to 1": lambda figure: 2 * figure - 1,
}
"""What a score may be, and the cosine that it stands for. All but the first two are cosines only
where the vectors have the length 1."""

_TRIED = 4
_TOLERANCE = 0.02
"""Vectors that are made anew differ a little: providers round, and batch otherwise."""
_POOL = 100


class ExistingStore:
    """Documents of others, to be searched. Safe to share among threads as the class is."""

    def __init__(self, recipe: Recipe, embeddings: Callable[[], Embeddings]) -> None:
        """
        Args:
            recipe: what makes the object.
            embeddings: gives what made the vectors, where the object does not have its own.
        """
        self._recipe, self._embeddings = recipe, embeddings
        self._making = threading.Lock()
        self._store: VectorStore | None = None
        self._scale: str | None = None

    async def nearest(self, question: str, k: int) -> list[Near]:
        """The `k` documents nearest to a question, or all there are.

        Raises:
            NotIngestedError: there are no documents.
            StoreError: an outage, or scores that cannot be read as cosines.
        """
        scale = SCALES[await self.scale(question)]
        return [(document, scale(figure)) for document, figure in await self._scored(question, k)]

    async def diverse(self, question: str, k: int, weight: float) -> list[Near]:
        """So many by maximal marginal relevance, as the class does it, in the order of choice.

        Raises:
            StoreError: as for `nearest`, or the class does not have it.
        """
        pool = max(k, _POOL)
        near = {_key(document): figure for document, figure in await self.nearest(question, pool)}
        store = await self._opened()
        with self._recipe.saying("cannot be searched with the strategy 'mmr'"):
            found = await call_client(
                store.max_marginal_relevance_search,
                store.amax_marginal_relevance_search,
                question,
                k=k,
                fetch_k=pool,
                lambda_mult=weight,
            )
        strange = [document for document in found if _key(document) not in near]
        if strange:  # an approximate index gives others each time
            near |= dict(
                zip(map(_key, strange), await self._cosines(question, strange), strict=True)
            )
        return [(document, near[_key(document)]) for document in found]

    async def scale(self, question: str = "documents") -> str:
        """What the scores of the class are, one of `SCALES`; found out once."""
        if self._scale is None:
            self._scale = await self._found_out(question)
        return self._scale

    def close(self) -> None:
        """Forget the object. It is not closed: others may use it."""
        with self._making:
            self._store = self._scale = None

    async def _found_out(self, question: str) -> str:
        found = await self._scored(question, _TRIED)
        if not found:
            raise NotIngestedError(
                f"{self._recipe.name} has no documents; is its collection, table or file the one "
                "that was filled?"
            )
        # A document is as near to itself as can be: that tells a cosine from a distance.
        text = found[0][0].page_content
        pairs: list[tuple[float, float]] = []
        for asked, some in ((question, found), (text, await self._scored(text, _TRIED))):
            known = await self._cosines(asked, [document for document, _ in some])
            pairs += [(figure, cosine) for (_, figure), cosine in zip(some, known, strict=True)]

        def error(name: str) -> float:
            return max(abs(SCALES[name](figure) - cosine) for figure, cosine in pairs)

        best = min(SCALES, key=error)
        if error(best) <= _TOLERANCE:
            return best
        figure, cosine = max(pairs, key=lambda pair: abs(SCALES[best](pair[0]) - pair[1]))
        raise StoreError(
            f"the scores of {self._recipe.name} cannot be read as cosines: one is {figure:.3f} "
            f"where the cosine is {cosine:.3f}; give it the embedder that it was filled with, and "
            "a metric that is the cosine, or the distance or inner product of vectors of length 1"
        )

    async def _scored(self, question: str, k: int) -> list[tuple[Document, float]]:
        store = await self._opened()
        with self._recipe.saying("cannot be searched with scores"):
            found = await call_client(
                store.similarity_search_with_score,
                store.asimilarity_search_with_score,
                question,
                k=k,
            )
            return [(document, float(figure)) for document, figure in found]

    async def _cosines(self, question: str, documents: Sequence[Document]) -> list[float]:
        """The cosines of documents with a question, from vectors that are made anew."""
        texts = [document.page_content for document in documents]
        own = (await self._opened()).embeddings
        by = await call(self._embeddings) if own is None else own
        with self._recipe.saying("has an embedder that failed"):
            made = await call_client(by.embed_documents, by.aembed_documents, texts)
            asked = await call_client(by.embed_query, by.aembed_query, question)
        rows = np.stack([direction_of(np.asarray(one)) for one in made])
        figures: list[float] = (rows @ direction_of(np.asarray(asked))).tolist()
        return figures

    async def _opened(self) -> VectorStore:
        store = self._store
        return await call(self._made) if store is None else store

    def _made(self) -> VectorStore:
        with self._making:
            if self._store is not None:
                return self._store
            recipe, name = self._recipe, self._recipe.embedding_parameter
            given = {name: self._embeddings()} if name else {}
            store = recipe.made({**given, **recipe.made_parts()})
            if not isinstance(store, VectorStore):
                raise StoreError(f"{recipe.name} is not a VectorStore of LangChain")
            self._store = store
            return store


def _key(document: Document) -> Any:
    return document.id, document.page_content
