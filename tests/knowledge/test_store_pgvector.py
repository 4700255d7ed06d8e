"""What is particular to the PostgreSQL store: its tables, its indexes, LangChain, agreement."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from lorebind_knowledge.declarations.vector_dbs import AnnIndexConfig
from lorebind_knowledge.errors import IndexMismatchError, StoreError, UsageError
from lorebind_knowledge.namespace import IndexKey
from lorebind_knowledge.records import Record, SearchOptions
from lorebind_knowledge.stores import MemoryStore
from lorebind_knowledge.stores.pgvector import rows as pgvector_rows
from lorebind_knowledge.stores.pgvector.ann import AnnIndex
from lorebind_knowledge.stores.pgvector.schema import Tables
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.testing.store_driver import EAST, INDEX, NORTH, ids, ramp, record, vector

from .test_store_agreement import INDEXES, Stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER = IndexKey(INDEX.namespace, 2)


@pytest.fixture
def store(make_store: Callable[..., PgvectorStore]) -> PgvectorStore:
    return make_store()


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def add(store: Any, *records: Record) -> None:
    store.upsert(records)
    for index, uri, generation in {(r.index, r.uri, r.generation): None for r in records}:
        store.publish(index, uri, generation)


def found(store: PgvectorStore, index: IndexKey = INDEX, **options: Any) -> list[str]:
    return ids(store.similarity_search(vector(EAST), SearchOptions(index, **options)))


def tables(db: psycopg.Connection) -> list[str]:
    query = """select relname from pg_class where relkind in ('r', 'v') and
        relnamespace = current_schema()::regnamespace order by 1"""
    return [name for (name,) in db.execute(query)]


def indexes(db: psycopg.Connection) -> dict[str, bool]:
    """The approximate indexes, and whether each is valid."""
    query = """select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = indexrelid
        join pg_am a on a.oid = c.relam where indrelid = to_regclass('knowledge_chunks_rows')
        and amname in ('hnsw', 'ivfflat')"""
    return dict(db.execute(query).fetchall())


# The tables.


def test_reading_makes_nothing(store: PgvectorStore, db: psycopg.Connection) -> None:
    """Until an index is opened nothing is made, and what asks for one says so."""
    with pytest.raises(StoreError, match=r"handbook.*knowledge_chunks.*nothing has been ingested"):
        found(store)
    store.drop(INDEX)
    assert tables(db) == []


def test_tables_of_any_name(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Stores of several tables do not see each other; a name that cannot be is refused."""
    names = ["Chunks", "select", "t" * 55]
    stores = [make_store(table=name) for name in names]
    for number, store in enumerate(stores):
        store.open(INDEX, 4)
        add(store, record(f"{number}"))
    for number, store in enumerate(stores):
        assert found(store) == [f"{number}"]
    assert set(names) < set(tables(db))
    for name in ("", "9", 'a"; drop table x; --', "t" * 56, "ä"):
        with pytest.raises(UsageError, match="name of a table"):
            make_store(table=name)


def test_many_make_the_tables_at_once(make_store: Callable[..., PgvectorStore]) -> None:
    """Stores that open their first index at the same moment make one set of tables."""
    stores = [make_store() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda store: store.open(INDEX, 4), stores))
    add(stores[0], record("a"))
    assert [found(store) for store in stores] == [["a"]] * 8


