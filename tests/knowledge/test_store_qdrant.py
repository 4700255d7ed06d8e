"""What is particular to the Qdrant store: layouts, outages, cut-off writers, agreement."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from qdrant_client.local.payload_filters import check_filter

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.filters import compile_filter
from lorebind_knowledge.records import RecordFilter, SearchOptions
from lorebind_knowledge.stores import MemoryStore
from lorebind_knowledge.stores.qdrant.filters import facts, narrow
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing.store_driver import EAST, INDEX, NORTH, ids, record, vector
from tests.conformance.journey import build, travel
from tests.conformance.qdrant_loopback import Loopback, serve

from .like_memory import check_like_memory, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = "never-to-be-shown"

scalars = st.none() | st.booleans() | st.sampled_from([-1, 0, 1, 2, 0.5, 1.0, 2**53 + 1, "", "a"])
metadatas = st.dictionaries(
    st.sampled_from(["x", "a.b", ""]), scalars | st.lists(scalars, max_size=2), max_size=3
)
fields = st.dictionaries(
    st.sampled_from(["x", "a.b", ""]),
    scalars
    | st.lists(scalars, max_size=2)
    | st.fixed_dictionaries({"$ne": scalars})
    | st.fixed_dictionaries({"$nin": st.lists(scalars, max_size=2)})
    | st.fixed_dictionaries({"$exists": st.booleans()})
    | st.dictionaries(
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
        st.sampled_from([0, 1, 0.5, 2**53 + 1, "a"]),
        min_size=1,
    ),
    max_size=2,
)
wheres = st.recursive(
    fields,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$not": inner}),
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=4,
)


@pytest.fixture
def loopback(socket_enabled: None) -> Iterator[Loopback]:
    with serve() as loopback:
        yield loopback


@pytest.fixture
def store(loopback: Loopback) -> Iterator[QdrantStore]:
    store = QdrantStore("docs", url=loopback.url)
    store.open(INDEX, 4)
    yield store
    store.close()


def found(store: QdrantStore, top_k: int = 50) -> list[str]:
    return ids(store.similarity_search(vector(EAST), SearchOptions(INDEX, top_k)))


@given(metadatas, wheres)
@settings(max_examples=300, deadline=None)
def test_filters_are_narrowed_rightly(metadata: dict[str, Any], where: dict[str, Any]) -> None:
    """What passes a filter meets its condition; where that is exact, nothing else does."""
    condition, exact = narrow(where)
    payload = {"metadata": metadata, "lorebind": {"facts": facts(metadata)}}
    met = condition is None or check_filter(models.Filter(must=[condition]), payload, 1, {})
    passes = compile_filter(where)(metadata)
    assert met == passes if exact else met or not passes


def test_equality_is_asked_of_the_server() -> None:
    """Equality, membership and existence need no second look; orderings do."""
    for where in ({"a": 1}, {"a": {"$ne": None}}, {"$not": {"a": ["x"], "b": {"$in": []}}}):
        assert narrow(where).exact
    assert not narrow({"a": {"$gt": 1}}).exact
    assert narrow({"a": {"$gt": 1}}).condition is not None


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_answers_are_those_of_the_memory_store(metric: str, data: st.DataObject) -> None:
    """Order, scores, ties and cuts agree, whatever the collection orders by."""
    check_like_memory(QdrantStore("docs", metric=metric), data, most=30)


def test_order_beyond_one_request() -> None:
    """Where very many tie, and where a filter lets few through, the answer is still the right one.

    The first nominations hold neither the first by id nor any that passes.
    """
    store = QdrantStore("docs")
    store.open(INDEX, 4)
    near = [record(f"n{at:03}", (1.0, 0.01, 0.0, 0.0), n=at) for at in reversed(range(300))]
    store.upsert([*near, record("far", (1.0, 9.0, 0.0, 0.0), n=1000)])
    store.publish(INDEX, "a.md", 1)
    assert found(store, 3) == ["n000", "n001", "n002"]
    options = SearchOptions(INDEX, 2, where={"n": {"$gt": 298}})
    assert ids(store.similarity_search(vector(EAST), options)) == ["n299", "far"]
    options = SearchOptions(INDEX, 2)
    assert ids(store.similarity_search(vector((0, 0, 1, 0)), options)) == ["far", "n000"]
    store.close()


words = st.lists(
    st.sampled_from(
        ["engine", "engines", "bread", "is", "the", "naïve", "漢字", "42", "snake_case"]
    ),
    max_size=12,
).map(" ".join)


@example(["", "", "engine"], "engine", 1)
@given(st.lists(words, min_size=1, max_size=25), words, st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_words_weigh_what_they_weigh_in_sqlite(texts: list[str], query: str, top_k: int) -> None:
    """BM25 is that of FTS5, whose figures the memory store gives."""
    stores = [MemoryStore(), QdrantStore("docs")]
    found = []
    for store in stores:
        store.open(INDEX, 4)
        publish(store, *(record(f"{at:02}", text=text) for at, text in enumerate(texts)))
        found.append(store.lexical_search(query.replace("_", " "), SearchOptions(INDEX, top_k)))
        store.close()
    expected, got = found
    assert ids(got) == ids(expected)
    for theirs, ours in zip(expected, got, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)
        assert ours.scores["lexical"] == pytest.approx(theirs.scores["lexical"], abs=1e-5)


def test_words_of_many_records() -> None:
    """The best by words is found where the sparse vector alone would not nominate it first."""
    stores = [MemoryStore(), QdrantStore("docs")]
    rng = np.random.default_rng(5)
    vocabulary = [f"word{at}" for at in range(12)]
    texts = [
        " ".join(rng.choice(vocabulary, size=rng.integers(1, 40)).tolist()) for _ in range(250)
    ]
    found = []
    for store in stores:
        store.open(INDEX, 4)
        # The first batch is short texts: what is usual then is not what is usual later.
        for uri, part in (("a.md", ["word1"] * 5), ("b.md", texts)):
            store.upsert([record(f"{uri}{at:03}", uri=uri, text=t) for at, t in enumerate(part)])
            store.publish(INDEX, uri, 1)
        found.append(store.lexical_search("word3 word4 word5", SearchOptions(INDEX, 5)))
        store.close()
    assert ids(found[0]) == ids(found[1])


def test_langchain_opens_it() -> None:
    """langchain-qdrant finds texts and metadata in the collection as its own."""
    store = QdrantStore("docs")
    store.open(INDEX, 4)
    publish(store, record("a", text="kept", title="T", tags=["x"]), record("b", NORTH, text="no"))
    client = store._connection.ask(lambda client: client)
    theirs = QdrantVectorStore(client, "docs_4", embedding=DeterministicFakeEmbedding(size=4))
    document, score = theirs.similarity_search_with_score_by_vector(list(EAST), k=1)[0]
    assert (document.page_content, round(score, 5)) == ("kept", 1.0)
    assert document.metadata["title"] == "T"
    tagged = models.FieldCondition(key="metadata.tags", match=models.MatchValue(value="x"))
    hits = theirs.similarity_search("q", k=5, filter=models.Filter(must=[tagged]))
    assert [hit.page_content for hit in hits] == ["kept"]
    store.close()


@pytest.mark.parametrize("step", range(1, 6))
def test_cut_off_publishing_is_never_seen(
    store: QdrantStore, loopback: Loopback, step: int
) -> None:
    """Wherever a writer is cut off, readers find one generation, whole, and the next one mends."""
    publish(store, record("old1"), record("old2"))
    store.upsert([record("new1", generation=2), record("new2", generation=2)])
    asked = 0

    def fail(path: str) -> None:
        nonlocal asked
        asked += path.endswith(("/points", "/batch", "/delete", "/scroll"))
        if asked >= step:
            raise ConnectionError("cut off")

    loopback.before = fail
    with pytest.raises(StoreError, match="cut off"):
        store.publish(INDEX, "a.md", 2)
    loopback.before = lambda path: None
    assert found(store) == ["old1", "old2"]
    publish(store, record("other", NORTH, uri="b.md"))
    assert found(store) == ["old1", "old2", "other"]
    store.publish(INDEX, "a.md", 2)
    assert found(store) == ["new1", "new2", "other"]
    assert store.count(INDEX) == 3
    assert store.delete_by_filter(RecordFilter(INDEX, except_generation=2)) == 3
    assert found(store) == ["new1", "new2"]


def test_failed_upsert_leaves_nothing(store: QdrantStore, loopback: Loopback) -> None:
    """Records that need several requests are all there or none, and the error says why."""

    def fail(path: str) -> None:
        if path == "/collections/docs_4/points" and len(str(loopback.bodies[-1])) > 15 * 2**20:
            raise ValueError("disk is full")

    loopback.before = fail
    big = "x" * (17 * 2**20)
    with pytest.raises(StoreError, match="disk is full"):
        store.upsert([record("a"), record("b", text=big)])
    loopback.before = lambda path: None
    assert store.delete_by_filter(RecordFilter(INDEX)) == 0


def test_a_reader_that_was_overtaken_begins_again(store: QdrantStore, loopback: Loopback) -> None:
    """A search during which a generation is published and the old one deleted has no gap."""
    publish(store, record("old"))
    writer = QdrantStore("docs", url=loopback.url)
    overtaken = 0

    def overtake(path: str) -> None:
        nonlocal overtaken
        if path.endswith("/query") and threading.current_thread().name != "writer":
            overtaken += 1
            loopback.before = lambda path: None
            publish(writer, record("new", generation=2))
            writer.delete_by_filter(RecordFilter(INDEX, except_generation=2))

    loopback.before = overtake
    assert found(store) == ["new"]
    assert overtaken == 1
    writer.close()


def test_a_server_that_is_not_there(socket_enabled: None) -> None:
    """An outage names the server and what to check, in every operation."""
    store = QdrantStore("docs", url="http://user:secret@127.0.0.1:9")
    operations: list[Callable[[], Any]] = [
        lambda: found(store),
        lambda: store.open(INDEX, 4),
        lambda: store.upsert([record("a")]),
        lambda: store.delete_by_filter(RecordFilter(INDEX)),
        lambda: store.count(INDEX),
    ]
    for operation in operations:
        with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9: .*check that the server"):
            operation()
    store.close()


def test_a_server_by_a_variable_is_not_told(socket_enabled: None) -> None:
    """An address that a variable names is called by the variable."""
    address = "http://user:{{ .env.KEY }}@{{ .env.PLACE }}"
    store = QdrantStore("docs", url="http://user:key@127.0.0.1:9", address_as_written=address)
    with pytest.raises(StoreError, match=r"qdrant store http://{{ \.env\.PLACE }}: ") as caught:
        found(store)
    assert "127.0.0.1" not in str(caught.value)
    store.close()


def test_a_slow_server(loopback: Loopback) -> None:
    """A request that takes longer than `timeout_seconds` is given up."""
    answering = threading.Event()
    loopback.before = lambda path: answering.wait(30)  # type: ignore[assignment,return-value]
    store = QdrantStore("docs", url=loopback.url, timeout_seconds=0.1)
    with pytest.raises(StoreError, match=r"timed out.*timeout_seconds"):
        store.open(INDEX, 4)
    answering.set()
    store.close()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_the_api_key(loopback: Loopback) -> None:
    """It is sent; one that is refused is a named error that does not show it."""
    loopback.api_key = KEY
    store = QdrantStore("docs", url=loopback.url, api_key=KEY)
    store.open(INDEX, 4)
    store.close()
    wrong = QdrantStore("docs", url=loopback.url, api_key=f"{KEY}-wrong")
    with pytest.raises(StoreError, match=r"refuses the api key.*auth\.api_key") as caught:
        wrong.open(INDEX, 4)
    assert KEY not in str(caught.value)
    wrong.close()


def test_reads_ask_for_consistency(loopback: Loopback) -> None:
    """Every read that can says how many replicas must agree, and that it compares with all."""
    store = QdrantStore("docs", url=loopback.url, consistency="majority")
    store.open(INDEX, 4)
    publish(store, record("a", text="word"))
    loopback.seen.clear()
    loopback.bodies.clear()
    assert found(store) == ["a"]
    assert len(loopback.seen) == 4
    assert all(parameters["consistency"] == ["majority"] for _, parameters in loopback.seen)
    searches = [body["params"]["exact"] for body in loopback.bodies if "query" in body]
    assert searches == [True]
    store.close()


def test_the_approximate_index(loopback: Loopback) -> None:
    """With `exact: false` the server's own index is asked."""
    store = QdrantStore("docs", url=loopback.url, exact=False)
    store.open(INDEX, 4)
    publish(store, record("a"))
    assert found(store) == ["a"]
    assert [b["params"]["exact"] for b in loopback.bodies if "query" in b] == [False]
    store.close()


