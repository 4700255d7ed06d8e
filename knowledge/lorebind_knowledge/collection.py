"""A collection: documents that are added by hand, as LangChain's `VectorStore`.

`stores/langchain` and `embedders/langchain` do the reverse. Ingests do not touch a collection.
"""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore as LangChainVectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lorebind_config.errors import IndexMismatchError, UsageError, did_you_mean
from lorebind_config.namespace import PROJECT_SCOPE, Namespace, current_tenant, tenant
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.embedders.base import embed_documents, embed_query
from lorebind_knowledge.embedders.langchain import LangChainEmbedder
from lorebind_knowledge.index.index import Index, NoIndexError
from lorebind_knowledge.plumbing.bridge import call, run, sync
from lorebind_knowledge.records import Record
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.text.languages import detect_language

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.records import Vector

T = TypeVar("T")

_sync: Callable[..., Any] = sync
"""Without its types, which mypy would infer from the methods of LangChain's class."""


class LorebindVectorStore(LangChainVectorStore):
    """The documents of one namespace, for any code that takes a LangChain `VectorStore`.

    A document is one chunk. Adding a document with an existing id replaces it; concurrent searches
    find either the old or the new one. `filter` is a metadata filter of Lorebind, see
    `lorebind_config.filters`. Scores are the cosine, clipped to [0, 1], higher is better, and
    relevance scores are the same.
    """

    def __init__(
        self, index: Index, embedder: Embedder, namespace: Namespace | Callable[[], Namespace]
    ) -> None:
        """
        Args:
            index: the index that stores the documents.
            embedder: makes the vectors; a namespace must always use the same embedder.
            namespace: the owner of the documents, or a function that returns it at each use. Do not
                use the namespace of a knowledge base: it belongs to its ingests, which do not know
                documents added here.
        """
        self._index, self._made_by, self._owner = index, embedder, namespace

    @property
    def _embedder(self) -> Embedder:
        return self._made_by

    @property
    def _namespace(self) -> Namespace:
        return self._owner() if callable(self._owner) else self._owner

    @classmethod
    def from_texts(  # type: ignore[override]  # LangChain's own classes name their arguments too
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        index: Index | None = None,
        namespace: Namespace | None = None,
    ) -> Self:
        """Create a store with these texts, in memory unless an `index` is given.

        Args:
            texts: the texts of the documents.
            embedding: a LangChain `Embeddings` object, which makes the vectors.
            metadatas: one per text, with JSON values.
            ids: one per text; a missing id becomes a UUID.
            index: the index that stores the documents.
            namespace: the owner of the documents; by default `documents` of the current tenant.

        Raises:
            UsageError: the numbers of texts, metadatas and ids differ.
            EmbedderError, StoreError: an outage, or a document cannot be stored.
        """
        store = cls(
            Index(MemoryStore(), Catalog()) if index is None else index,
            LangChainEmbedder(embedding),
            namespace or Namespace(current_tenant(), "langchain", PROJECT_SCOPE, "documents"),
        )
        store.add_texts(texts, metadatas, ids=ids)
        return store

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
        """Add documents, all of them or none, and return their ids; a missing id becomes a UUID.

        Args:
            texts: the texts of the documents.
            metadatas: one per text, with JSON values.
            ids: one per text. If two are equal, the last document is stored.
            kwargs: only `batch_size`, which LangChain's `index` passes. It has no effect, because
                the embedder has its own batch size.

        Raises:
            UsageError: the numbers of texts, metadatas and ids differ, or an argument is unknown.
            EmbedderError, StoreError: an outage, or a document cannot be stored; none was added.
        """
        _refuse(kwargs, accepted=("ids", "metadatas", "batch_size"))
        written = list(texts)
        about: Sequence[Mapping[str, Any]] = metadatas or [{}] * len(written)
        chosen: Sequence[str | None] = ids or [None] * len(written)
        if not len(written) == len(about) == len(chosen):
            raise UsageError(
                f"{len(written)} texts, {len(about)} metadatas and {len(chosen)} ids were given; "
                "expected the same number of each"
            )
        names = [name or str(uuid.uuid4()) for name in chosen]
        self._check_writable()
        if not written:
            return names
        with tenant(self._namespace.tenant):  # for an embedder of the project's code
            vectors = await self.embeddings.aembed_documents(written)
        async with _turn(self._index, self._embedder, self._namespace) as (lease, entry):
            generations = await call(self._index.next_generations, entry, names)
            records = [
                Record(
                    name,
                    entry.key,
                    name,
                    generations[name],
                    text,
                    np.array(vector, np.float32),
                    dict(meta),
                    language=detect_language(text),
                )
                for name, text, vector, meta in zip(names, written, vectors, about, strict=True)
            ]
            await call(self._index.stage, lease, entry, records)
            await call(self._index.publish, lease, entry, generations)
            await call(self._index.sweep, lease, entry, abandon=True)
        return names

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents by their ids; unknown ids are ignored, and None deletes all."""
        _refuse(kwargs, accepted=("ids",))
        self._check_writable()
        async with _turn(self._index, self._embedder, self._namespace) as (lease, entry):
            uris = await call(self._index.uris, entry) if ids is None else list(dict.fromkeys(ids))
            await call(self._index.remove, lease, entry, uris)
            await call(self._index.sweep, lease, entry, abandon=True)
        return True

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in the order of the ids, without missing ones."""
        nothing: dict[str, StoredChunk] = {}
        chunks = await self._read(lambda view: view.named(ids), nothing)
        return [_document(chunks[name]) for name in dict.fromkeys(ids) if name in chunks]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the `k` documents nearest to a question with their scores, best first.

        Args:
            query: the question.
            k: maximum number of documents.
            kwargs: only `filter`.

        Raises:
            UsageError: the filter is malformed, `k` is less than 1, or an argument is unknown.
            EmbedderError, StoreError: an outage; it never gives an empty result.
        """
        where = _filter(kwargs)
        pairs = await self._nearest(await self._embedded(query), k, where)
        return [(_document(chunk), score_of(cosine)) for chunk, cosine in pairs]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        pairs = await self.asimilarity_search_with_score(query, k, **kwargs)
        return [document for document, _ in pairs]

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        vector = np.array(embedding, np.float32)
        pairs = await self._nearest(vector, k, _filter(kwargs))
        return [_document(chunk) for chunk, _ in pairs]

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Return `k` dissimilar documents out of the `fetch_k` nearest, selected by LangChain."""
        vector = np.array(embedding, np.float32)
        where = _filter(kwargs)

        def choose(view: View) -> list[StoredChunk]:
            numbers = view.nearest(vector, max(k, fetch_k), where).numbers.tolist()
            if not numbers:
                return []
            like = [vector.tolist() for vector in view.vectors(numbers)]
            chosen = maximal_marginal_relevance(vector, like, lambda_mult, k)
            chunks = view.chunks([numbers[at] for at in chosen])
            return [chunks[numbers[at]] for at in chosen]

        nothing: list[StoredChunk] = []
        return [_document(chunk) for chunk in await self._read(choose, nothing)]

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        vector = (await self._embedded(query)).tolist()
        return await self.amax_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **kwargs
        )

    add_texts = _sync(aadd_texts)
    delete = _sync(adelete)
    get_by_ids = _sync(aget_by_ids)
    similarity_search = _sync(asimilarity_search)
    similarity_search_with_score = _sync(asimilarity_search_with_score)
    similarity_search_by_vector = _sync(asimilarity_search_by_vector)
    max_marginal_relevance_search = _sync(amax_marginal_relevance_search)
    max_marginal_relevance_search_by_vector = _sync(amax_marginal_relevance_search_by_vector)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return float  # our scores are what LangChain calls relevance scores

    async def _embedded(self, query: str) -> Vector:
        with tenant(self._namespace.tenant):  # for an embedder of the project's code
            return await embed_query(self._embedder, query)

    async def _nearest(
        self, vector: Vector, k: int, where: Mapping[str, Any]
    ) -> list[tuple[StoredChunk, float]]:
        """Return documents with their cosines, best first."""
        if k < 1:
            raise UsageError(f"top_k must be at least 1, not {k}")

        def find(view: View) -> list[tuple[StoredChunk, float]]:
            hits = view.nearest(vector, k, where)
            chunks = view.chunks(hits.numbers.tolist())
            pairs = zip(hits.numbers.tolist(), hits.scores.tolist(), strict=True)
            return [(chunks[number], figure) for number, figure in pairs]

        return await self._read(find, [])

    async def _read(self, ask: Callable[[View], T], nothing: T) -> T:
        """Return the result of `ask` for a view of the index, or `nothing` without an index."""

        def checked(view: View) -> T:
            self._check(view.index)
            return ask(view)

        try:
            catalog = self._index.catalog
            with catalog.threads.lane("wait" if catalog.is_remote else "search"):
                return await call(self._index.read, self._namespace, checked)
        except NoIndexError:
            return self._without_index(nothing)

    def _without_index(self, nothing: T) -> T:
        return nothing

    def _check(self, entry: IndexEntry) -> None:
        _check_embedder(entry, self._embedder)

    def _check_writable(self) -> None:
        """Raise if documents cannot be added or deleted."""


