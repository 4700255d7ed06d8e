"""A LangChain `VectorStore` that another program fills, and that Lorebind only searches.

Classes return different kinds of scores: a cosine, a distance, a squared distance. Few document
which, and some document it wrongly. Lorebind therefore detects the kind by embedding a few of the
documents again.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lorebind_config.errors import NotIngestedError, StoreError
from lorebind_knowledge.cosines import direction_of
from lorebind_knowledge.plumbing.bridge import call, call_client
from lorebind_knowledge.plumbing.lanes import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.stores.langchain.recipe import Recipe

Near: TypeAlias = "tuple[Document, float]"
"""A document with its cosine to the question."""

SCALES: Final[dict[str, Callable[[float], float]]] = {
    "cosines": lambda figure: figure,
    "cosine distances": lambda figure: 1 - figure,
    "squared distances": lambda figure: 1 - figure / 2,
    "distances": lambda figure: 1 - figure * figure / 2,
    "negative inner products": lambda figure: -figure,
    "cosines moved to 0 to 1": lambda figure: 2 * figure - 1,
}
"""Kinds of scores, with functions that convert a score to the cosine. All but the first two require
vectors of length 1."""

_PROBE = "What is this about?"
"""A text that no document has, so that the cosines of the nearest ones are neither 1 nor -1."""
_TRIED = 4
_TOLERANCE = 0.02
"""Vectors made again differ a little, because providers round and use other batches."""


class ExistingStore:
    """A searchable store of another program's documents. As thread-safe as its class."""

    def __init__(self, recipe: Recipe, embeddings: Callable[[], Embeddings]) -> None:
        """
        Args:
            recipe: makes the object.
            embeddings: returns the `Embeddings` of the vectors, if the object does not have its
                own.
        """
        self._recipe, self._embeddings = recipe, embeddings
        self.threads = Threads()
        self._making = threading.Lock()
        self._store: VectorStore | None = None
        self._parts: dict[str, Any] = {}
        self._scale: str | None = None

    async def nearest(self, question: str, k: int) -> list[Near]:
        """Return the `k` documents nearest to a question, or all if there are fewer.

        Raises:
            NotIngestedError: there are no documents.
            StoreError: an outage, or the scores cannot be converted to cosines.
        """
        scale = SCALES[await self.scale()]
        scored = await self._scored(question, k)
        # Some return NaN for a vector of length 0, whose cosine is 0 in other stores.
        return [
            (document, 0.0 if math.isnan(figure) else scale(figure)) for document, figure in scored
        ]

    async def chosen(
        self, question: str, documents: Sequence[str], k: int, weight: float
    ) -> list[int]:
        """Return the positions of texts selected by maximal marginal relevance, in that order.

        The texts are embedded again, because classes do not return vectors. Their own methods for
        it select different texts, and some return another order.

        Raises:
            StoreError: an outage.
        """
        direction, rows = await self._directions(question, documents)
        return maximal_marginal_relevance(direction, list(rows), weight, k)

    async def scale(self) -> str:
        """Return the kind of the class's scores, one of `SCALES`; it is detected only once."""
        if self._scale is None:
            self._scale = await self._found_out()
        return self._scale

    def close(self) -> None:
        """Forget the object, and close the parts that were made for it.

        An object that the user passed stays open, because others may use it.
        """
        with self._making:
            self._store = self._scale = None
            opened, self._parts = self._parts, {}
            self._recipe.close(opened)

    async def _found_out(self) -> str:
        scored = await self._scored(_PROBE, _TRIED)
        if not scored:
            raise NotIngestedError(
                f"{self._recipe.name} has no documents; check that its collection, table or file "
                "is the one that was filled"
            )
        # A document is nearest to itself, which distinguishes cosines from distances.
        text = scored[0][0].page_content
        pairs: list[tuple[float, float]] = []
        for query, some in ((_PROBE, scored), (text, await self._scored(text, _TRIED))):
            cosines = await self._cosines(query, [document for document, _ in some])
            pairs += [(figure, cosine) for (_, figure), cosine in zip(some, cosines, strict=True)]

        def error(name: str) -> float:
            return max(abs(SCALES[name](figure) - cosine) for figure, cosine in pairs)

        best = min(SCALES, key=error)
        if error(best) <= _TOLERANCE:
            return best
        figure, cosine = max(pairs, key=lambda pair: abs(SCALES[best](pair[0]) - pair[1]))
        raise StoreError(
            f"the scores of {self._recipe.name} cannot be converted to cosines: one is "
            f"{figure:.3f} where the cosine is {cosine:.3f}; use the embedder that made its "
            "vectors, and a metric that is the cosine, or the distance or inner product of "
            "vectors of length 1"
        )

    async def _scored(self, question: str, k: int) -> list[tuple[Document, float]]:
        store = await self._opened()
        with self._recipe.redact_errors("cannot be searched with scores"):
            pairs = await call_client(
                store.similarity_search_with_score,
                store.asimilarity_search_with_score,
                question,
                k=k,
            )
            return [(document, float(figure)) for document, figure in pairs]

    async def _cosines(self, question: str, documents: Sequence[Document]) -> list[float]:
        """Return the cosines of documents with a question, from newly made vectors."""
        direction, rows = await self._directions(
            question, [document.page_content for document in documents]
        )
        figures: list[float] = (rows @ direction).tolist()
        return figures

    async def _directions(self, question: str, texts: Sequence[str]) -> tuple[Any, Any]:
        """Embed a question and documents again, and return the vectors at length 1."""
        embeddings = (await self._opened()).embeddings
        by = await call(self._embeddings) if embeddings is None else embeddings
        with self._recipe.redact_errors("has an embedder that failed"):
            vectors = await call_client(by.embed_documents, by.aembed_documents, list(texts))
            query = await call_client(by.embed_query, by.aembed_query, question)
        rows = np.stack([direction_of(np.asarray(vector)) for vector in vectors])
        return direction_of(np.asarray(query)), rows

    async def _opened(self) -> VectorStore:
        store = self._store
        return await call(self._open) if store is None else store

    def _open(self) -> VectorStore:
        with self._making:
            if self._store is not None:
                return self._store
            recipe, name = self._recipe, self._recipe.embedding_parameter
            arguments = {name: self._embeddings()} if name else {}
            self._parts = recipe.create_parts()
            store = recipe.create({**arguments, **self._parts})
            if not isinstance(store, VectorStore):
                raise StoreError(f"{recipe.name} is not a LangChain VectorStore")
            if type(store).similarity_search_with_score is VectorStore.similarity_search_with_score:
                raise StoreError(
                    f"{recipe.name} has no similarity_search_with_score, so its documents have no "
                    "scores; ingest them into a knowledge base of Lorebind instead"
                )
            self._store = store
            return store