def test_a_collection_that_is_gone(store: QdrantStore, loopback: Loopback) -> None:
    """Records that somebody else removed are missed: an error with a way out, not an answer."""
    publish(store, record("a"), record("b"))
    loopback.engine.delete("docs_4", points_selector=models.Filter(must=[]))
    with pytest.raises(StoreError, match=r"should hold 2 records.*has 0.*--strategy replace"):
        found(store)
    loopback.engine.delete_collection("docs_4")
    for operation in (lambda: found(store), lambda: store.open(INDEX, 4)):
        with pytest.raises(StoreError, match=r"is gone.*--strategy replace"):
            operation()


def test_another_metric_than_the_collection_has(loopback: Loopback) -> None:
    """A collection that was made with another metric is refused rather than misread."""
    first = QdrantStore("docs", url=loopback.url, metric="l2")
    first.open(INDEX, 4)
    second = QdrantStore("docs", url=loopback.url)
    publish(second, record("a"))
    assert found(second) == ["a"]
    second.drop(INDEX)
    with pytest.raises(StoreError, match="set the metric that it has"):
        second.open(INDEX, 4)
    first.close()
    second.close()


# qdrant-client leaves the lock's file open when it finds the folder locked.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_serves_one_process(tmp_path: Path) -> None:
    """Local mode locks its folder: another client is an error, stores of one process share it."""
    folder = tmp_path / "qdrant"
    store = QdrantStore("docs", path=folder)
    other = QdrantClient(path=str(folder))
    with pytest.raises(StoreError, match="another process uses the folder"):
        store.open(INDEX, 4)
    other.close()
    store.open(INDEX, 4)
    twin = QdrantStore("docs", path=folder)
    publish(twin, record("a"))
    twin.close()
    assert found(store) == ["a"]
    store.close()
    QdrantClient(path=str(folder)).close()  # nobody holds it any longer


