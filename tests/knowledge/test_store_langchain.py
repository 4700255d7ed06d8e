"""Features of the wrapped LangChain store: odd classes, shared ones, and its arguments."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from lorebind_config.errors import StoreError, UsageError
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_config.templates import Environment
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.langchain import store as module
from lorebind_knowledge.stores.langchain.declaration import LangChainVectorDB, recipe_of
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore, document_id

INDEX = IndexKey(Namespace("acme", "support", "project", "handbook"))
SPACE = Partition(INDEX, 2**58 + 5, 4)
OTHER = Partition(INDEX, 7, 4)
EAST, NORTH, NOWHERE = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)


def make(kind: Any = InMemoryVectorStore, **config: Any) -> LangChainStore:
    return LangChainStore(Recipe(kind.__name__, kind, config))


def vector(values: Iterable[float]) -> Any:
    array = np.array(list(values), np.float32)
    return array / (np.linalg.norm(array) or 1)


def row(number: int, values: Iterable[float] = EAST, text: str | None = None) -> StoredVector:
    return StoredVector(number, vector(values), f"text {number}" if text is None else text, {})


def nearest(
    store: LangChainStore, k: int = 50, space: Partition = SPACE, at: Any = EAST
) -> list[int]:
    return list(store.nearest(space, vector(at), k, {}, None).numbers)


def held(store: LangChainStore) -> dict[str, Any]:
    """Return the documents of the wrapped InMemoryVectorStore."""
    rows: dict[str, Any] = store._made[4]._store.store  # type: ignore[attr-defined]
    return rows


def test_ids_are_uuids_that_tell_spaces_and_numbers_apart() -> None:
    """Ids have version 8, begin with the index_uid, and are sorted like the numbers."""
    numbers = [1, 2, 3, 2**62 - 1, 2**62, 2**63 - 1]
    ids = [uuid.UUID(document_id(space, n)) for space in (OTHER, SPACE) for n in numbers]
    assert len(set(ids)) == len(ids)
    assert {(key.version, key.variant) for key in ids} == {(8, uuid.RFC_4122)}
    assert sorted(ids) == ids
    assert len({str(key)[:8] for key in ids[len(numbers) :]}) == 1


def test_what_the_wrapped_store_holds() -> None:
    """A stored document has the text, its space and its number."""
    store = make()
    store.add(SPACE, [row(3, text="kept")])
    (entry,) = held(store).values()
    assert entry["id"] == document_id(SPACE, 3)
    assert entry["text"] == "kept"
    assert entry["metadata"] == {"lorebind_space": SPACE.name, "lorebind_number": "3"}


class Counting(InMemoryVectorStore):
    """Records the number of documents that each search requests."""

    requested: list[int]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        vars(self).setdefault("requested", []).append(k)
        return super().similarity_search_by_vector(embedding, k, **kwargs)


def requested(store: LangChainStore) -> list[int]:
    wrapped: Any = store._made[4]._store
    numbers: list[int] = vars(wrapped).pop("requested")
    return numbers


def test_search_widens_until_enough_of_the_space_is_found() -> None:
    """Nearer documents of other spaces and of other programs are skipped."""
    store = make(Counting)
    store.add(SPACE, [row(n, NORTH) for n in (1, 2)])
    store.add(OTHER, [row(n) for n in range(1, 100)])
    theirs = [Document("theirs", metadata={"lorebind_number": "1"}), Document("plain")]
    wrapped = store._made[4]
    with wrapped._embeddings.returning({"theirs": [*EAST], "plain": [*EAST]}):
        wrapped._store.add_documents(theirs)
    assert sorted(nearest(store, 2)) == [1, 2]
    assert requested(store) == [2, 8, 32, 128]


def test_search_asks_once_when_all_is_its_own() -> None:
    """One search is enough if all documents are of the space, even if there are too few."""
    store = make(Counting)
    store.add(SPACE, [row(n) for n in range(1, 10)])
    assert len(nearest(store, 4)) == 4
    assert len(nearest(store, 10)) == 9
    assert requested(store) == [4, 10]


def test_search_does_not_read_a_whole_database_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of requested documents is limited, and the error suggests a fix."""
    monkeypatch.setattr(module, "_MOST", 50)
    store = make(Counting)
    store.add(OTHER, [row(n) for n in range(1, 100)])
    store.add(SPACE, [row(1, NORTH)])
    with pytest.raises(StoreError, match=r"too many documents.*handbook #1.*collection or table"):
        nearest(store, 1)
    assert requested(store) == [1, 4, 16, 50]
    assert len(nearest(store, 60, OTHER)) == 60


