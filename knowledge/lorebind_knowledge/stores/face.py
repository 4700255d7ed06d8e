"""A store of ours as LangChain's `VectorStore`: the other direction is `langchain/`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore as LangChainVectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lorebind_knowledge.bridge import call, run
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.langchain import LangChainEmbedder
from lorebind_knowledge.embedders.langchain_embeddings import LorebindEmbeddings
from lorebind_knowledge.errors import UsageError, did_you_mean
from lorebind_knowledge.namespace import PROJECT_SCOPE, IndexKey, Namespace, current_tenant
from lorebind_knowledge.records import Record, RecordFilter, SearchOptions
from lorebind_knowledge.stores.base import FetchStore, replace_documents
from lorebind_knowledge.stores.collection import claim
from lorebind_knowledge.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.records import DocumentMatch, StoredRecord, Vector
    from lorebind_knowledge.stores.base import VectorStore

T = TypeVar("T")

_GENERATION = 1
"""Documents that are added by hand have no versions: what is written again takes the place."""


class LorebindVectorStore(LangChainVectorStore):
    """The documents of one namespace of a store, for any code that takes a `VectorStore`.

    A document is one record; adding one with an id that is there replaces it, and whoever searches
    meanwhile finds the old or the new one. `filter` is a metadata filter of ours, see
    `lorebind_knowledge.filters`. Scores are the cosine, clipped to [0, 1], higher is better, and
    relevance scores are the same. Room in the store is made at the first call, whichever it is.
    """

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder,
        namespace: Namespace,
        catalog: Catalog | None = None,
    ) -> None:
        """
        Args:
            store: where documents are kept.
            embedder: makes the vectors; all of a namespace must be of one embedder.
            namespace: whose documents they are. That of a knowledge base belongs to its ingests,
                which know nothing of what was added by hand: choose another.
            catalog: remembers the embedder, so that another one is refused; None trusts the caller.
        """
        self._store, self._embedder, self._catalog = store, embedder, catalog
        self._namespace = namespace
        self._index: IndexKey | None = None

    @classmethod
    def from_texts(  # type: ignore[override]  # LangChain's own classes name their arguments too
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        store: VectorStore | None = None,
        namespace: Namespace | None = None,
    ) -> Self:
        """Made of a live `Embeddings`, in memory unless a `store` is given, with these texts."""
        made = cls(
            MemoryStore() if store is None else store,
            LangChainEmbedder(embedding),
            namespace or Namespace(current_tenant(), "langchain", PROJECT_SCOPE, "documents"),
        )
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @property
    def embeddings(self) -> Embeddings:
        return LorebindEmbeddings(self._embedder)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add documents, all of them or none, and return their ids; one without gets a UUID.

        Args:
            texts: what they say.
            metadatas: one for each text: what JSON can hold.
            ids: one for each text. Of two that are equal the last one stays.
            kwargs: `batch_size`, which LangChain's `index` hands over, and nothing else; the
                embedder has one of its own.

        Raises:
            UsageError: the numbers of texts, metadatas and ids differ.
            EmbedderError, StoreError: an outage, or what cannot be stored; nothing was added.
        """
        _refuse(kwargs, known=("ids", "metadatas", "batch_size"))
        written = list(texts)
        about: Sequence[Mapping[str, Any]] = metadatas or [{}] * len(written)
        wanted: Sequence[str | None] = ids or [None] * len(written)
        if not len(written) == len(about) == len(wanted):
            raise UsageError(
                f"{len(written)} texts, {len(about)} metadatas and {len(wanted)} ids were given; "
                "expected as many of each"
            )
        index = await self._to_write()
        names = [name or str(uuid.uuid4()) for name in wanted]
        if not written:
            return names
        vectors = await self.embeddings.aembed_documents(written)
        records = [
            Record(name, index, name, _GENERATION, text, np.array(vector, np.float32), dict(meta))
            for name, text, vector, meta in zip(names, written, vectors, about, strict=True)
        ]
        await call(self._store.upsert, records)
        await replace_documents(self._store, index, dict.fromkeys(names, _GENERATION))
        return names

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents by their ids, those that are there; None deletes all."""
        _refuse(kwargs, known=("ids",))
        index = await self._to_write()
        if ids is None:
            await call(self._store.delete_by_filter, RecordFilter(index))
        for name in dict.fromkeys(ids or ()):
            await call(self._store.delete_by_filter, RecordFilter(index, uri=name))
        return True

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids, in their order; those that are not there are left out.

        Raises:
            UsageError: the store does not give records back.
        """
        found = await self._stored(list(dict.fromkeys(ids)))
        return [
            Document(id=name, page_content=record.text, metadata=dict(record.metadata))
            for name in dict.fromkeys(ids)
            if (record := found.get(name)) is not None
        ]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The `k` documents nearest to a question with their scores, best first.

        Args:
            query: the question.
            k: the most documents.
            kwargs: `filter`, and nothing else.

        Raises:
            UsageError: the filter is malformed, `k` is less than 1, or an argument is unknown.
            EmbedderError, StoreError: an outage; it is never an empty answer.
        """
        where = _filter(kwargs)
        found = await self._nearest(await embed_query(self._embedder, query), k, where)
        return [(_document(match), match.score) for match in found]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        found = await self.asimilarity_search_with_score(query, k, **kwargs)
        return [document for document, _ in found]

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        vector = np.array(embedding, np.float32)
        return [_document(match) for match in await self._nearest(vector, k, _filter(kwargs))]

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Of the `fetch_k` nearest, `k` that are unlike each other, as LangChain chooses them."""
        vector = np.array(embedding, np.float32)
        found = await self._nearest(vector, max(k, fetch_k), _filter(kwargs))
        stored = await self._stored([match.id for match in found]) if found else {}
        found = [match for match in found if match.id in stored]
        if not found:
            return []
        vectors = [stored[match.id].vector.tolist() for match in found]
        chosen = maximal_marginal_relevance(vector, vectors, lambda_mult, k)
        return [_document(found[at]) for at in chosen]

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        vector = (await embed_query(self._embedder, query)).tolist()
        return await self.amax_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **kwargs
        )

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        return run(self.aadd_texts(texts, metadatas, ids=ids, **kwargs))

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        return run(self.adelete(ids, **kwargs))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return run(self.aget_by_ids(ids))

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return run(self.asimilarity_search(query, k, **kwargs))

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return run(self.asimilarity_search_with_score(query, k, **kwargs))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        return run(self.asimilarity_search_by_vector(embedding, k, **kwargs))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        return run(self.amax_marginal_relevance_search(query, k, fetch_k, lambda_mult, **kwargs))

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        found = self.amax_marginal_relevance_search_by_vector
        return run(found(embedding, k, fetch_k, lambda_mult, **kwargs))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return float  # scores are what LangChain calls relevance already

    async def _nearest(
        self, vector: Vector, k: int, where: Mapping[str, Any]
    ) -> list[DocumentMatch]:
        return await self._asked(
            lambda index: call(
                self._store.similarity_search,
                vector,
                SearchOptions(index, k, where=where),
            )
        )

    async def _stored(self, ids: list[str]) -> dict[str, StoredRecord]:
        store = self._store
        if not isinstance(store, FetchStore):
            raise UsageError(
                f"{type(store).__name__} does not give documents back by their ids, which "
                "get_by_ids and max_marginal_relevance_search need; use similarity_search"
            )
        return await self._asked(lambda index: call(store.fetch, index, ids))

    async def _asked(self, ask: Callable[[IndexKey], Awaitable[T]]) -> T:
        """What the store answers about the index that is read."""
        return await ask(await self._opened())

    async def _to_write(self) -> IndexKey:
        """The index that may be written."""
        return await self._opened()

    async def _opened(self) -> IndexKey:
        if self._index is None:
            self._index = await claim(self._store, self._embedder, self._namespace, self._catalog)
        return self._index


def _document(match: DocumentMatch) -> Document:
    return Document(id=match.id, page_content=match.text, metadata=dict(match.metadata))


def _filter(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The filter among the further arguments of a search."""
    _refuse(arguments, known=("filter", "k"))
    where: Mapping[str, Any] | None = arguments.get("filter")
    return {} if where is None else where


def _refuse(arguments: Mapping[str, Any], known: Sequence[str]) -> None:
    """A misspelt `filter` would otherwise be no filter."""
    for name in arguments:
        if name not in known:
            raise UsageError(f"unknown argument {name!r}; {did_you_mean(name, known)}")