def test_what_a_folder_keeps(tmp_path: Path) -> None:
    """Indexes, published and staged records are there when the folder is opened again."""
    store = QdrantStore("docs", path=tmp_path / "qdrant")
    store.open(INDEX, 4)
    publish(store, record("a", (1.0, 2.0, 3.0, 4.0), text="kept", tags=["x"]))
    store.upsert([record("b", generation=2)])
    before = store.similarity_search(vector(EAST), SearchOptions(INDEX))
    store.close()
    again = QdrantStore("docs", path=tmp_path / "qdrant")
    assert again.similarity_search(vector(EAST), SearchOptions(INDEX)) == before
    with pytest.raises(StoreError, match=r"\b4\b.*\b9\b"):
        again.open(INDEX, 9)
    again.publish(INDEX, "a.md", 2)
    assert found(again) == ["b"]
    again.close()


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    """A store in a folder that is only asked makes no folder."""
    store = QdrantStore("docs", path=tmp_path / "qdrant")
    with pytest.raises(StoreError, match="nothing has been ingested"):
        found(store)
    assert store.delete_by_filter(RecordFilter(INDEX)) == 0
    store.drop(INDEX)
    store.close()
    assert not (tmp_path / "qdrant").exists()


def test_dimensions_have_collections_of_their_own(store: QdrantStore, loopback: Loopback) -> None:
    """Vectors of different length live beside each other."""
    other = record("b", (1.0, 0.0), index=type(INDEX)(INDEX.namespace, 2))
    store.open(other.index, 2)
    publish(store, record("a"), other)
    names = {collection.name for collection in loopback.engine.get_collections().collections}
    assert names == {"docs_4", "docs_2", "docs_indexes"}
    assert loopback.engine.count("docs_4").count == loopback.engine.count("docs_2").count == 1


