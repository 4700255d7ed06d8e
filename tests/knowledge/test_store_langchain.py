"""What is particular to a wrapped LangChain store: odd classes, shared ones, what it is made of."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from lorebind_knowledge.configuration import Environment
from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Space
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.langchain import store as module
from lorebind_knowledge.stores.langchain.declaration import LangChainVectorDB, recipe_of
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore, document_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

INDEX = IndexKey(Namespace("acme", "support", "project", "handbook"))
SPACE = Space(INDEX, 2**58 + 5, 4)
OTHER = Space(INDEX, 7, 4)
EAST, NORTH, NOWHERE = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)


def make(kind: Any = InMemoryVectorStore, **config: Any) -> LangChainStore:
    return LangChainStore(Recipe(kind.__name__, kind, config))


def vector(values: Iterable[float]) -> Any:
    found = np.array(list(values), np.float32)
    return found / (np.linalg.norm(found) or 1)


def one(number: int, values: Iterable[float] = EAST, text: str | None = None) -> StoredVector:
    return StoredVector(number, vector(values), f"text {number}" if text is None else text, {})


def found(store: LangChainStore, k: int = 50, space: Space = SPACE, at: Any = EAST) -> list[int]:
    return list(store.nearest(space, vector(at), k, {}, None).numbers)


def held(store: LangChainStore) -> dict[str, Any]:
    """The documents of the wrapped InMemoryVectorStore."""
    kept: dict[str, Any] = store._made[4]._store.store  # type: ignore[attr-defined]
    return kept


def test_ids_are_uuids_that_tell_spaces_and_numbers_apart() -> None:
    """They are of version 8, begin with the birth, and follow the order of numbers."""
    numbers = [1, 2, 3, 2**62 - 1, 2**62, 2**63 - 1]
    made = [uuid.UUID(document_id(space, n)) for space in (OTHER, SPACE) for n in numbers]
    assert len(set(made)) == len(made)
    assert {(one.version, one.variant) for one in made} == {(8, uuid.RFC_4122)}
    assert sorted(made) == made
    assert len({str(one)[:8] for one in made[len(numbers) :]}) == 1


def test_what_the_wrapped_store_holds() -> None:
    """The text, and whose it is, so that others can tell."""
    store = make()
    store.add(SPACE, [one(3, text="kept")])
    (kept,) = held(store).values()
    assert kept["id"] == document_id(SPACE, 3)
    assert kept["text"] == "kept"
    assert kept["metadata"] == {"lorebind_space": SPACE.name, "lorebind_number": "3"}


class Counting(InMemoryVectorStore):
    """Notes how many documents each search asked for."""

    asked: list[int]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        vars(self).setdefault("asked", []).append(k)
        return super().similarity_search_by_vector(embedding, k, **kwargs)


def asked(store: LangChainStore) -> list[int]:
    wrapped: Any = store._made[4]._store
    numbers: list[int] = vars(wrapped).pop("asked")
    return numbers


def test_search_widens_until_enough_of_the_space_is_found() -> None:
    """What others have nearer is passed over: other spaces, and documents of nobody here."""
    store = make(Counting)
    store.add(SPACE, [one(n, NORTH) for n in (1, 2)])
    store.add(OTHER, [one(n) for n in range(1, 100)])
    theirs = [Document("theirs", metadata={"lorebind_number": "1"}), Document("plain")]
    wrapped = store._made[4]
    with wrapped._given.giving({"theirs": [*EAST], "plain": [*EAST]}):
        wrapped._store.add_documents(theirs)
    assert sorted(found(store, 2)) == [1, 2]
    assert asked(store) == [2, 8, 32, 128]


def test_search_asks_once_when_all_is_its_own() -> None:
    """Whether the space has enough, or fewer than were asked for."""
    store = make(Counting)
    store.add(SPACE, [one(n) for n in range(1, 10)])
    assert len(found(store, 4)) == 4
    assert len(found(store, 10)) == 9
    assert asked(store) == [4, 10]


def test_search_does_not_read_a_whole_database_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound, and the error says the way out."""
    monkeypatch.setattr(module, "_MOST", 50)
    store = make(Counting)
    store.add(OTHER, [one(n) for n in range(1, 100)])
    store.add(SPACE, [one(1, NORTH)])
    with pytest.raises(StoreError, match=r"too many documents.*handbook #1.*collection or table"):
        found(store, 1)
    assert asked(store) == [1, 4, 16, 50]
    assert len(found(store, 60, OTHER)) == 60


def test_a_vector_of_length_0_never_stands_for_how_near_the_rest_is() -> None:
    """It is handed over as another, and counts only where everything was found."""
    store = make()
    store.add(SPACE, [one(1, NOWHERE), one(2, NOWHERE), one(3, (3, 4, 0, 0)), one(4, NORTH)])
    assert found(store, 1)[:1] == [3]
    assert found(store, 2)[:2] == [3, 4]
    assert found(store, 5)[:2] == [3, 4]
    assert sorted(found(store, 5)) == [1, 2, 3, 4]
    assert store.get(SPACE, [1, 2, 3, 9]) == {1: None, 2: None, 3: None}