def test_a_vector_of_length_0_never_stands_for_how_near_the_rest_is() -> None:
    """A stand-in for length 0 counts only if all documents were found."""
    store = make()
    store.add(SPACE, [row(1, NOWHERE), row(2, NOWHERE), row(3, (3, 4, 0, 0)), row(4, NORTH)])
    assert nearest(store, 1)[:1] == [3]
    assert nearest(store, 2)[:2] == [3, 4]
    assert nearest(store, 5)[:2] == [3, 4]
    assert sorted(nearest(store, 5)) == [1, 2, 3, 4]
    assert store.get(SPACE, [1, 2, 3, 9]) == {1: None, 2: None, 3: None}


def test_many_at_once() -> None:
    """More documents than are passed to the class in one call are stored and deleted."""
    store = make()
    numbers = range(1, 1202)
    store.add(SPACE, [row(n) for n in numbers])
    assert store.get(SPACE, numbers) == dict.fromkeys(numbers)
    store.delete(SPACE, range(1, 1101))
    assert sorted(nearest(store, 2000)) == [*range(1101, 1202)]
    store.add(SPACE, [row(n) for n in numbers])
    store.add(OTHER, [row(1)])
    store.drop(SPACE)
    assert nearest(store, 2000) == []
    assert nearest(store, 1, OTHER) == [1]


class Searchable(InMemoryVectorStore):
    """Cannot search by vector: a query is a text."""

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        raise NotImplementedError


class OwnIds(InMemoryVectorStore):
    """Ignores the given ids."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        return super().add_documents([Document(text.page_content) for text in documents])


class Strict(InMemoryVectorStore):
    """Like FAISS: deletes nothing if an id is unknown, and adds nothing if an id exists."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        if present := [name for name in kwargs["ids"] if name in self.store]:
            raise ValueError(f"known ids {present}")
        return super().add_documents(documents, **kwargs)

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if unknown := [name for name in ids if name not in self.store]:
            raise ValueError(f"unknown ids {unknown}")
        super().delete(ids)


class Secretive(InMemoryVectorStore):
    """Cannot return documents by their ids."""

    get_by_ids = VectorStore.get_by_ids


class Nameless(Strict):
    """Returns documents without their ids, so that existing ones cannot be identified."""

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return [text.model_copy(update={"id": None}) for text in super().get_by_ids(ids)]


