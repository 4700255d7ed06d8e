"""Wrapped LangChain classes pass the conformance kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.testing import VectorStoreConformance

from .reopened import Reopened


class TestInMemory(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[LangChainStore]:
        store = LangChainStore(Recipe("InMemoryVectorStore", InMemoryVectorStore), exact=True)
        yield store
        store.close()


def qdrant_store(embedding: Embeddings, client: QdrantClient) -> VectorStore:
    """Make a store with a collection per dimension, ordered by distance instead of cosine."""
    dimension = len(embedding.embed_query("probe"))
    name = f"documents-{dimension}"
    if not client.collection_exists(name):
        parameters = models.VectorParams(size=dimension, distance=models.Distance.EUCLID)
        client.create_collection(name, vectors_config=parameters)
    return QdrantVectorStore(client, name, embedding=embedding, distance=models.Distance.EUCLID)


class TestQdrantVectorStore(Reopened):
    """The wrapped class outlives the store."""

    @pytest.fixture
    def client(self) -> Iterator[QdrantClient]:
        client = QdrantClient(":memory:", force_disable_check_same_thread=True)
        yield client
        client.close()

    @pytest.fixture
    def reopen(self, client: QdrantClient) -> Callable[[], LangChainStore]:
        recipe = Recipe("QdrantVectorStore", qdrant_store, {"client": client})
        return lambda: LangChainStore(recipe)