def test_many_at_once() -> None:
    """More than are handed to the class in one call."""
    store = make()
    numbers = range(1, 1202)
    store.add(SPACE, [one(n) for n in numbers])
    assert store.get(SPACE, numbers) == dict.fromkeys(numbers)
    store.delete(SPACE, range(1, 1101))
    assert sorted(found(store, 2000)) == [*range(1101, 1202)]
    store.add(SPACE, [one(n) for n in numbers])
    store.add(OTHER, [one(1)])
    store.drop(SPACE)
    assert found(store, 2000) == []
    assert found(store, 1, OTHER) == [1]


class Searchable(InMemoryVectorStore):
    """Has no search by vector: a query is a text."""

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> Any:
        raise NotImplementedError


class OwnIds(InMemoryVectorStore):
    """Takes no ids."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        return super().add_documents([Document(text.page_content) for text in documents])


class Strict(InMemoryVectorStore):
    """Deletes nothing where one id is unknown, and adds nothing where one is known, as FAISS."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        if known := [name for name in kwargs["ids"] if name in self.store]:
            raise ValueError(f"known ids {known}")
        return super().add_documents(documents, **kwargs)

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if unknown := [name for name in ids if name not in self.store]:
            raise ValueError(f"unknown ids {unknown}")
        super().delete(ids)


class Secretive(InMemoryVectorStore):
    """Cannot give documents by their ids."""

    get_by_ids = VectorStore.get_by_ids


class Nameless(Strict):
    """Gives documents without their ids, so that nobody can tell which are there."""

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return [text.model_copy(update={"id": None}) for text in super().get_by_ids(ids)]


class Reader(InMemoryVectorStore):
    """Embeds something else than it is given."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        self.embedding.embed_documents([text.page_content.upper() for text in documents])
        return super().add_documents(documents, **kwargs)


class Undeleting(InMemoryVectorStore):
    """Only adds, as SKLearnVectorStore does."""

    delete = VectorStore.delete  # type: ignore[assignment]


class Lingering(InMemoryVectorStore):
    """Says that it deletes, and finds what it deleted for a while."""

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        pass


class Refusing(InMemoryVectorStore):
    """Says that it did not delete."""

    def delete(self, ids: Any = None, **kwargs: Any) -> bool:  # type: ignore[override]
        return False


def test_a_class_without_search_by_vector() -> None:
    """The one method that every class has is enough."""
    store = make(Searchable)
    store.add(SPACE, [one(1), one(2, NORTH)])
    assert found(store) == [1, 2]
    assert found(store, at=NORTH) == [2, 1]


@pytest.mark.parametrize(
    ("kind", "says"), [(OwnIds, "assigns its own ids"), (Reader, "changes texts")]
)
def test_a_class_that_cannot_be_used(kind: Any, says: str) -> None:
    """What makes vectors unfindable is refused when the first is written, and leaves nothing."""
    store = make(kind)
    with pytest.raises(StoreError, match=says):
        store.add(SPACE, [one(1)])
    assert held(store) == {}


def test_a_class_that_cannot_delete() -> None:
    """It is refused when it is first used, not when a document changes for the first time."""
    with pytest.raises(StoreError, match="Undeleting has no method that deletes"):
        make(Undeleting).add(SPACE, [one(1)])


def test_a_class_that_says_it_did_not_delete() -> None:
    """It is believed."""
    store = make(Refusing)
    store.add(SPACE, [one(1)])
    with pytest.raises(StoreError, match=r"cannot delete documents: .*were not deleted"):
        store.delete(SPACE, [1])
    store.delete(SPACE, [])


def test_a_class_that_deletes_late() -> None:
    """Dropping ends all the same."""
    store = make(Lingering)
    store.add(SPACE, [one(1)])
    store.drop(SPACE)


def test_a_class_that_refuses_known_and_unknown_ids() -> None:
    """Adding and deleting go on where some of the documents are there, or gone, already."""
    store = make(Strict)
    store.add(SPACE, [one(1), one(2)])
    store.add(SPACE, [one(2), one(3)])
    assert sorted(found(store)) == [1, 2, 3]
    store.delete(SPACE, [2, 3, 4])
    assert found(store) == [1]
    store.delete(SPACE, [2, 3])
    assert found(store) == [1]


def test_a_class_that_cannot_tell_what_is_there() -> None:
    """Asking is an error of its own kind; all else is done without knowing."""
    store = make(Secretive)
    store.add(SPACE, [one(1), one(2)])
    with pytest.raises(NotImplementedError, match="Secretive cannot return documents by their ids"):
        store.get(SPACE, [1])
    store.delete(SPACE, [2, 3])
    assert found(store) == [1]
    nameless = make(Nameless)
    nameless.add(SPACE, [one(1)])
    assert nameless.get(SPACE, [1, 2]) == {1: None}
    with pytest.raises(StoreError, match="unknown ids"):
        nameless.delete(SPACE, [1, 2])


def test_the_same_text_with_other_vectors() -> None:
    """Each number keeps its own vector."""
    store = make()
    store.add(SPACE, [one(1, text="same"), one(2, NORTH, "same"), one(3, (1, 1, 0, 0), "same")])
    assert found(store) == [1, 3, 2]
    assert found(store, at=NORTH) == [2, 3, 1]


class Failing(InMemoryVectorStore):
    """Repeats what it was made with, and the documents, when it fails."""

    def __init__(self, embedding: Any, address: str, parts: Any = None) -> None:
        super().__init__(embedding)
        self.address = address

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # type: ignore[override]
        raise ConnectionError(f"refused by {self.address}\n{documents}")


def test_errors_hold_neither_secrets_nor_documents() -> None:
    """What templates gave is taken out, that of an argument's own settings too."""
    settings = {"address": "hunter2", "parts": {"factory": "a:b", "config": {"a": "hunter3"}}}
    written = {"address": "{{ .env.A }}", "parts": {"factory": "a:b", "config": {"a": "{{…}}"}}}
    part = Recipe("part", Part, {"a": "hunter3"}, {"a": "{{…}}"})
    recipe = Recipe("Failing", Failing, settings, written, {"parts": part})
    with pytest.raises(
        StoreError, match=r"Failing cannot add documents: Conn.*\[secret\]$"
    ) as one_:
        LangChainStore(recipe).add(SPACE, [one(1, text="confidential")])
    assert "confidential" not in str(one_.value)
    broken = Recipe(
        "Failing", Failing, settings, written, {"parts": Recipe("part", Part, {"b": 1})}
    )
    with pytest.raises(StoreError, match=r"part cannot be made with the configuration given: Type"):
        LangChainStore(broken).add(SPACE, [one(1)])


