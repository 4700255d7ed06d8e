"""LangChain objects that an application has already created can be parts of a project."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_postgres import PGEngine, PGVectorStore
from sqlalchemy.engine import make_url

from lorebind import ConfigurationError, EmbedderError, ModelError, Project, StoreError, UsageError
from lorebind_knowledge.collection import LorebindEmbeddings
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.plumbing.bridge import finish

from .journey import build, travel

SIZE = 256
WORDS: Embeddings = LorebindEmbeddings(HashingEmbedder(dimension=SIZE))
DOCUMENTS = [
    Document("Keys are rotated every month.", metadata={"source": "keys.md", "team": "ops"}),
    Document("Lunch is served at noon.", id="lunch"),
    Document("Invoices are sent on Fridays."),
]
QUESTION = "How often are keys rotated?"


def in_memory(tmp_path: Path, dsn: str, stack: ExitStack) -> VectorStore:
    return InMemoryVectorStore(WORDS)


def faiss(tmp_path: Path, dsn: str, stack: ExitStack) -> VectorStore:
    import faiss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package is unmaintained
        from langchain_community.vectorstores.faiss import FAISS, InMemoryDocstore
    store: VectorStore = FAISS(WORDS, faiss.IndexFlatL2(SIZE), InMemoryDocstore(), {})
    return store


def chroma(tmp_path: Path, dsn: str, stack: ExitStack) -> VectorStore:
    return Chroma("mine", WORDS, persist_directory=str(tmp_path / "chroma"))


def postgres(tmp_path: Path, dsn: str, stack: ExitStack) -> VectorStore:
    url = make_url(dsn.replace("postgresql:", "postgresql+psycopg:"))
    schema = str(url.query["options"]).removeprefix("-csearch_path=").partition(",")[0]
    engine = PGEngine.from_connection_string(url)
    stack.callback(lambda: finish(engine.close()))
    engine.init_vectorstore_table("mine", SIZE, schema_name=schema)
    return PGVectorStore.create_sync(engine, WORDS, "mine", schema_name=schema)


@pytest.fixture(params=[in_memory, faiss, chroma, postgres])
def live_store(request: pytest.FixtureRequest, tmp_path: Path, dsn: str) -> Iterator[VectorStore]:
    make: Callable[[Path, str, ExitStack], VectorStore] = request.param
    with ExitStack() as stack:
        yield make(tmp_path, dsn, stack)


@pytest.mark.enable_socket
def test_a_store_goes_the_whole_way(tmp_path: Path, live_store: VectorStore) -> None:
    """A store that the application created supports ingests, changes, deletes and reindexing."""
    with build(tmp_path, {"type": "langchain", "class": live_store}) as project:
        travel(project, tmp_path)


@pytest.mark.enable_socket
def test_what_others_have_filled_is_no_place_to_write(
    tmp_path: Path, live_store: VectorStore
) -> None:
    """A store that has documents already is refused by name and stays as it is."""
    (name,) = live_store.add_documents([Document("Not of Lorebind.")], ids=["1" * 32])
    with (
        Project.build(vector_store=live_store, documents=DOCUMENTS, root=tmp_path) as project,
        pytest.raises(StoreError, match=f"{type(live_store).__name__} has documents"),
    ):
        project.ingest("documents")
    (document,) = live_store.similarity_search("lorebind", k=9)
    assert (document.page_content, bool(name)) == ("Not of Lorebind.", True)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project made of objects only."""
    with Project.build(
        embedder=WORDS,
        vector_store=InMemoryVectorStore(WORDS),
        model=FakeListChatModel(responses=["Every month [1]."]),
        documents=DOCUMENTS,
        root=tmp_path,
    ) as built:
        yield built


