"""Every store, used through LangChain's `VectorStore`, passes LangChain's own suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from lorebind_config.errors import StoreError, UsageError
from lorebind_config.namespace import PROJECT_SCOPE, Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.collection import LorebindVectorStore
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.embedders.langchain import LangChainEmbedder
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.stores.base import VectorStore
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.qdrant.store import QdrantStore

NAMESPACE = Namespace("default", "test", PROJECT_SCOPE, "docs")
STORES = ["memory", "sqlite", "pgvector", "qdrant", "langchain"]


class Standard(VectorStoreIntegrationTests):
    """The suite, on the store of the inheriting class."""

    @pytest.fixture
    def vectorstore(self, store: VectorStore) -> LorebindVectorStore:
        embedder = LangChainEmbedder(self.get_embeddings())
        return LorebindVectorStore(Index(store, Catalog()), embedder, NAMESPACE)


class TestMemory(Standard):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqlite(Standard):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store.db")
        yield store
        store.close()


class TestPgvector(Standard):
    @pytest.fixture
    def store(self, dsn: str) -> Iterator[PgvectorStore]:
        store = PgvectorStore(dsn)
        yield store
        store.close()


class TestQdrant(Standard):
    @pytest.fixture
    def store(self) -> Iterator[QdrantStore]:
        store = QdrantStore("docs")
        yield store
        store.close()


class TestLangChain(Standard):
    """A LangChain class as a store of Lorebind, used as a LangChain class again."""

    @pytest.fixture
    def store(self) -> Iterator[LangChainStore]:
        store = LangChainStore(Recipe("InMemoryVectorStore", InMemoryVectorStore), exact=True)
        yield store
        store.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Return each store, empty."""
    match request.param:
        case "memory":
            store: Any = MemoryStore()
        case "sqlite":
            store = SqliteStore(tmp_path / "store.db")
        case "pgvector":
            store = PgvectorStore(request.getfixturevalue("dsn"))
        case "qdrant":
            store = QdrantStore("docs")
        case _:
            store = LangChainStore(Recipe("InMemoryVectorStore", InMemoryVectorStore), exact=True)
    yield store
    store.close()


@pytest.fixture
def face(store: VectorStore) -> LorebindVectorStore:
    return LorebindVectorStore(Index(store, Catalog()), HashingEmbedder(dimension=64), NAMESPACE)


TEXTS = ["rotate the keys", "rotate the keys daily", "snow on the chalets", "thirty days of leave"]
METADATAS: list[dict[str, Any]] = [
    {"team": "ops", "year": 2024, "tags": ["a", "b"]},
    {"team": "ops", "year": 2025, "tags": []},
    {"team": "travel", "year": 2024},
    {"team": "people", "year": 2020, "tags": ["b"]},
]
IDS = ["keys", "daily", "snow", "leave"]


def test_filters_are_ours(face: LorebindVectorStore) -> None:
    """A filter means the same on every store, in every kind of search."""
    face.add_texts(TEXTS, METADATAS, ids=IDS)
    where = {"tags": "b", "year": {"$lt": 2024}}
    vector = face.embeddings.embed_query("rotate the keys")
    assert [hit.id for hit in face.similarity_search("keys", filter=where)] == ["leave"]
    assert [hit.id for hit, _ in face.similarity_search_with_score("keys", filter=where)] == [
        "leave"
    ]
    assert [hit.id for hit in face.similarity_search_by_vector(vector, filter=where)] == ["leave"]
    documents = face.max_marginal_relevance_search("keys", filter={"team": ["ops", "people"]})
    assert {document.id for document in documents} == {"keys", "daily", "leave"}
    retriever = face.as_retriever(search_kwargs={"k": 3, "filter": {"team": "travel"}})
    assert [document.id for document in retriever.invoke("keys")] == ["snow"]
    with pytest.raises(UsageError, match=r"\$near"):
        face.similarity_search("keys", filter={"year": {"$near": 1}})


def test_scores(face: LorebindVectorStore) -> None:
    """Scores are in [0, 1], that of the same text is 1, and relevance scores are equal to them."""
    face.add_texts(TEXTS, METADATAS, ids=IDS)
    scored = face.similarity_search_with_score("rotate the keys")
    figures = [figure for _, figure in scored]
    assert scored[0] == (
        Document(id="keys", page_content=TEXTS[0], metadata=METADATAS[0]),
        pytest.approx(1, abs=1e-5),
    )
    assert figures == sorted(figures, reverse=True)
    assert all(0 <= figure <= 1 for figure in figures)
    assert face.similarity_search_with_relevance_scores("rotate the keys") == scored
    over = face.similarity_search_with_relevance_scores("rotate the keys", score_threshold=0.5)
    assert over == [(document, figure) for document, figure in scored if figure >= 0.5]
    threshold = face.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.99}
    )
    assert [document.id for document in threshold.invoke("rotate the keys")] == ["keys"]