def test_an_index_whose_removal_was_cut_off(store: QdrantStore, loopback: Loopback) -> None:
    """It counts as gone, and opened again it is empty."""
    publish(store, record("a"))

    def fail(path: str) -> None:
        if path.endswith("/delete"):
            raise ConnectionError("cut off")

    loopback.before = fail
    with pytest.raises(StoreError, match="cut off"):
        store.drop(INDEX)
    loopback.before = lambda path: None
    with pytest.raises(StoreError, match="nothing has been ingested"):
        found(store)
    store.open(INDEX, 4)
    assert found(store) == []
    assert loopback.engine.count("docs_4").count == 0


@pytest.mark.parametrize("path", ["qdrant", ":memory:"])
def test_end_to_end_in_local_mode(tmp_path: Path, path: str) -> None:
    """A project ingests, searches, edits, deletes and replaces; a folder is read again later."""
    declared = {"type": "qdrant", "config": {"path": path}}
    with build(tmp_path, declared) as project:
        travel(project, tmp_path)
        before = project.query("docs", "server").matches
    if path == "qdrant":
        with build(tmp_path, declared) as project:
            assert project.query("docs", "server").matches == before


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_end_to_end_on_a_server(tmp_path: Path, loopback: Loopback) -> None:
    """The same over HTTP, with a key from the environment; lexical search too."""
    loopback.api_key = KEY
    config = {
        "url": "{{ .env.QDRANT_URL }}",
        "auth": {"api_key": "{{ .secrets.QDRANT_KEY }}"},
        "collection": "handbook",
    }
    environ = {"QDRANT_URL": loopback.url, "QDRANT_KEY": KEY}
    with build(tmp_path, {"type": "qdrant", "config": config}, environ=environ) as project:
        travel(project, tmp_path)
        matches = project.query("docs", "packages installed", strategy="lexical").matches
        assert matches[0].metadata["uri"].endswith("setup.md")
    names = {collection.name for collection in loopback.engine.get_collections().collections}
    assert "handbook_indexes" in names
