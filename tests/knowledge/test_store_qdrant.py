"""Features of the Qdrant store: locations, outages, layouts, and filters of a server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models

from lorebind_config.errors import StoreError
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import LostVectorsError, SearchHits, StoredVector
from lorebind_knowledge.stores.qdrant import store as store_module
from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
from lorebind_knowledge.stores.qdrant.filters import facts
from lorebind_knowledge.stores.qdrant.store import QdrantStore, requests
from lorebind_knowledge.testing.index_driver import Driver, record
from tests.conformance.qdrant_loopback import Loopback, serve
from tests.density import examples

KEY = "never-to-be-shown"
OWNER = IndexKey(Namespace("acme", "shop", "project", "docs"))
SPACE = Partition(OWNER, index_uid=0x123456789ABCDEF0, dimension=4)
EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)


@pytest.fixture
def loopback(socket_enabled: None) -> Iterator[Loopback]:
    with serve() as loopback:
        yield loopback


@pytest.fixture
def store(loopback: Loopback) -> Iterator[QdrantStore]:
    store = QdrantStore("docs", QdrantConnection(url=loopback.url))
    yield store
    store.close()


def stored(
    number: int, vector: Sequence[float] | np.ndarray = EAST, **metadata: Any
) -> StoredVector:
    return StoredVector(number, np.array(vector, np.float32), "a text", metadata)


def nearest(store: QdrantStore, k: int = 50, where: dict[str, Any] | None = None) -> SearchHits:
    return store.nearest(SPACE, np.array(EAST, np.float32), k, where or {}, None)


def numbers(store: QdrantStore, where: dict[str, Any] | None = None, k: int = 50) -> list[int]:
    return list(nearest(store, k, where).numbers)


def queries(loopback: Loopback) -> list[dict[str, Any]]:
    return [body for body in loopback.bodies if "query" in body]


def test_orderings_ask_for_the_field(store: QdrantStore, loopback: Loopback) -> None:
    """A comparison excludes points without the field, or far off; the caller decides the rest."""
    store.add(SPACE, [stored(1, year=2020), stored(2, year=2024), stored(3)])
    assert sorted(numbers(store, {"year": {"$gt": 2022}})) == [2]
    assert sorted(numbers(store, {"$not": {"year": {"$gt": 2022}}})) == [1, 2, 3]


def test_filters_are_pushed_down(store: QdrantStore, loopback: Loopback) -> None:
    """The server returns the k nearest that pass a filter, using indexed fields."""
    near = [stored(number, EAST, tags=["near"]) for number in range(1, 6)]
    store.add(SPACE, [*near, stored(6, NORTH, tags=["far", "away"], n=2)])
    assert numbers(store, {"tags": "far"}, 1) == [6]
    assert numbers(store, {"tags": {"$nin": ["near"]}, "n": 2.0}, 1) == [6]
    assert loopback.indexed["docs_4"] == {"space", "facts"}
    assert [query["limit"] for query in queries(loopback)] == [1, 1]


@pytest.mark.parametrize(
    "odd",
    [
        {"n": 2**70},
        {"n": -0.0},
        {"n": 1e308},
        {"a.b[0]": "x"},
        {"": 'a"b'},
        {"$": None},
        {"lone": "\ud800"},
        {"many": [f"tag-{number}" for number in range(2000)]},
    ],
    ids=str,
)
def test_odd_metadata(store: QdrantStore, loopback: Loopback, odd: dict[str, Any]) -> None:
    """Any JSON name and value is distinct from others, even a long one or invalid Unicode."""
    store.add(SPACE, [stored(1, **odd), stored(2), stored(3, other=odd)])
    ((name, value),) = odd.items()
    member = value[-1] if isinstance(value, list) else value
    assert numbers(store, {"$and": [{name: {"$eq": member}}]}) == [1]
    assert sorted(numbers(store, {"$not": {name: {"$exists": True}}})) == [2, 3]


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@given(
    st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=4, max_size=4)), st.data()
)
@settings(max_examples=examples(40))
def test_all_metrics_order_alike(
    metric: str, directions: list[list[float]], data: st.DataObject
) -> None:
    """The k nearest by cosine are nominated, including vectors of length 0."""
    vectors = [np.array(direction) for direction in directions]
    vectors = [vector / (np.linalg.norm(vector) or 1.0) for vector in vectors]
    store = QdrantStore("docs", metric=metric)
    store.add(SPACE, [stored(at, vector) for at, vector in enumerate(vectors, 1)])
    k = data.draw(st.integers(1, 12))
    hits = nearest(store, k)
    store.close()
    assert hits.vectors is not None
    cosines = hits.vectors[:, 0]
    best = sorted((vector[0] for vector in vectors), reverse=True)[:k]
    assert cosines == pytest.approx(best, abs=1e-6)
    for number, vector in zip(hits.numbers, hits.vectors, strict=True):
        assert vector == pytest.approx(vectors[number - 1], abs=1e-6)


def test_vectors_of_many_nominees_are_left_out() -> None:
    """More than a thousand hits come without vectors, which makes the response small."""
    store = QdrantStore("docs")
    store.add(SPACE, [stored(number) for number in range(1, 1201)])
    few, many = nearest(store, 1000), nearest(store, 1001)
    assert few.vectors is not None
    assert few.vectors.shape == (1000, 4)
    assert (many.vectors, len(many.numbers)) == (None, 1001)
    store.close()


def test_local_mode_looks_past_another_space() -> None:
    """Local mode finds the nearest of a space behind many nearer vectors of another one."""
    store = QdrantStore("docs")
    other = Partition(OWNER, index_uid=SPACE.index_uid + 1, dimension=4)
    store.add(other, [stored(number) for number in range(1, 60)])
    store.add(SPACE, [stored(number, NORTH) for number in range(1, 4)])
    assert len({1, 2, 3}.intersection(numbers(store, k=2))) == 2
    assert nearest(store, k=2).vectors is not None
    assert sorted(numbers(store, k=5)) == [1, 2, 3]
    store.close()


def test_what_a_point_is(store: QdrantStore, loopback: Loopback) -> None:
    """A point's id has its space's index_uid and its number; it has no text and no metadata."""
    store.add(SPACE, [stored(2**63 - 1, uri="a.md")])
    (point,) = loopback.engine.scroll("docs_4")[0]
    assert point.id == "12345678-9abc-def0-7fff-ffffffffffff"
    assert point.payload == {"space": SPACE.name, "facts": facts({"uri": "a.md"})}
    assert numbers(store) == list(store.get(SPACE, [2**63 - 1])) == [2**63 - 1]


def test_dimensions_have_collections_of_their_own(store: QdrantStore, loopback: Loopback) -> None:
    """Vectors of different dimensions have separate collections."""
    other = Partition(OWNER, index_uid=SPACE.index_uid + 1, dimension=2)
    store.add(SPACE, [stored(1)])
    store.add(other, [stored(1, (0.0, 1.0))])
    names = {collection.name for collection in loopback.engine.get_collections().collections}
    assert names == {"docs_4", "docs_2"}
    assert store.count(SPACE) == store.count(other) == 1


@pytest.mark.parametrize(("floats", "tags"), [(200_000, 0), (4, 150_000), (100_000, 80_000)])
def test_requests_are_small_enough(floats: int, tags: int) -> None:
    """Requests stay below a server's limit of 32 MB, for any vectors and facts."""
    point = models.PointStruct(
        id="12345678-9abc-def0-7fff-ffffffffffff",
        vector=[-1.0000000116860974e-07] * floats,
        payload={"space": SPACE.name, "facts": ["0" * 24] * tags},
    )
    size = len(point.model_dump_json())
    parts = list(requests([point] * 20))
    assert sum(map(len, parts)) == 20
    assert all(len(part) * size < 32 * 2**20 for part in parts)
    assert len(parts) < 20