def test_maximal_marginal_relevance(face: LorebindVectorStore) -> None:
    """Relevance alone gives duplicates, diversity does not; a retriever can use either."""
    face.add_texts(TEXTS, METADATAS, ids=IDS)
    alike = face.max_marginal_relevance_search("rotate the keys", k=2, lambda_mult=1)
    assert [document.id for document in alike] == ["keys", "daily"]
    unlike = face.max_marginal_relevance_search("rotate the keys", k=2, lambda_mult=0)
    assert unlike[0].id == "keys"
    assert unlike[1].id in ("snow", "leave")
    retriever = face.as_retriever(
        search_type="mmr", search_kwargs={"k": 2, "fetch_k": 4, "lambda_mult": 0}
    )
    assert retriever.invoke("rotate the keys") == unlike
    assert face.max_marginal_relevance_search("keys", filter={"team": "none"}) == []


async def test_asynchronous_twins(face: LorebindVectorStore) -> None:
    """Async methods find the same as sync ones."""
    assert await face.aadd_texts(TEXTS, METADATAS, ids=IDS) == IDS
    vector = await face.embeddings.aembed_query("snow")
    assert await face.asimilarity_search("snow") == face.similarity_search("snow")
    assert await face.asimilarity_search_by_vector(vector, k=2) == face.similarity_search_by_vector(
        vector, k=2
    )
    assert await face.amax_marginal_relevance_search("snow") == face.max_marginal_relevance_search(
        "snow"
    )
    by_vector = face.max_marginal_relevance_search_by_vector(vector)
    assert await face.amax_marginal_relevance_search_by_vector(vector) == by_vector
    pairs = await face.asimilarity_search_with_relevance_scores("snow", score_threshold=0.1)
    assert pairs == face.similarity_search_with_relevance_scores("snow", score_threshold=0.1)
    assert await face.as_retriever().ainvoke("snow") == await face.asimilarity_search("snow")


def test_deleting_all(face: LorebindVectorStore) -> None:
    """Without ids, everything in the namespace is deleted, and nothing in others."""
    other = LorebindVectorStore(
        face._index, HashingEmbedder(dimension=64), Namespace("default", "test", "project", "other")
    )
    face.add_texts(TEXTS)
    other.add_texts(["theirs"], ids=["keys"])
    assert face.delete() is True
    assert face.similarity_search("keys") == []
    assert other.get_by_ids(["keys"]) == [Document(id="keys", page_content="theirs")]
    face.add_texts(["again"], ids=["1"])
    assert [document.id for document in face.similarity_search("keys")] == ["1"]


def test_langchain_indexing(face: LorebindVectorStore) -> None:
    """LangChain's `index` syncs the store: it adds no document twice and deletes old ones."""
    manager = InMemoryRecordManager("test")
    manager.create_schema()
    documents = [
        Document(text, metadata={"source": name}) for text, name in zip(TEXTS, IDS, strict=True)
    ]

    def indexed(some: list[Document]) -> tuple[int, int, int]:
        done = index(
            some, manager, face, cleanup="full", source_id_key="source", key_encoder="sha256"
        )
        return done["num_added"], done["num_skipped"], done["num_deleted"]

    assert indexed(documents) == (4, 0, 0)
    assert indexed(documents) == (0, 4, 0)
    assert indexed(documents[:1]) == (0, 1, 3)
    assert [hit.metadata for hit in face.similarity_search("keys")] == [{"source": "keys"}]


def test_a_document_with_an_id_twice(face: LorebindVectorStore) -> None:
    """If an id is given twice, the last document is stored."""
    assert face.add_texts(["first", "second"], ids=["1", "1"]) == ["1", "1"]
    assert [document.page_content for document in face.similarity_search("x")] == ["second"]


def test_what_cannot_be_asked() -> None:
    """Differing numbers of arguments and unknown arguments are refused by name."""
    index = Index(MemoryStore(), Catalog())
    face = LorebindVectorStore(index, HashingEmbedder(dimension=64), NAMESPACE)
    with pytest.raises(UsageError, match="2 texts, 1 metadatas and 2 ids"):
        face.add_texts(["a", "b"], [{}])
    with pytest.raises(UsageError, match="'filters'; did you mean 'filter'"):
        face.similarity_search("a", filters={"team": "ops"})
    with pytest.raises(UsageError, match="'namespace'"):
        face.delete(["a"], namespace="x")
    with pytest.raises(UsageError, match="top_k must be at least 1"):
        face.similarity_search("a", k=0)
    assert face.similarity_search("a") == []


def test_all_or_none(face: LorebindVectorStore) -> None:
    """If one of several documents cannot be stored, none is added."""
    with pytest.raises(StoreError, match="JSON"):
        face.add_texts(["a", "b"], [{}, {"figure": float("nan")}], ids=["1", "2"])
    assert face.get_by_ids(["1", "2"]) == []


def test_from_texts() -> None:
    """`from_texts` makes a store in memory from an `Embeddings` object and texts."""
    store = LorebindVectorStore.from_texts(
        ["a", "b"], DeterministicFakeEmbedding(size=6), [{"n": 1}, {"n": 2}], ids=["1", "2"]
    )
    assert store.get_by_ids(["2", "0", "1", "2"]) == [
        Document(id="2", page_content="b", metadata={"n": 2}),
        Document(id="1", page_content="a", metadata={"n": 1}),
    ]
    documents = [Document("c", id="3")]
    other = LorebindVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=6))
    assert other.similarity_search("x") == documents