class LorebindEmbeddings(Embeddings):
    """LangChain `Embeddings` that call a Lorebind embedder, `batch_size` texts at a time.

    Raises:
        EmbedderError: the embedder failed, or did not return one finite vector per text.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._embedder.batch_size):
            batch = texts[start : start + self._embedder.batch_size]
            vectors += (await embed_documents(self._embedder, batch)).tolist()
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        numbers: list[float] = (await embed_query(self._embedder, text)).tolist()
        return numbers

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return run(self.aembed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        return run(self.aembed_query(text))


@asynccontextmanager
async def _turn(
    index: Index, embedder: Embedder, namespace: Namespace
) -> AsyncIterator[tuple[Lease, IndexEntry]]:
    """Hold the lease to write a collection; create its index if there is none.

    Raises:
        IndexMismatchError: the collection was created with another embedder.
        EmbedderError, StoreError: an outage.
    """
    async with index.catalog.hold_lease(namespace, wait=True) as lease:
        entry = await call(index.catalog.ledger.index, namespace, "active")
        if entry is None:
            manifest = await _manifest(embedder)
            entry = await call(index.catalog.ledger.create_index, lease, manifest)
            await call(index.catalog.ledger.activate_index, lease, entry.key)
        _check_embedder(entry, embedder)
        yield lease, entry


def _check_embedder(entry: IndexEntry, embedder: Embedder) -> None:
    """Check that a collection is used with the embedder that it was created with.

    Raises:
        IndexMismatchError: the embedder is another one.
    """
    if embedder.fingerprint.key != entry.manifest.embedder_key:
        raise IndexMismatchError(
            f"collection {entry.key.namespace.kb!r} was created with the embedder "
            f"{entry.manifest.embedder}, but it is used with {embedder.fingerprint}; use the first "
            "one, or another collection"
        )


async def _manifest(embedder: Embedder) -> Manifest:
    fingerprint = embedder.fingerprint
    dimension = fingerprint.dimension or len(await embed_query(embedder, "dimension"))
    return Manifest(str(fingerprint), fingerprint.key, dimension, "")


def _document(chunk: StoredChunk) -> Document:
    return Document(id=chunk.id, page_content=chunk.text, metadata=chunk.metadata)


def _filter(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the filter from the further arguments of a search."""
    _refuse(arguments, accepted=("filter", "k"))
    where: Mapping[str, Any] | None = arguments.get("filter")
    return {} if where is None else where


def _refuse(arguments: Mapping[str, Any], accepted: Sequence[str]) -> None:
    """Raise for unknown arguments: a misspelled `filter` must not be ignored."""
    for name in arguments:
        if name not in accepted:
            raise UsageError(f"unknown argument {name!r}; {did_you_mean(name, accepted)}")