def test_much_takes_several_requests(store: QdrantStore, loopback: Loopback) -> None:
    """Large reads and deletions take several requests, and are complete."""
    every = range(1, 601)
    store.add(SPACE, [stored(number) for number in every])
    assert sorted(store.get(SPACE, every)) == list(every)
    store.delete(SPACE, range(1, 25_001))
    assert store.count(SPACE) == 0
    read = [len(body["ids"]) for body in loopback.bodies if "ids" in body]
    assert read == [256, 256, 88]
    written, *deleted = [len(body["points"]) for body in loopback.bodies if "points" in body]
    assert (written, deleted) == (600, [10_000, 10_000, 5000])


def test_adding_that_was_cut_off(store: QdrantStore, loopback: Loopback) -> None:
    """The error has the reason; adding the same vectors again stores each once."""
    vectors = [stored(number, tags=["x" * number]) for number in range(1, 5)]
    store.add(SPACE, vectors[:2])

    def fail(path: str) -> None:
        raise ValueError("disk is full")

    loopback.before = fail
    with pytest.raises(StoreError, match="disk is full"):
        store.add(SPACE, vectors)
    loopback.before = lambda path: None
    store.add(SPACE, vectors)
    assert store.count(SPACE) == 4


def test_a_collection_that_is_gone(store: QdrantStore, loopback: Loopback) -> None:
    """A missing collection is empty; the next addition creates it with its payload indexes."""
    store.add(SPACE, [stored(1, tag="a")])
    loopback.engine.delete_collection("docs_4")
    loopback.indexed.clear()
    assert (store.count(SPACE), numbers(store), store.get(SPACE, [1])) == (0, [], {})
    store.delete(SPACE, [1])
    store.drop(SPACE)
    store.add(SPACE, [stored(2, tag="a")])
    assert numbers(store, {"tag": "a"}) == [2]