def test_without_leave_to_make_tables(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """With `ensure_schema: false` nothing is made, and the error has the SQL that does."""
    store = make_store(ensure_schema=False, ensure_index=True, ann_from=1)
    with pytest.raises(StoreError, match="table knowledge_chunks missing") as caught:
        store.open(INDEX, 4)
    assert tables(db) == []
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    store.open(INDEX, 4)
    add(store, record("a"))
    assert found(store) == ["a"]
    with pytest.raises(StoreError, match="index is missing") as caught:
        store.build_index(INDEX)
    assert indexes(db) == {}
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    assert list(indexes(db).values()) == [True]
    assert found(store) == ["a"]


def test_a_table_of_somebody_else(store: PgvectorStore, db: psycopg.Connection) -> None:
    """A table of another layout is left alone, and the error names it and what it lacks."""
    db.execute("create table knowledge_chunks (id bigint, content text)")
    with pytest.raises(StoreError, match=r"not one of Lorebind's.*embedding.*name another table"):
        store.open(INDEX, 4)
    with pytest.raises(StoreError, match="not one of Lorebind's"):
        found(store)


def test_a_newer_schema(make_store: Callable[..., PgvectorStore], db: psycopg.Connection) -> None:
    """Tables of a newer version are refused with the way out."""
    make_store().open(INDEX, 4)
    db.execute("update knowledge_chunks_version set version = 99")
    with pytest.raises(StoreError, match="newer version of Lorebind"):
        make_store().open(INDEX, 4)


def test_dropped_tables(store: PgvectorStore, db: psycopg.Connection) -> None:
    """Tables that somebody drops are an error, and are made anew when an index is opened."""
    store.open(INDEX, 4)
    schema = db.execute("select current_schema()").fetchone()
    assert schema is not None
    db.execute(f"drop schema {schema[0]} cascade; create schema {schema[0]}")
    with pytest.raises(StoreError, match="was the table dropped"):
        found(store)
    store.open(INDEX, 4)
    assert found(store) == []


def test_configured_dimension(make_store: Callable[..., PgvectorStore]) -> None:
    """Where the configuration names a dimension, an index of another one is refused."""
    with pytest.raises(IndexMismatchError, match=r"\b8\b.*\b4\b"):
        make_store(dimension=8).open(INDEX, 4)


def test_statistics_stay_right(store: PgvectorStore, db: psycopg.Connection) -> None:
    """What an index counts is what is published, whatever came and went."""
    store.open(INDEX, 4)
    add(store, record("a", text="one two"), record("b", text="three"))
    add(store, record("a", text="one two three four"))
    add(store, record("c", generation=2, text="five six"))
    store.publish(INDEX, "a.md", 2)
    add(store, record("d", uri="d.md", text="seven"))
    counted = "select records, words from knowledge_chunks_indexes"
    assert db.execute(counted).fetchall() == [(2, 3)]
    assert store.count(INDEX) == 2
    real = """select count(*), sum(length) from knowledge_chunks_rows
        join knowledge_chunks_docs using (version) where published"""
    assert db.execute(real).fetchall() == [(2, 3)]


def test_writers_of_the_same_record(store: PgvectorStore) -> None:
    """Of those who stage the same record at once, one wins, and none fails."""
    store.open(INDEX, 4)
    many = [record(f"{number}") for number in range(50)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: store.upsert(many), range(8)))
    store.publish(INDEX, "a.md", 1)
    assert store.count(INDEX) == 50


def test_writers_of_the_same_documents(make_store: Callable[..., PgvectorStore]) -> None:
    """Writers that stage and switch the same documents, in any order, wait for each other."""
    stores = [make_store() for _ in range(3)]
    stores[0].open(INDEX, 4)
    uris = [f"{number}.md" for number in range(12)]

    def write(number: int) -> None:
        store, order = stores[number % 3], uris[:: 1 if number % 2 else -1]
        records = [record(f"{uri}{n}", uri=uri, generation=number) for uri in order for n in "ab"]
        store.upsert(records)
        store.upsert(records[:6])
        store.replace_documents(INDEX, dict.fromkeys(order, number))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(1, 19)))
    # Whichever was the last, what had been staged since may have been deleted by it, or waits.
    stores[0].upsert([record(f"{uri}{n}", uri=uri, generation=99) for uri in uris for n in "ab"])
    stores[0].replace_documents(INDEX, dict.fromkeys(uris, 99))
    assert stores[1].count(INDEX) == 24
    assert len(found(stores[2], top_k=50)) == 24


