"""Other libraries that find the nearest vectors, given the same vectors; and the vectors.

`numpy` is the minimum of an exact search: one product, `argpartition`, and sorting the ten best. It
returns positions only, as FAISS does. Chroma and LangChain's store also return texts and metadata,
as Lorebind does. Each is set up as in its documentation, in memory. A library that is not installed
is skipped with a message; all of them come with the extra `bench`.

The vectors lie in clusters, as those of real texts do, so a search has close rivals, and an
approximate index can use their structure.
"""

from __future__ import annotations

import importlib.util
import uuid
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    Search: TypeAlias = Callable[[Vector], Sequence[str]]
    """Maps the vector of a question to the texts of the nearest passages, best first."""

DIMENSION = 384
TOP_K = 10
CLUSTERS = 500
_SPREAD = 0.8
"""The length of a vector's individual part, where its center has length 1."""


def _unit(rows: int, seed: int) -> Vector:
    drawn = np.random.default_rng(seed).standard_normal((rows, DIMENSION), np.float32)
    lengths: Vector = np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn / lengths


_CENTRES, _OWN = _unit(CLUSTERS, 1), _unit(4099, 2)


class Clustered(Embeddings):
    """Derives a text's vector from its last line, so that a title before it changes nothing."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = vectors_of(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector without a thread, which a lookup does not need."""
        return self.embed_query(text)


def vectors_of(texts: Sequence[str]) -> Vector:
    """Return unit vectors, shape (texts, DIMENSION)."""
    numbers = np.array([zlib.crc32(text.rpartition("\n")[2].encode()) for text in texts], np.int64)
    mixed = _CENTRES[numbers % CLUSTERS] + _SPREAD * _OWN[numbers % len(_OWN)]
    lengths: Vector = np.linalg.norm(mixed, axis=1, keepdims=True)
    return mixed / lengths


def bare(matrix: Vector, vector: Vector) -> NDArray[np.intp]:
    """Return the positions of the nearest rows, best first."""
    cosines = matrix @ vector
    best = np.argpartition(cosines, -TOP_K)[-TOP_K:]
    return best[np.argsort(-cosines[best])]


def numpy_product(texts: Sequence[str], matrix: Vector) -> Search:
    return lambda vector: [texts[at] for at in bare(matrix, vector)]


def faiss_flat(texts: Sequence[str], matrix: Vector) -> Search:
    """Search with `IndexFlatIP`, which is exact."""
    import faiss

    index = faiss.IndexFlatIP(DIMENSION)
    index.add(matrix)
    return lambda vector: [texts[at] for at in index.search(vector[None], TOP_K)[1][0]]


def chroma(texts: Sequence[str], matrix: Vector) -> Search:
    """Search a collection in memory with cosine distance, whose index is approximate (HNSW)."""
    import chromadb
    from chromadb.config import Settings

    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    collection = client.create_collection(
        uuid.uuid4().hex, metadata={"hnsw:space": "cosine"}, embedding_function=None
    )
    for start in range(0, len(texts), 5000):
        part = slice(start, start + 5000)
        collection.add(
            ids=[str(number) for number in range(len(texts))[part]],
            embeddings=matrix[part],
            documents=list(texts[part]),
            metadatas=[{"number": number} for number in range(len(texts))[part]],
        )

    def search(vector: Vector) -> Sequence[str]:
        result: Any = collection.query(query_embeddings=[vector], n_results=TOP_K)
        documents: list[str] = result["documents"][0]
        return documents

    return search


def langchain_memory(texts: Sequence[str], matrix: Vector) -> Search:
    """Search `InMemoryVectorStore` by vector."""
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(Clustered())
    store.add_texts(list(texts), [{"number": number} for number in range(len(texts))])
    return lambda vector: [
        document.page_content
        for document in store.similarity_search_by_vector(vector.tolist(), k=TOP_K)
    ]


NUMPY = "NumPy product"
LANGCHAIN = "LangChain InMemoryVectorStore"
OTHERS: Mapping[str, tuple[str, Callable[[Sequence[str], Vector], Search]]] = {
    NUMPY: ("numpy", numpy_product),
    "FAISS IndexFlatIP": ("faiss", faiss_flat),
    "Chroma": ("chromadb", chroma),
    LANGCHAIN: ("langchain_core", langchain_memory),
}
"""By name: the required module, and a function that makes a search of texts and their vectors."""


def installed() -> dict[str, Callable[[Sequence[str], Vector], Search]]:
    """Return the installed libraries, and print the names of the others."""
    there = {}
    for name, (module, make) in OTHERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name}: not installed, skipped (pip install lorebind[bench])")
        else:
            there[name] = make
    return there
