"""What is particular to a wrapped LangChain store: its sidecar, lost data, odd classes."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.records import RecordFilter, SearchOptions
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.langchain.wrapped import Recipe
from lorebind_knowledge.testing.store_driver import EAST, INDEX, NORTH, ids, record, vector
from tests.conformance.journey import build, travel

from .like_memory import check_like_memory, publish

if TYPE_CHECKING:
    from pathlib import Path


CLASS = "langchain_core.vectorstores:InMemoryVectorStore"


class Kept(InMemoryVectorStore):
    """Keeps its documents beyond the objects of the class, as a server would."""

    kept: dict[str, Any]

    def __init__(self, embedding: Any, name: str = "") -> None:
        super().__init__(embedding)
        if "kept" not in type(self).__dict__:
            type(self).kept = {}
        self.store = type(self).kept


def make(kind: Any = InMemoryVectorStore, path: Path | None = None, **config: Any) -> Any:
    return LangChainStore(Recipe(kind.__name__, kind, config), path)


def found(store: Any, top_k: int = 50) -> list[str]:
    return ids(store.similarity_search(vector(EAST), SearchOptions(INDEX, top_k)))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_answers_are_those_of_the_memory_store(data: st.DataObject) -> None:
    """Order, scores, ties, filters and cuts agree."""
    check_like_memory(make(), data, most=60)


def test_search_widens_until_enough_is_found() -> None:
    """What the first nominees do not hold is found: behind a filter, and behind another index."""
    store = make()
    store.open(INDEX, 4)
    other = type(INDEX)(INDEX.namespace, 2)
    store.open(other, 4)
    publish(store, *(record(f"{at:03}", n=at) for at in range(200)))
    publish(store, record("far", NORTH, index=other))
    options = SearchOptions(INDEX, 2, where={"n": {"$gte": 190}})
    assert ids(store.similarity_search(vector(EAST), options)) == ["190", "191"]
    assert ids(store.similarity_search(vector(EAST), SearchOptions(other, 2))) == ["far"]


def test_what_the_wrapped_store_holds() -> None:
    """Texts and flat metadata are there for others; nothing else piles up."""
    store = make()
    store.open(INDEX, 4)
    publish(store, record("a", text="kept", title="T", tags=["x"]))
    publish(store, record("a", text="newer", title="U", generation=2))
    assert store.delete_by_filter(RecordFilter(INDEX, except_generation=2)) == 1
    (kept,) = store._wrapped(4)._store.store.values()
    assert kept["text"] == "newer"
    assert kept["metadata"]["title"] == "U"
    assert "tags" not in kept["metadata"]


def test_lost_documents(tmp_path: Path) -> None:
    """A class that kept nothing is an error with a way out, never an empty answer."""
    path = tmp_path / "sidecar.db"
    store = make(path=path)
    store.open(INDEX, 4)
    publish(store, record("a"), record("b"))
    store.close()
    again = make(path=path)
    for attempt in (
        lambda: found(again),
        lambda: again.fetch(INDEX, ["a"]),
    ):
        with pytest.raises(StoreError, match=r"should hold \d rec.*persistent: false.*--strategy"):
            attempt()
    assert again.delete_by_filter(RecordFilter(INDEX)) == 2
    assert found(again) == []
    again.close()


def test_removed_sidecar(tmp_path: Path) -> None:
    """Without its sidecar the store holds nothing that can be found, and says so."""
    path = tmp_path / "sidecar.db"
    store = make(path=path)
    store.open(INDEX, 4)
    publish(store, record("a"))
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(StoreError, match="nothing has been ingested"):
        found(store)
    store.close()


def test_damaged_sidecar(tmp_path: Path) -> None:
    """A file that is something else is named."""
    path = tmp_path / "sidecar.db"
    path.write_bytes(b"This is no database. " * 400)
    store = make(path=path)
    with pytest.raises(StoreError, match=r"sidecar\.db"):
        store.open(INDEX, 4)
    store.close()


class Failing(Kept):
    """Refuses what it is told to."""

    refuses = ""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        if self.refuses == "add":
            super().add_documents(documents[:1], ids=kwargs["ids"][:1])
            raise ConnectionError("refused")
        return super().add_documents(documents, **kwargs)

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if self.refuses == "delete":
            raise ConnectionError("away")
        super().delete(ids)


def test_what_was_cut_off_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed upsert leaves nothing, a failed delete is done by the next change."""
    store = make(Failing, tmp_path / "sidecar.db")
    store.open(INDEX, 4)
    publish(store, record("a"))
    monkeypatch.setattr(Failing, "refuses", "add")
    with pytest.raises(StoreError, match=r"Failing cannot add documents of 'a\.md': Conn"):
        store.upsert([record("b", generation=2), record("c", generation=2)])
    monkeypatch.setattr(Failing, "refuses", "delete")
    with pytest.raises(StoreError, match=r"cannot delete documents: .*away"):
        store.delete_by_filter(RecordFilter(INDEX))
    assert found(store) == []
    assert len(Failing.kept) == 2
    monkeypatch.setattr(Failing, "refuses", "")
    publish(store, record("d"))
    assert found(store) == ["d"]
    assert len(Failing.kept) == 1
    store.close()


