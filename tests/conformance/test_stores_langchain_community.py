"""A class of langchain-community, wrapped, passes the conformance kit where it is installed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.langchain.wrapped import Recipe
from lorebind_knowledge.testing import FetchStoreConformance, VectorStoreConformance
from tests.conformance.journey import build, travel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

with warnings.catch_warnings():
    # It says that it is no longer maintained, whenever it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    faiss = pytest.importorskip("faiss")
    community = pytest.importorskip("langchain_community.vectorstores.faiss")


def faiss_store(embedding: Embeddings) -> VectorStore:
    """Kept in memory; the class has no constructor that makes an index by itself."""
    index = faiss.IndexFlatL2(len(embedding.embed_query("probe")))
    store: VectorStore = community.FAISS(embedding, index, community.InMemoryDocstore(), {})
    return store


class OnFaiss:
    @pytest.fixture
    def store(self) -> Iterator[LangChainStore]:
        store = LangChainStore(Recipe("FAISS", faiss_store, {}), None)
        yield store
        store.close()


class TestFaiss(OnFaiss, VectorStoreConformance):
    pass


class TestFaissFetch(OnFaiss, FetchStoreConformance):
    pass


def test_end_to_end(tmp_path: Path) -> None:
    """A project that names a function which makes one does the whole way."""
    declared = {"type": "langchain", "class": f"{__name__}:faiss_store", "persistent": False}
    with build(tmp_path, declared) as project:
        travel(project, tmp_path)
