"""A `VectorStore` of LangChain that others fill: asked by its own methods, and never written.

Classes mean different things by a score: a cosine, a distance, a square of one. Few say which, and
some are wrong. So it is found out with a few of the documents, whose vectors are made anew.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

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

_PROBE = "What is this about?"
"""A text that is none of the documents: the nearest to it are neither equal nor opposite."""
_TRIED = 4
_TOLERANCE = 0.02
"""Vectors that are made anew differ a little: providers round, and batch otherwise."""


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
        self._parts: dict[str, Any] = {}
        self._scale: str | None = None

    async def nearest(self, question: str, k: int) -> list[Near]:
        """The `k` documents nearest to a question, or all there are.

        Raises:
            NotIngestedError: there are no documents.
            StoreError: an outage, or scores that cannot be read as cosines.
        """
        scale = SCALES[await self.scale()]
        scored = await self._scored(question, k)
        # Some give no number where a vector has the length 0, which is the cosine 0 elsewhere.
        return [
            (document, 0.0 if math.isnan(figure) else scale(figure)) for document, figure in scored
        ]

    async def chosen(
        self, question: str, documents: Sequence[str], k: int, weight: float
    ) -> list[int]:
        """The numbers of the texts that maximal marginal relevance chooses, in that order.

        They are embedded anew: classes give no vectors. What they call by this name chooses
        otherwise in each, and some list it in another order.

        Raises:
            StoreError: an outage.
        """
        asked, rows = await self._directions(question, documents)
        return maximal_marginal_relevance(asked, list(rows), weight, k)

    async def scale(self) -> str:
        """What the scores of the class are, one of `SCALES`; found out once."""
        if self._scale is None:
            self._scale = await self._found_out()
        return self._scale

    def close(self) -> None:
        """Forget the object, and close what was made for it. An object that was given stays open:
        others may use it."""
        with self._making:
            self._store = self._scale = None
            opened, self._parts = self._parts, {}
            self._recipe.close(opened)

    async def _found_out(self) -> str:
        found = await self._scored(_PROBE, _TRIED)
        if not found:
            raise NotIngestedError(
                f"{self._recipe.name} has no documents; is its collection, table or file the one "
                "that was filled?"
            )
        # A document is as near to itself as can be: that tells a cosine from a distance.
        text = found[0][0].page_content
        pairs: list[tuple[float, float]] = []
        for asked, some in ((_PROBE, found), (text, await self._scored(text, _TRIED))):
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
        asked, rows = await self._directions(question, [one.page_content for one in documents])
        figures: list[float] = (rows @ asked).tolist()
        return figures

    async def _directions(self, question: str, texts: Sequence[str]) -> tuple[Any, Any]:
        """The vectors of a question and of documents, made anew, at the length 1."""
        own = (await self._opened()).embeddings
        by = await call(self._embeddings) if own is None else own
        with self._recipe.saying("has an embedder that failed"):
            made = await call_client(by.embed_documents, by.aembed_documents, list(texts))
            asked = await call_client(by.embed_query, by.aembed_query, question)
        rows = np.stack([direction_of(np.asarray(one)) for one in made])
        return direction_of(np.asarray(asked)), rows

    async def _opened(self) -> VectorStore:
        store = self._store
        return await call(self._made) if store is None else store

    def _made(self) -> VectorStore:
        with self._making:
            if self._store is not None:
                return self._store
            recipe, name = self._recipe, self._recipe.embedding_parameter
            given = {name: self._embeddings()} if name else {}
            self._parts = recipe.made_parts()
            store = recipe.made({**given, **self._parts})
            if not isinstance(store, VectorStore):
                raise StoreError(f"{recipe.name} is not a VectorStore of LangChain")
            if type(store).similarity_search_with_score is VectorStore.similarity_search_with_score:
                raise StoreError(
                    f"{recipe.name} has no similarity_search_with_score, so nobody can tell how "
                    "near its documents are; ingest them into a knowledge base of Lorebind instead"
                )
            self._store = store
            return store
