"""How other libraries keep an index up to date, given the same chunks and embedder.

Each is set up as in its documentation, with all it needs to detect changes, and in memory where
possible. A library that is not installed is skipped with a message; all of them come with the extra
`bench`.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from langchain_core.embeddings import Embeddings

DIMENSION = 64
_VECTORS: list[list[float]] = (
    np.random.default_rng(1).standard_normal((4096, DIMENSION)).astype(float).tolist()
)


class Passage(NamedTuple):
    """A chunk as other libraries get it."""

    uri: str
    text: str


class Peer(NamedTuple):
    """Another library, set up and empty."""

    ingest: Callable[[list[Passage]], Any]
    held: Callable[[], int]
    """Returns the number of passages in its store."""


class Cheap(Embeddings):
    """Returns a vector made in advance, so that only the other work is measured."""

    texts: ClassVar[list[str]] = []
    """All texts that were embedded."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts.extend(texts)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return _VECTORS[zlib.crc32(text.encode()) % len(_VECTORS)]


def langchain_index(scratch: Path) -> Peer:
    """Set up `index()` with a record manager in SQLite and the in-memory store."""
    from langchain_classic.indexes import SQLRecordManager
    from langchain_core.documents import Document
    from langchain_core.indexing import index
    from langchain_core.vectorstores import InMemoryVectorStore

    records = SQLRecordManager("bench", db_url=f"sqlite:///{scratch / 'records.db'}")
    records.create_schema()
    store = InMemoryVectorStore(Cheap())

    def ingest(passages: list[Passage]) -> object:
        documents = [
            Document(passage.text, metadata={"source": passage.uri}) for passage in passages
        ]
        return index(
            documents,
            records,
            store,
            cleanup="full",
            source_id_key="source",
            key_encoder="sha256",
            batch_size=1000,
        )

    return Peer(ingest, lambda: len(store.store))


def llama_pipeline(scratch: Path) -> Peer:
    """Set up `IngestionPipeline` with its document store, cache and the simple vector store."""
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.node_parser.node_utils import build_nodes_from_splits
    from llama_index.core.schema import Document, TransformComponent
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.core.vector_stores import SimpleVectorStore

    class Adapter(BaseEmbedding):  # type: ignore[misc]  # it is not installed where types are checked
        def _get_text_embedding(self, text: str) -> list[float]:
            return Cheap().embed_documents([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return Cheap().embed_documents(texts)

        def _get_query_embedding(self, query: str) -> list[float]:
            return Cheap().embed_query(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return Cheap().embed_query(query)

    class Cut(TransformComponent):  # type: ignore[misc]  # as above
        def __call__(self, nodes: Any, **kwargs: Any) -> Any:
            """Split nodes, which keep the source document that deletions need."""
            cut = (build_nodes_from_splits(node.text.split("\n\n"), node) for node in nodes)
            return [node for some in cut for node in some]

    store = SimpleVectorStore()
    pipeline = IngestionPipeline(
        transformations=[Cut(), Adapter(embed_batch_size=1000)],
        docstore=SimpleDocumentStore(),
        vector_store=store,
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )

    def ingest(passages: list[Passage]) -> object:
        files: dict[str, list[str]] = {}
        for passage in passages:
            files.setdefault(passage.uri, []).append(passage.text)
        return pipeline.run(
            documents=[Document(id_=uri, text="\n\n".join(texts)) for uri, texts in files.items()]
        )

    return Peer(ingest, lambda: len(store.data.embedding_dict))


def haystack_writer(scratch: Path) -> Peer:
    """Set up a pipeline of an embedder and a `DocumentWriter` that overwrites."""
    from haystack import Document, Pipeline, component
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.document_stores.types import DuplicatePolicy

    @component
    class Adapter:
        @component.output_types(documents=list[Document])
        def run(self, documents: list[Document]) -> dict[str, list[Document]]:
            vectors = Cheap().embed_documents([document.content or "" for document in documents])
            pairs = zip(documents, vectors, strict=True)
            return {"documents": [replace(doc, embedding=vector) for doc, vector in pairs]}

    store, pipeline = InMemoryDocumentStore(), Pipeline()
    pipeline.add_component("embedder", Adapter())
    writer = DocumentWriter(store, policy=DuplicatePolicy.OVERWRITE)
    pipeline.add_component("writer", writer)
    pipeline.connect("embedder", "writer")

    def ingest(passages: list[Passage]) -> object:
        documents = [
            Document(id=f"{passage.uri}#{place}", content=passage.text)
            for passage, place in placed(passages)
        ]
        return pipeline.run({"embedder": {"documents": documents}})

    return Peer(ingest, store.count_documents)


def placed(passages: list[Passage]) -> Iterator[tuple[Passage, int]]:
    """Yield each passage with its position in its document, for libraries that need ids."""
    last, place = "", 0
    for passage in passages:
        place = place + 1 if passage.uri == last else 0
        last = passage.uri
        yield passage, place


PEERS: Mapping[str, tuple[str, Callable[[Path], Peer]]] = {
    "LangChain index()": ("langchain_classic", langchain_index),
    "LlamaIndex IngestionPipeline": ("llama_index", llama_pipeline),
    "Haystack DocumentWriter": ("haystack", haystack_writer),
}
"""By name: the required module, and a function that sets up the library."""


def installed() -> dict[str, Callable[[Path], Peer]]:
    """Return the installed libraries, and print the names of the others."""
    there = {}
    for name, (module, make) in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name}: not installed, skipped (pip install lorebind[bench])")
        else:
            there[name] = make
    return there