class Reader(InMemoryVectorStore):
    """Embeds another text than the given one."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        self.embedding.embed_documents([text.page_content.upper() for text in documents])
        return super().add_documents(documents, **kwargs)


class Undeleting(InMemoryVectorStore):
    """Cannot delete, like SKLearnVectorStore."""

    delete = VectorStore.delete  # type: ignore[assignment]


class Lingering(InMemoryVectorStore):
    """Finds deleted documents for a while."""

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        pass


class Refusing(InMemoryVectorStore):
    """Reports that it did not delete."""

    def delete(self, ids: Any = None, **kwargs: Any) -> bool:  # type: ignore[override]
        return False


def test_a_class_without_search_by_vector() -> None:
    """The one search method that every class has is enough."""
    store = make(Searchable)
    store.add(SPACE, [row(1), row(2, NORTH)])
    assert nearest(store) == [1, 2]
    assert nearest(store, at=NORTH) == [2, 1]


@pytest.mark.parametrize(
    ("kind", "says"), [(OwnIds, "assigns its own ids"), (Reader, "changes texts")]
)
def test_a_class_that_cannot_be_used(kind: Any, says: str) -> None:
    """A class that makes vectors unfindable is refused at the first write, and left empty."""
    store = make(kind)
    with pytest.raises(StoreError, match=says):
        store.add(SPACE, [row(1)])
    assert held(store) == {}


def test_a_class_that_cannot_delete() -> None:
    """A class that cannot delete is refused on first use, not when a document changes."""
    with pytest.raises(StoreError, match="Undeleting has no method that deletes"):
        make(Undeleting).add(SPACE, [row(1)])


def test_a_class_that_says_it_did_not_delete() -> None:
    """A class that reports a failed deletion raises an error."""
    store = make(Refusing)
    store.add(SPACE, [row(1)])
    with pytest.raises(StoreError, match=r"cannot delete documents: .*were not deleted"):
        store.delete(SPACE, [1])
    store.delete(SPACE, [])


def test_a_class_that_deletes_late() -> None:
    """Dropping a space ends even if deleted documents are still found."""
    store = make(Lingering)
    store.add(SPACE, [row(1)])
    store.drop(SPACE)


def test_a_class_that_refuses_known_and_unknown_ids() -> None:
    """Adding and deleting succeed even if some of the documents exist, or are gone, already."""
    store = make(Strict)
    store.add(SPACE, [row(1), row(2)])
    store.add(SPACE, [row(2), row(3)])
    assert sorted(nearest(store)) == [1, 2, 3]
    store.delete(SPACE, [2, 3, 4])
    assert nearest(store) == [1]
    store.delete(SPACE, [2, 3])
    assert nearest(store) == [1]


def test_a_class_that_cannot_tell_what_is_there() -> None:
    """`get` raises NotImplementedError; everything else works without it."""
    store = make(Secretive)
    store.add(SPACE, [row(1), row(2)])
    with pytest.raises(NotImplementedError, match="Secretive cannot return documents by their ids"):
        store.get(SPACE, [1])
    store.delete(SPACE, [2, 3])
    assert nearest(store) == [1]
    nameless = make(Nameless)
    nameless.add(SPACE, [row(1)])
    assert nameless.get(SPACE, [1, 2]) == {1: None}
    with pytest.raises(StoreError, match="unknown ids"):
        nameless.delete(SPACE, [1, 2])


def test_the_same_text_with_other_vectors() -> None:
    """Numbers with the same text keep their own vectors."""
    store = make()
    store.add(SPACE, [row(1, text="same"), row(2, NORTH, "same"), row(3, (1, 1, 0, 0), "same")])
    assert nearest(store) == [1, 3, 2]
    assert nearest(store, at=NORTH) == [2, 3, 1]


class Failing(InMemoryVectorStore):
    """Fails with an error that repeats its arguments and the documents."""

    def __init__(self, embedding: Any, address: str, parts: Any = None) -> None:
        super().__init__(embedding)
        self.address = address

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        raise ConnectionError(f"refused by {self.address}\n{documents}")


def test_errors_hold_neither_secrets_nor_documents() -> None:
    """Errors omit the values of templates, even those in the settings of an argument."""
    settings = {"address": "hunter2", "parts": {"factory": "a:b", "config": {"a": "hunter3"}}}
    written = {"address": "{{ .env.A }}", "parts": {"factory": "a:b", "config": {"a": "{{…}}"}}}
    part = Recipe("part", Part, {"a": "hunter3"}, {"a": "{{…}}"})
    recipe = Recipe("Failing", Failing, settings, written, {"parts": part})
    with pytest.raises(
        StoreError, match=r"Failing cannot add documents: Conn.*\[secret\]$"
    ) as caught:
        LangChainStore(recipe).add(SPACE, [row(1, text="confidential")])
    assert "confidential" not in str(caught.value)
    broken = Recipe(
        "Failing", Failing, settings, written, {"parts": Recipe("part", Part, {"b": 1})}
    )
    with pytest.raises(StoreError, match=r"part cannot be created from this configuration: Type"):
        LangChainStore(broken).add(SPACE, [row(1)])


class Part:
    """An argument that is an object, like a client or an engine."""

    count: int = 0
    closed: int = 0

    def __init__(self, a: str) -> None:
        type(self).count += 1

    async def close(self) -> None:
        type(self).closed += 1


class Using(InMemoryVectorStore):
    def __init__(self, embedding: Any, part: Part) -> None:
        assert isinstance(part, Part)
        super().__init__(embedding)


def test_an_argument_that_is_an_object_is_made_once_and_closed() -> None:
    """An argument is made once for all dimensions, on first use, and closed."""
    Part.count = Part.closed = 0
    recipe = Recipe("Using", Using, parts={"part": Recipe("Part", Part, {"a": "x"})})
    store = LangChainStore(recipe)
    assert Part.count == 0
    store.add(SPACE, [row(1)])
    store.add(Partition(INDEX, 9, 2), [StoredVector(1, vector((1, 0)), "t", {})])
    assert nearest(store) == [1]
    store.close()
    store.close()
    assert (Part.count, Part.closed) == (1, 1)
    with pytest.raises(StoreError, match="langchain store Using is closed"):
        nearest(store)


class Alone(InMemoryVectorStore):
    """Fails if two threads use it at the same time."""

    inside = threading.Lock()

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        with self.entered():
            return super().add_documents(documents, **kwargs)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        with self.entered():
            return super().similarity_search_by_vector(embedding, k, **kwargs)

    @contextmanager
    def entered(self) -> Iterator[None]:
        assert self.inside.acquire(blocking=False)
        try:
            time.sleep(0.001)
            yield
        finally:
            self.inside.release()


def test_one_thread_at_a_time() -> None:
    """Only one thread at a time uses a class, because LangChain promises no more."""
    store = make(Alone)

    def work(number: int) -> None:
        store.add(SPACE, [row(number)])
        assert number in nearest(store)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 40)))
    assert sorted(nearest(store)) == [*range(1, 40)]


def made_of(root: Path, **declared: Any) -> LangChainStore:
    """Return the store of a declaration."""
    data = {"id": "db", "type": "langchain", **declared}
    declaration = LangChainVectorDB.model_validate(data)
    return LangChainStore(recipe_of(declaration, Environment(root, {"NAME": "hunter2"})))


MODULE = """\
from langchain_core.vectorstores import InMemoryVectorStore