def test_two_that_make_a_collection_at_once(loopback: Loopback) -> None:
    """Two concurrent creations of a collection both succeed."""
    stores = [QdrantStore("docs", QdrantConnection(url=loopback.url)) for _ in range(4)]
    start = threading.Barrier(len(stores))

    def add(number: int, store: QdrantStore) -> None:
        start.wait()
        store.add(SPACE, [stored(number)])

    threads = [threading.Thread(target=add, args=pair) for pair in enumerate(stores, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(stores[0])) == [1, 2, 3, 4]
    for store in stores:
        store.close()


def test_a_collection_of_another_metric(loopback: Loopback) -> None:
    """A collection with another metric is refused instead of misread."""
    first = QdrantStore("docs", QdrantConnection(url=loopback.url), metric="l2")
    first.add(SPACE, [stored(1)])
    second = QdrantStore("docs", QdrantConnection(url=loopback.url))
    with pytest.raises(StoreError, match="set the metric that it has"):
        second.add(SPACE, [stored(2)])
    assert numbers(first) == [1]
    first.close()
    second.close()


def operations(store: QdrantStore) -> list[Callable[[], Any]]:
    return [
        lambda: store.add(SPACE, [stored(1)]),
        lambda: nearest(store),
        lambda: store.get(SPACE, [1]),
        lambda: store.delete(SPACE, [1]),
        lambda: store.count(SPACE),
        lambda: store.drop(SPACE),
    ]


def test_a_server_that_is_not_there(socket_enabled: None) -> None:
    """In every operation, the error of an outage names the server and what to check."""
    store = QdrantStore("docs", QdrantConnection(url="http://user:secret@127.0.0.1:9"))
    for operation in operations(store):
        with pytest.raises(
            StoreError, match=r"http://127\.0\.0\.1:9: .*check that the server"
        ) as caught:
            operation()
        assert "secret" not in str(caught.value)
    store.close()


def test_an_address_of_something_else(loopback: Loopback) -> None:
    """A 404 from a server that is not Qdrant is an error, not an empty collection."""
    store = QdrantStore("docs", QdrantConnection(url=f"{loopback.url}/elsewhere"))
    for operation in operations(store):
        with pytest.raises(StoreError, match=r"not Qdrant \(404\); check the url"):
            operation()
    store.close()


def test_a_server_by_a_variable_is_not_told(socket_enabled: None) -> None:
    """Messages show the variable of an address instead of its value."""
    address = "http://user:{{ .env.KEY }}@{{ .env.PLACE }}"
    store = QdrantStore(
        "docs", QdrantConnection(url="http://user:key@127.0.0.1:9", address_as_written=address)
    )
    with pytest.raises(StoreError, match=r"qdrant store http://{{ \.env\.PLACE }}: ") as caught:
        numbers(store)
    assert "127.0.0.1" not in str(caught.value)
    store.close()


def test_a_slow_server(loopback: Loopback) -> None:
    """A request that takes longer than `timeout_seconds` fails."""
    answering = threading.Event()
    loopback.before = lambda path: answering.wait(30)  # type: ignore[assignment]
    store = QdrantStore("docs", QdrantConnection(url=loopback.url, timeout_seconds=0.1))
    with pytest.raises(StoreError, match=r"timed out.*timeout_seconds"):
        store.count(SPACE)
    answering.set()
    store.close()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_the_api_key(loopback: Loopback) -> None:
    """The API key is sent; the error of a refused key does not show it."""
    loopback.api_key = KEY
    store = QdrantStore("docs", QdrantConnection(url=loopback.url, api_key=KEY))
    store.add(SPACE, [stored(1)])
    store.close()
    wrong = QdrantStore("docs", QdrantConnection(url=loopback.url, api_key=f"{KEY}-wrong"))
    for operation in operations(wrong):
        with pytest.raises(StoreError, match=r"refuses the api key.*auth\.api_key") as caught:
            operation()
        assert KEY not in str(caught.value)
    wrong.close()


def test_reads_ask_for_consistency(loopback: Loopback) -> None:
    """Every read that supports them sends the consistency and the exact search."""
    connection = QdrantConnection(url=loopback.url)
    store = QdrantStore("docs", connection, consistency="majority", exact=True)
    store.add(SPACE, [stored(1)])
    loopback.seen.clear()
    assert numbers(store) == list(store.get(SPACE, [1])) == [1]
    assert len(loopback.seen) == 2
    assert all(parameters["consistency"] == ["majority"] for _, parameters in loopback.seen)
    assert [query["params"]["exact"] for query in queries(loopback)] == [True]
    store.close()


def test_the_approximate_index(loopback: Loopback) -> None:
    """Large spaces use the server's own index; their size is an estimate of the server's."""
    store = QdrantStore("docs", QdrantConnection(url=loopback.url), approximate_from=3)
    other = Partition(OWNER, index_uid=SPACE.index_uid + 1, dimension=4)
    store.add(SPACE, [stored(1), stored(2)])
    store.add(other, [stored(1), stored(2), stored(3)])
    for space, is_small in ((SPACE, True), (other, False)):
        loopback.bodies.clear()
        for _ in range(2):
            hits = store.nearest(space, np.array(EAST, np.float32), 5, {}, None)
            assert (len(hits.numbers), hits.is_exact) == (2 if is_small else 3, is_small)
        assert [query["params"]["exact"] for query in queries(loopback)] == [is_small, is_small]
        assert [body["exact"] for body in loopback.bodies if "exact" in body] == [False]
    assert (store.is_exact, QdrantStore("docs").is_exact) == (False, True)
    store.close()


def test_a_space_that_grows(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a space is looked up again from time to time, and after it was dropped."""
    store = QdrantStore("docs", QdrantConnection(url=loopback.url), approximate_from=2)
    store.add(SPACE, [stored(1)])
    assert nearest(store).is_exact
    store.add(SPACE, [stored(2)])
    assert nearest(store).is_exact
    monkeypatch.setattr(store_module, "_SECONDS_BETWEEN_LOOKS", 0)
    store.drop(SPACE)
    store.add(SPACE, [stored(1), stored(2)])
    assert not nearest(store).is_exact
    store.delete(SPACE, [1])
    assert nearest(store).is_exact
    store.close()


def test_searches_count_nothing_exactly(loopback: Loopback) -> None:
    """A filtered search that finds nothing notices lost vectors without counting all of them."""
    to = Driver(QdrantStore("docs", QdrantConnection(url=loopback.url)), Catalog())
    entry = to.open()
    to.add(*(record(f"{at}", n=at) for at in range(30)))
    loopback.bodies.clear()
    assert to.search(where={"n": 99}) == []
    to.store.drop(entry.space)
    with pytest.raises(LostVectorsError):
        to.search(where={"n": 3})
    assert [body["exact"] for body in loopback.bodies if "exact" in body] == [False, False]
    to.close()


# qdrant-client leaves the lock file open when it finds the folder locked.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_serves_one_process(tmp_path: Path) -> None:
    """Local mode locks its folder: another client fails, and stores of one process share it."""
    folder = tmp_path / "qdrant"
    store = QdrantStore("docs", QdrantConnection(path=folder))
    other = QdrantClient(path=str(folder))
    with pytest.raises(StoreError, match="another process uses the folder"):
        store.add(SPACE, [stored(1)])
    other.close()
    store.add(SPACE, [stored(1)])
    twin = QdrantStore("docs", QdrantConnection(path=folder))
    twin.add(SPACE, [stored(2)])
    twin.close()
    assert sorted(numbers(store)) == [1, 2]
    store.close()
    QdrantClient(path=str(folder)).close()  # the lock is free now


def test_what_a_folder_keeps(tmp_path: Path) -> None:
    """Vectors are found again when the folder is opened again."""
    store = QdrantStore("docs", QdrantConnection(path=tmp_path / "qdrant"))
    store.add(SPACE, [stored(1, (0.6, 0.8, 0.0, 0.0), tag="x"), stored(2, NORTH)])
    before = nearest(store)
    store.close()
    again = QdrantStore("docs", QdrantConnection(path=tmp_path / "qdrant"))
    after = nearest(again)
    assert after.numbers == before.numbers == [1, 2]
    assert np.array_equal(after.vectors, before.vectors)  # type: ignore[arg-type]
    assert list(again.nearest(SPACE, np.array(EAST, np.float32), 9, {}, [1]).numbers) == [1]
    again.close()


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    """Reading from a store in a folder does not create the folder."""
    store = QdrantStore("docs", QdrantConnection(path=tmp_path / "qdrant"))
    _, *others = operations(store)
    for operation in others:
        operation()
    store.close()
    assert not (tmp_path / "qdrant").exists()


@pytest.mark.parametrize("place", ["server", "folder", "memory"])
def test_a_closed_store(loopback: Loopback, tmp_path: Path, place: str) -> None:
    """Every call of a closed store is an error, and it may be closed again."""
    places: dict[str, dict[str, Any]] = {
        "server": {"url": loopback.url},
        "folder": {"path": tmp_path / "qdrant"},
        "memory": {},
    }
    store = QdrantStore("docs", QdrantConnection(**places[place]))
    store.close()
    store.close()
    for operation in operations(store):
        with pytest.raises(StoreError, match="the store is closed"):
            operation()
    assert not (tmp_path / "qdrant").exists()


def test_a_folder_asked_by_many_threads(tmp_path: Path) -> None:
    """Threads take turns with local mode, which is not thread-safe."""
    store = QdrantStore("docs", QdrantConnection(path=tmp_path / "qdrant"))
    store.add(SPACE, [stored(1000)])
    errors: list[Exception] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 10):
                store.add(SPACE, [stored(number)])
                assert number in numbers(store)
                store.delete(SPACE, [number])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (1, 101, 201, 301)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert numbers(store) == [1000]
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("place", ["server", "folder"])
def test_after_a_fork(loopback: Loopback, tmp_path: Path, place: str) -> None:
    """A child process opens its own sockets to a server; a folder in the child is an error."""
    on_server = place == "server"
    store = QdrantStore(
        "docs", QdrantConnection(**({"url": loopback.url} if on_server else {"path": tmp_path}))
    )
    store.add(SPACE, [stored(1)])
    child = os.fork()
    if child == 0:
        try:
            passed = numbers(store) == [1]
        except StoreError as error:
            passed = not on_server and "before this process was forked" in str(error)
        os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert numbers(store) == [1]
    store.close()
