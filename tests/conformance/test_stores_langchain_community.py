"""Wrapped FAISS and Chroma pass the conformance kit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.testing import VectorStoreConformance

from .journey import build, travel
from .reopened import Reopened


def faiss_store(embedding: Embeddings) -> VectorStore:
    """Make a FAISS store in memory: the class has no constructor that creates an index."""
    import faiss

    with warnings.catch_warnings():
        # Every import warns that the package is no longer maintained.
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_community.vectorstores.faiss import FAISS, InMemoryDocstore
    index = faiss.IndexFlatL2(len(embedding.embed_query("probe")))
    store: VectorStore = FAISS(embedding, index, InMemoryDocstore(), {})
    return store


class TestFaiss(VectorStoreConformance):
    """FAISS compares all vectors, refuses to add existing ids and to delete missing ones."""

    @pytest.fixture
    def store(self) -> Iterator[LangChainStore]:
        store = LangChainStore(Recipe("FAISS", faiss_store), exact=True)
        yield store
        store.close()


def test_end_to_end(tmp_path: Path) -> None:
    """A project whose factory makes a FAISS store ingests and searches."""
    declared = {"type": "langchain", "factory": f"{__name__}:faiss_store", "persistent": False}
    with build(tmp_path, declared) as project:
        travel(project, tmp_path)


def chroma_store(embedding_function: Embeddings, folder: str) -> VectorStore:
    """Make a Chroma store with a collection per dimension."""
    dimension = len(embedding_function.embed_query("probe"))
    return Chroma(f"documents-{dimension}", embedding_function, persist_directory=folder)


class TestChroma(Reopened):
    """Chroma is approximate, and its vectors are in a folder."""

    many = 300

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], LangChainStore]:
        recipe = Recipe("Chroma", chroma_store, {"folder": str(tmp_path / "chroma")})
        return lambda: LangChainStore(recipe)