def test_crash_between_the_two(tmp_path: Path) -> None:
    """Documents that a killed process had begun to write are deleted with their record."""
    path = tmp_path / "sidecar.db"
    store = make(path=path)
    store.open(INDEX, 4)
    with sqlite3.connect(path) as db:
        db.execute("insert into langchain_documents values ('left', 1, 4, 'a.md', 'a', 1, 0)")
    db.close()
    publish(store, record("a"))
    assert found(store) == ["a"]
    with sqlite3.connect(path) as db:
        assert db.execute("select count(*) from langchain_documents").fetchone() == (1,)
    db.close()
    store.close()


class Searchable(InMemoryVectorStore):
    """Has no search by vector: a query is a text."""

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        raise NotImplementedError


class OwnIds(InMemoryVectorStore):
    """Takes no ids."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        return super().add_documents([Document(text.page_content) for text in documents])


class Strict(InMemoryVectorStore):
    """Deletes nothing where one id is unknown, as FAISS does."""

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if unknown := [name for name in ids if name not in self.store]:
            raise ValueError(f"unknown ids {unknown}")
        super().delete(ids)


class Reader(InMemoryVectorStore):
    """Embeds something else than it is given."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        self.embedding.embed_documents([text.page_content.upper() for text in documents])
        return super().add_documents(documents, **kwargs)


class Undeleting(InMemoryVectorStore):
    """Only adds, as SKLearnVectorStore does."""

    delete = VectorStore.delete


def test_a_class_without_search_by_vector() -> None:
    """The one method that every class has is enough."""
    store = make(Searchable)
    store.open(INDEX, 4)
    publish(store, record("a"), record("b", NORTH))
    assert found(store) == ["a", "b"]


@pytest.mark.parametrize(("kind", "says"), [(OwnIds, "ids of its own"), (Reader, "changes texts")])
def test_a_class_that_cannot_be_used(kind: Any, says: str) -> None:
    """What makes records unfindable is refused when the first is written."""
    store = make(kind)
    store.open(INDEX, 4)
    with pytest.raises(StoreError, match=says):
        store.upsert([record("a")])


def test_a_class_that_cannot_delete() -> None:
    """It is refused when it is opened, not when a document changes for the first time."""
    with pytest.raises(StoreError, match="Undeleting has no method that deletes"):
        make(Undeleting).open(INDEX, 4)


def test_a_class_that_refuses_unknown_ids(tmp_path: Path) -> None:
    """Deleting goes on where some of the documents are gone already."""
    store = make(Strict)
    store.open(INDEX, 4)
    publish(store, record("a"), record("b"))
    store._wrapped(4)._store.store.popitem()
    assert store.delete_by_filter(RecordFilter(INDEX)) == 2
    assert store._wrapped(4)._store.store == {}


def test_the_same_text_with_other_vectors() -> None:
    """Each record keeps its own vector."""
    store = make()
    store.open(INDEX, 4)
    publish(store, record("a", text="same"), record("b", NORTH, text="same"))
    assert [m.score for m in store.similarity_search(vector(EAST), SearchOptions(INDEX))] == [1, 0]


def test_wrong_classes(tmp_path: Path) -> None:
    """What cannot be imported, made, or is no VectorStore, is named, without secrets."""
    cases = {
        "no.such:Thing": (UsageError, "no.such"),
        "yaml:dump": (StoreError, "yaml:dump is a function of yaml; expected a class derived from"),
        "langchain_core.documents:Document": (StoreError, "Document is the class Document"),
    }
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\ntext\n", "utf-8")
    config = {"name": "{{ .secrets.NAME }}", "surplus": True}
    for path, (error, says) in cases.items():
        declared = {"type": "langchain", "class": path, "config": config}
        project = build(tmp_path, declared, environ={"NAME": "hunter2"})
        with project, pytest.raises(error, match=says) as caught:
            project.ingest("docs")
        assert "hunter2" not in str(caught.value)


def test_end_to_end_in_memory(tmp_path: Path) -> None:
    """A project on InMemoryVectorStore does the whole way, and leaves no file behind."""
    with build(tmp_path, {"type": "langchain", "class": CLASS}) as project:
        travel(project, tmp_path)
    assert not list(tmp_path.glob(".lorebind/db.*"))


def test_end_to_end_on_what_persists(tmp_path: Path) -> None:
    """The same on a class that keeps its documents; another process goes on where this one was."""
    path = f"{__name__}:Kept"
    declared = {"type": "langchain", "class": path, "config": {"name": "{{ .env.NAME }}"}}
    environ = {"NAME": "handbook"}
    declared["persistent"] = True
    with build(tmp_path, declared, environ=environ) as project:
        travel(project, tmp_path)
        before = project.query("docs", "server").matches
    with build(tmp_path, declared, environ=environ) as project:
        assert project.query("docs", "server").matches == before
    Kept.kept.clear()
    with build(tmp_path, declared, environ=environ) as project:
        with pytest.raises(StoreError, match="--strategy replace"):
            project.query("docs", "server")
        assert project.ingest("docs", strategy="replace").status == "completed"
        assert project.query("docs", "server").matches == before