def test_records_of_more_than_a_block(
    store: PgvectorStore, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many parts a call is written in, all of its records are there, or none."""
    monkeypatch.setattr(pgvector_rows, "_BLOCK", 7)
    store.open(INDEX, 4)
    many = [record(f"{n:02}", uri=f"{n % 3}.md") for n in range(50)]
    with pytest.raises(StoreError, match=r"bad\.md"):
        store.upsert([*many, record("bad", (1.0, 2.0), uri="bad.md")])
    assert db.execute("select count(*) from knowledge_chunks_rows").fetchone() == (0,)
    add(store, *many)
    assert sorted(found(store, top_k=60)) == [one.id for one in many]


def test_any_text_is_a_name(store: PgvectorStore) -> None:
    """Addresses and names of any length and characters are kept apart."""
    odd = replace(INDEX, namespace=replace(INDEX.namespace, tenant="a\0b'\"%s", kb="x" * 1000))
    store.open(odd, 4)
    uri = "https://example.com/" + "y" * 9000 + "\0'"
    add(store, record("a", index=odd, uri=uri), record("b", index=odd, uri=uri[:-1]))
    store.publish(odd, uri, 2)
    assert found(store, odd) == ["b"]
    assert set(store.fetch(odd, ["a", "b"])) == {"b"}


# Agreement with the other stores.


def words(rng: np.random.Generator) -> str:
    some = [
        "Running",
        "runs",
        "naïve",
        "NAIVE",
        "x",
        "the",
        "max_tokens",
        "don't",
        "漢字",
        "a" * 300,
    ]
    return " ".join(rng.choice(some, rng.integers(1, 30)))


def test_same_figures_as_in_memory(store: PgvectorStore) -> None:
    """Order, scores and raw figures are those of the memory store, filtered or not."""
    memory, rng = MemoryStore(), np.random.default_rng(5)
    records = [
        Record(
            f"{n:03}",
            INDEX,
            f"{n % 7}.md",
            1,
            words(rng),
            rng.standard_normal(48).astype(np.float32),
            {"n": int(rng.integers(0, 5)), "tags": list(rng.choice(["a", "b"], n % 3))},
            words(rng),
        )
        for n in range(300)
    ]
    for one in (memory, store):
        one.open(INDEX, 48)
        add(one, *records)
    for where in ({}, {"n": {"$gt": 2}}, {"tags": "a", "n": [1, 3]}, {"tags": "none"}):
        for top_k in (1, 7, 50, 400):
            options = SearchOptions(INDEX, top_k, where=where)
            query = rng.standard_normal(48).astype(np.float32)
            ours, theirs = (s.similarity_search(query, options) for s in (store, memory))
            assert ours == [replace(m, scores=o.scores) for m, o in zip(theirs, ours, strict=True)]
            assert [m.scores["dense"] for m in ours] == pytest.approx(
                [m.scores["dense"] for m in theirs], abs=1e-7
            )
            assert [m.generation for m in ours] == [1] * len(ours)
            for asked in ("run naive", "naive Naive 漢字", "x" * 3 + " " + "a" * 300, "don't"):
                ours, theirs = (s.lexical_search(asked, options) for s in (store, memory))
                assert [(m.id, m.score) for m in ours] == [(m.id, m.score) for m in theirs]
                assert [m.scores["lexical"] for m in ours] == pytest.approx(
                    [m.scores["lexical"] for m in theirs], rel=1e-9
                )
    store_page, memory_page = (
        s.lexical_search(" ".join(f"run word{n}" for n in range(60)), SearchOptions(INDEX, 20))
        for s in (store, memory)
    )
    assert ids(store_page) == ids(memory_page)


def test_agreement(new_dsn: Callable[[], str]) -> None:
    """Whatever is done to them, the memory store and this one give the same answers."""

    class OnPostgres(Stores):
        def __init__(self) -> None:
            super().__init__()
            self.stores[1].close()
            self.dsn = new_dsn()
            self.stores[1] = PgvectorStore(self.dsn)
            for index in INDEXES:
                self.both("open", index, 3)

        @rule()
        def reopen(self) -> None:
            self.stores[1].close()
            self.stores[1] = PgvectorStore(self.dsn)

    machine: type[RuleBasedStateMachine] = OnPostgres
    few = settings(max_examples=8, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(machine, settings=few)


# Approximate indexes.


def crowd(store: PgvectorStore, count: int, dimension: int, index: IndexKey = INDEX) -> Any:
    """Records around a few centres, opened and published; a query near one of them."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((8, dimension))
    rows = centres[rng.integers(0, 8, count)] + 0.5 * rng.standard_normal((count, dimension))
    store.open(index, dimension)
    add(
        store,
        *(
            Record(f"{n:05}", index, "a.md", 1, f"text {n}", row.astype(np.float32), {"n": n})
            for n, row in enumerate(rows)
        ),
    )
    return centres[0].astype(np.float32)


FORCED = "%20-c%20enable_seqscan%3Doff%20-c%20enable_bitmapscan%3Doff%20-c%20enable_sort%3Doff"


@pytest.mark.parametrize(
    ("settings", "metric", "dimension"),
    [
        ({}, "cosine", 32),
        ({"m": 8, "ef_construction": 32, "ef_search": 40}, "ip", 32),
        ({"type": "ivfflat", "lists": 4, "probes": 4}, "l2", 32),
        ({"name": "N" * 55}, "cosine", 2100),
    ],
    ids=["hnsw", "settings", "ivfflat", "halfvec"],
)
def test_approximate_search(
    make_store: Callable[..., PgvectorStore],
    db: psycopg.Connection,
    settings: dict[str, Any],
    metric: str,
    dimension: int,
) -> None:
    """The index is used, finds nearly all of what is nearest, and figures are exact."""
    config = AnnIndexConfig(**settings)
    # The planner would rather read so few rows one by one.
    store = make_store(FORCED, ensure_index=True, index=config, metric=metric, ann_from=1)
    exact = make_store()
    query = crowd(store, 300, dimension)
    store.build_index(INDEX)
    store.build_index(INDEX)
    assert list(indexes(db).values()) == [True]
    for where in ({}, {"n": {"$lt": 20}}):
        options = SearchOptions(INDEX, 20, where=where)
        nearly, truly = (s.similarity_search(query, options) for s in (store, exact))
        assert len(nearly) == len(truly) == 20
        figures = {match.id: match for match in truly}
        both = [match for match in nearly if match.id in figures]
        assert len(both) >= 18
        assert all(figures[match.id] == match for match in both)
        fewer = store.similarity_search(query, replace(options, top_k=7))
        assert fewer == nearly[:7]
    store.close()
    used = "select idx_scan from pg_stat_user_indexes where indexrelname = %s"
    deadline = time.monotonic() + 60
    # A connection counts what it used when it is at its end.
    while db.execute(used, list(indexes(db))).fetchone() == (0,):
        assert time.monotonic() < deadline


def test_a_filter_that_leaves_little(make_store: Callable[..., PgvectorStore]) -> None:
    """Where the index gives up before the filter has its fill, the search is exact."""
    poor = FORCED + "%20-c%20work_mem%3D64kB"
    config = AnnIndexConfig(ef_search=10)
    store = make_store(poor, ensure_index=True, index=config, ann_from=1)
    query = -crowd(store, 1500, 8)
    store.build_index(INDEX)
    options = SearchOptions(INDEX, 10, where={"n": {"$lt": 20}})
    assert store.similarity_search(query, options) == make_store().similarity_search(query, options)


def test_the_first_search_has_it_built(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """A large index gets its approximate one behind a search, a small one never."""
    store = make_store(ensure_index=True, ann_from=100)
    crowd(store, 99, 8, OTHER)
    query = crowd(store, 100, 8)
    store.similarity_search(query, SearchOptions(OTHER))
    assert "lorebind-pgvector" not in {thread.name for thread in threading.enumerate()}
    assert len(store.similarity_search(query, SearchOptions(INDEX))) == 5
    for thread in threading.enumerate():
        if thread.name == "lorebind-pgvector":
            thread.join(30)
    (name,) = indexes(db)
    assert indexes(db)[name]
    assert len(store.similarity_search(query, SearchOptions(INDEX))) == 5


def test_indexes_that_are_left_over(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """One whose making was cut off is made anew; one whose records are gone is removed."""
    store = make_store(ensure_index=True, ann_from=1)
    for index in (INDEX, OTHER):
        crowd(store, 20, 8, index)
        store.build_index(index)
    kept, gone = sorted(indexes(db))
    store.drop(OTHER)
    db.execute("update pg_index set indisvalid = false where indexrelid = %s::regclass", [kept])
    store.build_index(INDEX)
    assert indexes(db) == {kept: True}
    assert gone not in indexes(db)


def test_a_server_with_little_shared_memory(
    make_store: Callable[..., PgvectorStore],
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where processes cannot share what it takes to build an index, one builds it."""
    sql = AnnIndex.sql

    def refused_together(self: AnnIndex, *given: int) -> str:
        together = "current_setting('max_parallel_maintenance_workers')::integer > 0"
        return f"""do $$ begin if {together} then raise disk_full; end if; end $$;
            {sql(self, *given).replace("concurrently", "")}"""

    monkeypatch.setattr(AnnIndex, "sql", refused_together)
    store = make_store(ensure_index=True, ann_from=1)
    crowd(store, 20, 8)
    store.build_index(INDEX)
    assert list(indexes(db).values()) == [True]


def test_an_index_is_given_memory(
    make_store: Callable[..., PgvectorStore],
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An index is built with memory for the whole of it, up to a limit, and never with less."""
    seen: list[str] = []

    def sql(self: AnnIndex, *given: int) -> str:
        return "select 1"

    monkeypatch.setattr(AnnIndex, "sql", sql)
    ann = AnnIndex(Tables("t"), AnnIndexConfig(), "cosine")
    db.execute("create table t_indexes (key bigint); create table t_rows (x int)")
    for records in (1, 100_000, 100_000_000, 1):
        ann.build(db, 1, 384, records)
        row = db.execute("show maintenance_work_mem").fetchone()
        assert row is not None
        seen.append(row[0])
    assert seen == ["64MB", "251562kB", "1GB", "1GB"]


def test_vectors_too_long_for_an_index(make_store: Callable[..., PgvectorStore]) -> None:
    """A dimension that pgvector cannot index is refused when the index is opened."""
    with pytest.raises(UsageError, match=r"up to dimension 4000, and these have 5000"):
        make_store(ensure_index=True).open(INDEX, 5000)
    make_store().open(INDEX, 5000)


# Beside others.


SCRIPT = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tried here
from lorebind_knowledge.records import SearchOptions
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.testing.store_driver import EAST, INDEX, record, vector
store = PgvectorStore(sys.argv[1])
def search():
    return store.similarity_search(vector(EAST), SearchOptions(INDEX, 50))
store.open(INDEX, 4)
store.upsert([record("a")])
store.publish(INDEX, "a.md", 1)
stop = threading.Event()
def busy():
    while not stop.is_set():
        search()
thread = threading.Thread(target=busy)
thread.start()
for number in range(5):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert [m.id for m in search()][0] == "a"
            store.upsert([record(f"c{number}", uri=f"c{number}")])
            store.publish(INDEX, f"c{number}", 1)
            status = 0
        finally:
            os._exit(status)
    store.upsert([record(f"p{number}", uri=f"p{number}")])
    store.publish(INDEX, f"p{number}", 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert store.count(INDEX) == 11, store.count(INDEX)
store.close()
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork here")
def test_after_a_fork(dsn: str) -> None:
    """Parent and child both go on, each with connections of its own, while a thread searches."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, dsn]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg the error names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install 'lorebind\[postgres\]'"):
        PgvectorStore("postgresql://localhost/x")


def test_several_dimensions(store: PgvectorStore) -> None:
    """Indexes of several dimensions stand in one table, and each is searched by its own."""
    store.open(INDEX, 4)
    store.open(OTHER, 2)
    add(store, *(record(f"{n}", values) for n, values in enumerate(ramp(5))))
    add(store, record("x", (0.0, 1.0), index=OTHER))
    assert found(store) == list("01234")
    assert ids(store.similarity_search(vector((1.0, 1.0)), SearchOptions(OTHER))) == ["x"]
    with pytest.raises(StoreError, match="expected 4"):
        store.similarity_search(vector(NORTH[:2]), SearchOptions(INDEX))