def test_objects_alone_make_a_project(project: Project) -> None:
    """Documents have their source or id as URI, keep their metadata, and every strategy works."""
    assert project.ingest("documents").documents["added"] == 3
    again = project.ingest("documents")
    assert (again.documents["unchanged"], again.texts_embedded) == (3, 0)
    for strategy in ("similarity", "lexical", "hybrid", "mmr"):
        best = project.query("documents", QUESTION, strategy=strategy).matches[0]
        assert (best.metadata["uri"], best.metadata["team"]) == ("keys.md", "ops")
    every = project.query("documents", "keys lunch invoices", top_k=9)
    assert {match.metadata["uri"] for match in every} == {"keys.md", "lunch", "Documents"}
    answer = project.generate(QUESTION)
    assert (answer.text, answer.citations[0].uri) == ("Every month [1].", "keys.md")


def test_objects_within_declarations(tmp_path: Path) -> None:
    """A declaration may hold several objects of a kind, next to others declared by name."""
    declared = {
        "name": "shop",
        "embedders": [
            {"id": "words", "provider": "langchain", "class": WORDS},
            {"id": "other", "provider": "langchain", "class": DeterministicFakeEmbedding(size=8)},
        ],
        "models": [
            {"id": "quotes", "provider": "extractive"},
            {"id": "mine", "provider": "langchain", "model": FakeListChatModel(responses=["Ok."])},
        ],
        "knowledge_bases": [
            {"id": "docs", "embedder": "words", "sources": [{"type": "inline", "documents": [
                {"id": "keys", "text": "Keys are rotated every month."}]}]},
        ],
    }  # fmt: skip
    with Project.build(declared, documents=DOCUMENTS, root=tmp_path) as project:
        project.ingest("docs")
        project.ingest("documents")
        assert project.generate(QUESTION, "docs", model="mine").text == "Ok."
        assert len(project.query_many(["docs", "documents"], QUESTION)) == 3  # one is in both
        words, other = (project.knowledge.embedder(name) for name in ("words", "other"))
        assert words.fingerprint.key != other.fingerprint.key


class Hidden(InMemoryVectorStore):
    """A store whose embeddings cannot be read."""

    __slots__ = ("embedding",)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (
            {"embedder": InMemoryVectorStore(WORDS)},
            "expected a class derived from LangChain's Embeddings",
        ),
        ({"vector_store": WORDS}, "expected a class derived from LangChain's VectorStore"),
        ({"vector_store": Hidden(WORDS)}, "where they cannot be replaced"),
    ],
)
def test_the_wrong_object(tmp_path: Path, declared: dict[str, Any], problem: str) -> None:
    """A wrong object is named, together with what was expected."""
    with (
        Project.build(**declared, documents=DOCUMENTS, root=tmp_path) as project,
        pytest.raises((EmbedderError, StoreError), match=problem),
    ):
        project.ingest("documents")


def test_the_wrong_model_and_documents(tmp_path: Path) -> None:
    model: Any = WORDS
    with Project.build(model=model, documents=DOCUMENTS, root=tmp_path) as project:
        project.ingest("documents")
        with pytest.raises(ModelError, match="expected a LangChain chat model"):
            project.generate(QUESTION)
    texts: Any = ["Keys are rotated."]
    with pytest.raises(UsageError, match="expected documents of LangChain, got a str"):
        Project.build(documents=texts, root=tmp_path)


def test_a_mistake_beside_objects(tmp_path: Path) -> None:
    """Declarations next to objects are validated as usual."""
    declared = {"name": "shop", "knowledge_bases": {"id": "docs"}}
    with pytest.raises(ConfigurationError, match="knowledge_bases"):
        Project.build(declared, documents=DOCUMENTS, root=tmp_path)


@pytest.mark.parametrize("value", [datetime.date(2026, 1, 1), 3, None, ["x:Y"]])
def test_yaml_cannot_give_objects(tmp_path: Path, value: object) -> None:
    """A value that YAML may contain is refused where a class is expected."""
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "langchain", "class": value}],
    }
    with pytest.raises(ConfigurationError, match="class"):
        Project.build(declared, root=tmp_path)