class Store(InMemoryVectorStore):
    @classmethod
    def made(cls, embeddings, name, size=None):
        assert (name, size.of.width) == ("hunter2", 3)
        return cls(embeddings)

    @classmethod
    def unfit(cls, texts):
        pass

def number(embedding_service):
    return len(embedding_service.embed_query("probe"))

def failing(embedding, part, surplus):
    raise ValueError(f"no {part} for hunter2")

class Size:
    def __init__(self, width=0):
        self.width = width

class Frame:
    @staticmethod
    def around(of):
        frame = Frame()
        frame.of = of
        return frame
"""


def test_what_a_declaration_names_is_made(tmp_path: Path) -> None:
    """A project's class method makes the store, with an argument made of another one."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    inner = {"class": "mine:Size", "config": {"width": 3}}
    size = {"factory": "mine:Frame.around", "config": {"of": inner}}
    config = {"name": "{{ .env.NAME }}", "size": size}
    store = made_of(tmp_path, factory="mine:Store.made", config=config)
    store.add(SPACE, [row(1)])
    assert nearest(store) == [1]
    plain = made_of(tmp_path, **{"class": "mine:Store"})
    plain.add(SPACE, [row(1)])
    assert nearest(plain) == [1]


@pytest.mark.parametrize(
    ("declared", "error", "says"),
    [
        ({"class": "no.such:Thing"}, UsageError, "no.such"),
        ({"class": "yaml:dump"}, StoreError, "yaml:dump is a function of yaml; expected a class"),
        ({"class": "mine:number"}, StoreError, "or a function under 'factory'"),
        ({"class": "langchain_core.documents:Document"}, StoreError, "Document is the class Docu"),
        ({"factory": "mine:Store"}, StoreError, "is the class Store; expected a class method, or"),
        ({"factory": "mine:Store.unfit"}, StoreError, "with a parameter 'embedding' or 'embeddi"),
        ({"factory": "mine:Store.gone"}, UsageError, "the class Store has no class method or"),
        ({"factory": "mine:number"}, StoreError, "mine:number is not a LangChain VectorStore"),
        (
            {"factory": "mine:failing", "config": {"part": {"class": "mine:Gone"}}},
            UsageError,
            "vector database 'db': module 'mine' has no 'Gone'",
        ),
        (
            {"factory": "mine:failing", "config": {"part": {"class": "mine:InMemoryVectorStore"}}},
            StoreError,
            "mine:InMemoryVectorStore cannot be created from this configuration: TypeError",
        ),
        (
            {"factory": "mine:failing", "config": {"part": {"class": "mine:Size"}}},
            StoreError,
            r"mine:failing cannot be created .*: ValueError: no <.*Size obj.*> for .secret.",
        ),
        (
            {"class": "mine:Store"},
            StoreError,
            "mine:Store cannot be created from this conf.*: TypeErr",
        ),
    ],
)
def test_what_cannot_be_made(
    tmp_path: Path, declared: dict[str, Any], error: type[Exception], says: str
) -> None:
    """Errors name code that cannot be called or makes no VectorStore, without secrets."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    config = {**declared.get("config", {}), "surplus": "{{ .secrets.NAME }}"}
    if "number" in declared.get("factory", ""):
        config = {}
    with pytest.raises(error, match=says) as caught:
        made_of(tmp_path, **{**declared, "config": config}).add(SPACE, [row(1)])
    assert "hunter2" not in str(caught.value)