class Part:
    """An argument that is an object: a client, an engine."""

    made: int = 0
    closed: int = 0

    def __init__(self, a: str) -> None:
        type(self).made += 1

    async def close(self) -> None:
        type(self).closed += 1


class Using(InMemoryVectorStore):
    def __init__(self, embedding: Any, part: Part) -> None:
        assert isinstance(part, Part)
        super().__init__(embedding)


def test_an_argument_that_is_an_object_is_made_once_and_closed() -> None:
    """For all dimensions together, and not before the store is used."""
    Part.made = Part.closed = 0
    recipe = Recipe("Using", Using, parts={"part": Recipe("Part", Part, {"a": "x"})})
    store = LangChainStore(recipe)
    assert Part.made == 0
    store.add(SPACE, [one(1)])
    store.add(Space(INDEX, 9, 2), [StoredVector(1, vector((1, 0)), "t", {})])
    assert found(store) == [1]
    store.close()
    store.close()
    assert (Part.made, Part.closed) == (1, 1)
    with pytest.raises(StoreError, match="langchain store Using is closed"):
        found(store)


class Alone(InMemoryVectorStore):
    """Fails where a second thread comes while the first is inside."""

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
    """LangChain promises no more of its classes."""
    store = make(Alone)

    def work(number: int) -> None:
        store.add(SPACE, [one(number)])
        assert number in found(store)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 40)))
    assert sorted(found(store)) == [*range(1, 40)]


def made_of(root: Path, **declared: Any) -> LangChainStore:
    """The store of a declaration."""
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
    """A class method of the project, with an argument that is made of another one."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    inner = {"class": "mine:Size", "config": {"width": 3}}
    size = {"factory": "mine:Frame.around", "config": {"of": inner}}
    config = {"name": "{{ .env.NAME }}", "size": size}
    store = made_of(tmp_path, factory="mine:Store.made", config=config)
    store.add(SPACE, [one(1)])
    assert found(store) == [1]
    plain = made_of(tmp_path, **{"class": "mine:Store"})
    plain.add(SPACE, [one(1)])
    assert found(plain) == [1]


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
            "mine:InMemoryVectorStore cannot be made with the configuration given: TypeError",
        ),
        (
            {"factory": "mine:failing", "config": {"part": {"class": "mine:Size"}}},
            StoreError,
            r"mine:failing cannot be made .*: ValueError: no <.*Size obj.*> for .secret.",
        ),
        ({"class": "mine:Store"}, StoreError, "mine:Store cannot be made with the conf.*: TypeErr"),
    ],
)
def test_what_cannot_be_made(
    tmp_path: Path, declared: dict[str, Any], error: type[Exception], says: str
) -> None:
    """What cannot be imported, made, or is no VectorStore, is named, without secrets."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    config = {**declared.get("config", {}), "surplus": "{{ .secrets.NAME }}"}
    if "number" in declared.get("factory", ""):
        config = {}
    with pytest.raises(error, match=says) as caught:
        made_of(tmp_path, **{**declared, "config": config}).add(SPACE, [one(1)])
    assert "hunter2" not in str(caught.value)
