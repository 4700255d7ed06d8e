"""Features of the PostgreSQL store: its table, its approximate indexes, forks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest
from pydantic import ValidationError

from lorebind_config.errors import IndexMismatchError, StoreError, UsageError
from lorebind_config.filters import compile_filter
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import ApproximateStore, StoredVector, VectorStore
from lorebind_knowledge.stores.pgvector import store as store_module
from lorebind_knowledge.stores.pgvector.ann import AnnIndex
from lorebind_knowledge.stores.pgvector.ann_builds import AnnBuilds
from lorebind_knowledge.stores.pgvector.settings import AnnIndexConfig
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.pgvector.table import Table
from tests.processes import run_program

INDEX = IndexKey(Namespace("acme", "support", "project", "handbook"))
SPACE = Partition(INDEX, 2**62 - 1, 4)
OTHER = Partition(INDEX, 77, 4)
EAST = np.array([1, 0, 0, 0], np.float32)


@pytest.fixture
def store(make_store: Callable[..., PgvectorStore]) -> PgvectorStore:
    return make_store()


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def stored(number: int, vector: np.ndarray = EAST, **metadata: Any) -> StoredVector:
    return StoredVector(number, vector, "", metadata)


def hits(store: PgvectorStore, space: Partition = SPACE, k: int = 100, **where: Any) -> list[int]:
    vector = np.eye(1, space.dimension, dtype=np.float32)[0]
    return list(store.nearest(space, vector, k, where, None).numbers)


def unit(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    rows = rng.standard_normal((count, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def tables(db: psycopg.Connection) -> list[str]:
    query = """select relname from pg_class where relkind in ('r', 'v') and
        relnamespace = current_schema()::regnamespace order by 1"""
    return [name for (name,) in db.execute(query)]


def indexes(db: psycopg.Connection) -> dict[str, bool]:
    """Return the approximate indexes, each with whether it is valid."""
    query = """select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = indexrelid
        join pg_am a on a.oid = c.relam where indrelid = to_regclass('knowledge_chunks_vectors')
        and amname in ('hnsw', 'ivfflat')"""
    return dict(db.execute(query).fetchall())


# The table.


def test_reading_makes_nothing(store: PgvectorStore, db: psycopg.Connection) -> None:
    """Until a vector is added, nothing is created, and every space is empty."""
    assert hits(store) == []
    assert store.get(SPACE, [1]) == {}
    assert store.count(SPACE) == 0
    store.delete(SPACE, [1])
    store.finish_load(SPACE)
    store.drop(SPACE)
    assert tables(db) == []


def test_tables_of_any_name(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Stores with different tables are separate; an invalid name is refused."""
    names = ["Chunks", "select", "t" * 55]
    stores = [make_store(table=name) for name in names]
    for number, store in enumerate(stores, 1):
        store.add(SPACE, [stored(number)])
    for number, store in enumerate(stores, 1):
        assert hits(store) == [number]
    there = {f"{name}_{part}" for name in names for part in ("vectors", "counts")}
    assert there == set(tables(db))
    for name in ("", "9", 'a"; drop table x; --', "t" * 56, "ä"):
        with pytest.raises(ValidationError, match="name of a table"):
            make_store(table=name)


def test_many_make_the_table_at_once(make_store: Callable[..., PgvectorStore]) -> None:
    """Stores that add their first vectors at the same moment create one table."""
    stores = [make_store() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: stores[n].add(SPACE, [stored(n + 1)]), range(8)))
    assert [sorted(hits(store)) for store in stores] == [[*range(1, 9)]] * 8


def test_who_looked_before_the_table_was_made(
    store: PgvectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that found no table does not overwrite the later finding of another."""
    looked, go_on, look = threading.Event(), threading.Event(), Table.is_there
    answers: list[bool] = []

    def slowly(table: Table, *args: Any) -> bool:
        answers.append(there := look(table, *args))
        if threading.current_thread() is not threading.main_thread():
            looked.set()
            go_on.wait()
        return there

    monkeypatch.setattr(Table, "is_there", slowly)
    with ThreadPoolExecutor(1) as threads:
        early = threads.submit(hits, store)
        looked.wait()
        store.add(SPACE, [stored(1)])
        assert hits(store) == [1]
        before = len(answers)
        go_on.set()
        assert early.result() == []
    assert hits(store) == [1]
    assert len(answers) == before


def test_without_leave_to_make_tables(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """With `ensure_schema: false`, nothing is created, and the error has the SQL to run."""
    store = make_store(ensure_schema=False, ensure_index=True, ann_from=1)
    with pytest.raises(StoreError, match='table "knowledge_chunks_vectors" missing') as caught:
        store.add(SPACE, [stored(1)])
    assert tables(db) == []
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    store.add(SPACE, [stored(1)])
    store.finish_load(SPACE)
    assert hits(store) == [1]
    with pytest.raises(StoreError, match="index is missing") as caught:
        store.build_index(SPACE)
    assert indexes(db) == {}
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    assert list(indexes(db).values()) == [True]
    assert hits(store) == [1]
    store.drop(SPACE)
    assert list(indexes(db).values()) == [True]


def test_a_table_of_somebody_else(store: PgvectorStore, db: psycopg.Connection) -> None:
    """A foreign table is not changed; the error names it and the missing columns."""
    db.execute("create table knowledge_chunks_vectors (number bigint, space text)")
    for call in (lambda: store.add(SPACE, [stored(1)]), lambda: hits(store)):
        with pytest.raises(StoreError, match=r"not one of Lorebind's.*embedding, fields; name"):
            call()


def test_a_dropped_table(store: PgvectorStore, db: psycopg.Connection) -> None:
    """A dropped table is an error once, and is created again for the next vector."""
    store.add(SPACE, [stored(1)])
    assert hits(store) == [1]
    db.execute("drop table knowledge_chunks_vectors")
    with pytest.raises(StoreError, match="if the table was dropped"):
        hits(store)
    assert hits(store) == []
    store.add(SPACE, [stored(2)])
    assert hits(store) == [2]


def test_configured_dimension(make_store: Callable[..., PgvectorStore]) -> None:
    """A declared dimension refuses spaces of another one."""
    store = make_store(dimension=8)
    for call in (lambda: store.add(SPACE, [stored(1)]), lambda: store.count(SPACE)):
        with pytest.raises(IndexMismatchError, match=r"handbook.*\b4\b.*\b8\b"):
            call()


# Adding.


def test_writers_of_the_same_numbers(make_store: Callable[..., PgvectorStore]) -> None:
    """Vectors that several writers add concurrently, in any order, are stored once."""
    stores = [make_store() for _ in range(3)]
    for start in range(1, 1001, 50):
        many = [stored(number) for number in range(start, start + 50)]
        turned = [many, many[::-1]]
        with ThreadPoolExecutor(6) as threads:
            calls = [threads.submit(stores[n % 3].add, SPACE, turned[n % 2]) for n in range(12)]
        for call in calls:
            call.result()
    assert stores[0].count(SPACE) == 1000


def test_more_than_a_block(store: PgvectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with several statements adds all its vectors or none."""
    monkeypatch.setattr(store_module, "_BLOCK", 7)
    many = [stored(number) for number in range(1, 51)]
    for bad in (stored(51, EAST[:2]), stored(51, EAST * np.nan), stored(51, n=float("nan"))):
        with pytest.raises(StoreError):
            store.add(SPACE, [*many, bad])
        assert store.count(SPACE) == 0
    store.add(SPACE, many[:20])
    store.add(SPACE, many)
    assert sorted(hits(store)) == [row.number for row in many]
    assert sorted(store.get(SPACE, range(40, 60))) == [*range(40, 51)]
    store.delete(SPACE, range(20))
    assert sorted(hits(store)) == [*range(20, 51)]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (stored(7, EAST[:2]), r"vector 7 has the shape \(2,\), expected the dimension 4"),
        (stored(7, n=float("nan")), "metadata of vector 7 is not JSON"),
        (stored(7, n=object()), "metadata of vector 7 is not JSON"),
        (stored(7, text="\ud800"), "metadata of vector 7 is not JSON"),
        (stored(7, np.full(4, np.inf, np.float32)), "infinite"),
    ],
    ids=["dimension", "nan", "object", "surrogate", "infinity"],
)
def test_vectors_that_cannot_be_stored(store: PgvectorStore, bad: StoredVector, says: str) -> None:
    """The error names the problem and the vector."""
    with pytest.raises(StoreError, match=says):
        store.add(SPACE, [stored(1), bad])


# Counting.


def counted(store: PgvectorStore, db: psycopg.Connection) -> int:
    """Return the count of a space, which is the number of its rows."""
    rows = "select count(*) from knowledge_chunks_vectors where space = %s"
    assert db.execute(rows, [SPACE.index_uid]).fetchone() == (store.count(SPACE),)
    return store.count(SPACE)


def test_every_write_is_counted(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """The count is that of the rows, also if others wrote them, and reads few rows after a load."""
    store = make_store()
    store.add(SPACE, [stored(number) for number in range(1, 101)])
    store.add(OTHER, [stored(number) for number in range(1, 11)])
    store.add(SPACE, [stored(number) for number in range(91, 121)])
    assert counted(store, db) == 120
    store.delete(SPACE, range(100, 200))
    assert counted(store, db) == 99
    assert db.execute("select count(*) from knowledge_chunks_counts").fetchone() == (4,)
    store.finish_load(SPACE)
    assert counted(store, db) == 99
    assert db.execute("select count(*) from knowledge_chunks_counts").fetchone() == (2,)
    with db.transaction(force_rollback=True):
        db.execute("delete from knowledge_chunks_vectors")
    db.execute("delete from knowledge_chunks_vectors where number < 10")
    assert counted(store, db) == 90
    store.drop(SPACE)
    assert counted(store, db) == 0
    assert store.count(OTHER) == 1
    db.execute("truncate knowledge_chunks_vectors")
    assert store.count(OTHER) == 0
    store.add(SPACE, [stored(1)])
    db.execute("drop table knowledge_chunks_vectors")
    with pytest.raises(StoreError, match="if the table was dropped"):
        hits(store)
    store.add(SPACE, [stored(1), stored(2)])
    assert counted(store, db) == 2
    db.execute("alter table knowledge_chunks_vectors rename to moved_vectors")
    moved = make_store(table="moved")
    moved.add(SPACE, [stored(3)])
    moved.finish_load(SPACE)
    assert moved.count(SPACE) == 3


def test_concurrent_writes_are_counted(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Writers that add, delete and merge the counts at the same time lose none."""
    stores = [make_store() for _ in range(4)]
    stores[0].add(SPACE, [stored(1)])

    def write(writer: int) -> None:
        rng = np.random.default_rng(writer)
        for _ in range(30):
            numbers = np.unique(rng.integers(1, 200, 40)).tolist()
            if rng.random() < 0.5:
                stores[writer].add(SPACE, [stored(number) for number in numbers])
            else:
                stores[writer].delete(SPACE, [max(numbers)])
            stores[writer].finish_load(SPACE)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert counted(stores[0], db)


# Searching exactly.


def test_the_nearest_are_found(store: PgvectorStore) -> None:
    """Numbers are sorted by cosine, with or without a filter, and vectors are unchanged."""
    rng = np.random.default_rng(5)
    space = Partition(INDEX, 5, 48)
    vectors = unit(rng, 300, 48)
    vectors[10:13] = 0
    metadata = [
        {"n": int(rng.integers(0, 5)), "tags": list(map(str, rng.choice(["a", "b"], n % 3)))}
        for n in range(300)
    ]
    store.add(space, [stored(n, v, **metadata[n]) for n, v in enumerate(vectors)])
    for where in ({}, {"n": {"$gt": 2}}, {"tags": "a", "n": [1, 3]}, {"tags": "none"}):
        passing = [n for n in range(300) if compile_filter(where)(metadata[n])]
        for k in (1, 7, 50, 400):
            query = unit(rng, 1, 48)[0]
            numbers, values, is_exact = store.nearest(space, query, k, where, None)
            assert is_exact
            assert len(set(numbers)) == len(numbers) == min(k, len(passing))
            assert set(numbers) <= set(passing)
            cosines = vectors[list(numbers)].astype(np.float64) @ query
            best = -np.sort(-(vectors[passing].astype(np.float64) @ query))[:k]
            assert cosines == pytest.approx(best, abs=1e-6)
            assert values is not None
            assert np.array_equal(values, vectors[list(numbers)])
    for number, vector in store.get(space, range(300)).items():
        assert np.array_equal(vector, vectors[number])


def test_several_dimensions(store: PgvectorStore) -> None:
    """Spaces of several dimensions share a table, and each is searched separately."""
    plane = Partition(INDEX, 3, 2)
    store.add(SPACE, [stored(1), stored(2, -EAST)])
    store.add(plane, [stored(1, np.array([0, 1], np.float32))])
    assert hits(store) == [1, 2]
    assert hits(store, plane) == [1]
    with pytest.raises(StoreError, match="dimension"):
        store.nearest(SPACE, EAST[:2], 1, {}, None)


def test_malformed_filters(store: PgvectorStore) -> None:
    """A malformed filter is a usage error."""
    with pytest.raises(UsageError, match=r"\$nor"):
        store.nearest(SPACE, EAST, 1, {"$nor": [{}]}, None)


# Approximate indexes.


def wait_for_builds() -> None:
    """Wait until no index is built in the background."""
    for thread in threading.enumerate():
        if thread.name == "lorebind-pgvector":
            thread.join(30)


def crowd(store: PgvectorStore, space: Partition, count: int) -> np.ndarray:
    """Add vectors around a few centers, numbered from 1; return a query near one of them."""
    rng = np.random.default_rng(3)
    centres = unit(rng, 8, space.dimension) * np.sqrt(space.dimension)
    rows = centres[rng.integers(0, 8, count)] + 0.5 * rng.standard_normal((count, space.dimension))
    vectors = np.vstack([rows, centres[:1]])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors.astype(np.float32)
    store.add(space, [stored(n, row, n=n) for n, row in enumerate(vectors[:-1], 1)])
    return vectors


FORCED = "%20-c%20enable_seqscan%3Doff%20-c%20enable_bitmapscan%3Doff%20-c%20enable_sort%3Doff"
"""Settings that make the planner use the index for the few rows of these tests."""


def test_is_approximate(make_store: Callable[..., PgvectorStore]) -> None:
    """A store with `ensure_index` is not exact."""
    assert make_store().is_exact
    store = make_store(ensure_index=True)
    assert not store.is_exact
    assert isinstance(store, ApproximateStore)
    assert isinstance(store, VectorStore)


@pytest.mark.parametrize(
    ("settings", "metric", "dimension"),
    [
        ({}, "cosine", 32),
        ({"m": 8, "ef_construction": 32, "ef_search": 40}, "ip", 32),
        ({"type": "ivfflat", "lists": 4, "probes": 4}, "l2", 32),
        ({"type": "ivfflat"}, "cosine", 32),
        ({"name": "N" * 55}, "cosine", 2100),
    ],
    ids=["hnsw", "settings", "ivfflat", "lists", "halfvec"],
)
def test_approximate_search(
    make_store: Callable[..., PgvectorStore],
    db: psycopg.Connection,
    settings: dict[str, Any],
    metric: str,
    dimension: int,
) -> None:
    """The index is used, and finds nearly all of the nearest, in the exact order."""
    config = AnnIndexConfig(**settings)
    store = make_store(FORCED, ensure_index=True, index=config, metric=metric, ann_from=1)
    exact = make_store()
    space = Partition(INDEX, 8, dimension)
    vectors = crowd(store, space, 300)
    store.finish_load(space)
    store.finish_load(space)
    assert list(indexes(db).values()) == [True]
    for where in ({}, {"n": {"$lt": 20}}):
        ours, theirs = (s.nearest(space, vectors[-1], 20, where, None) for s in (store, exact))
        assert len(set(ours.numbers)) == len(theirs.numbers) >= 19
        assert len(set(ours.numbers) & set(theirs.numbers)) >= 18
        assert ours.vectors is not None
        assert np.array_equal(ours.vectors, vectors[np.array(ours.numbers) - 1])
        cosines = ours.vectors @ vectors[-1]
        assert cosines == pytest.approx(np.sort(cosines)[::-1], abs=1e-5)
        fewer = store.nearest(space, vectors[-1], 7, where, None)
        assert fewer.numbers == ours.numbers[:7]
    store.close()
    used = "select idx_scan from pg_stat_user_indexes where indexrelname = %s"
    deadline = time.monotonic() + 60
    # PostgreSQL updates the statistics when the connection ends.
    while db.execute(used, list(indexes(db))).fetchone() == (0,):
        assert time.monotonic() < deadline


def test_a_filter_that_leaves_little(make_store: Callable[..., PgvectorStore]) -> None:
    """If the index stops before enough rows pass the filter, the search is exact."""
    poor = FORCED + "%20-c%20work_mem%3D64kB"
    config = AnnIndexConfig(ef_search=10)
    store = make_store(poor, ensure_index=True, index=config, ann_from=1)
    space = Partition(INDEX, 8, 8)
    query = -crowd(store, space, 1500)[-1]
    store.build_index(space)
    ours, theirs = (
        s.nearest(space, query, 10, {"n": {"$lt": 20}}, None) for s in (store, make_store())
    )
    assert ours.numbers == theirs.numbers
    assert len(ours.numbers) == 10


def test_vectors_of_length_zero(make_store: Callable[..., PgvectorStore]) -> None:
    """A search for all vectors finds those that an index by cosine omits, too."""
    store = make_store(FORCED, ensure_index=True, ann_from=1)
    store.add(SPACE, [stored(1), stored(2, 0 * EAST), stored(3, -EAST)])
    store.build_index(SPACE)
    assert hits(store) == [1, 2, 3]
    assert hits(store, k=3) == [1, 2, 3]


def test_the_first_search_has_it_built(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """A search starts building the index of a large space in the background, never of a small."""
    store = make_store(ensure_index=True, ann_from=100)
    crowd(store, OTHER, 99)
    crowd(store, SPACE, 100)
    store.finish_load(OTHER)
    assert len(hits(store, OTHER, 5)) == 5
    assert "lorebind-pgvector" not in {thread.name for thread in threading.enumerate()}
    assert indexes(db) == {}
    assert len(hits(store, k=5)) == 5
    wait_for_builds()
    assert indexes(db) == {f"knowledge_chunks_ann_{SPACE.name}_1": True}
    assert len(hits(store, k=5)) == 5


def test_an_index_goes_with_its_space(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Dropping a space drops its approximate index, and no other."""
    store = make_store(ensure_index=True, ann_from=1)
    for space in (SPACE, OTHER):
        crowd(store, space, 20)
        store.finish_load(space)
    store.drop(OTHER)
    assert indexes(db) == {f"knowledge_chunks_ann_{SPACE.name}_1": True}
    assert store.count(SPACE) == 20


@pytest.mark.parametrize("name", [None, "N" * 55], ids=["short", "long"])
def test_indexes_that_are_left_over(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection, name: str | None
) -> None:
    """An unfinished index is built again; an index without rows is dropped."""
    store = make_store(ensure_index=True, ann_from=1, index=AnnIndexConfig(name=name))
    crowd(store, OTHER, 20)
    store.build_index(OTHER)
    (gone,) = indexes(db)
    crowd(store, SPACE, 20)
    store.build_index(SPACE)
    (left,) = indexes(db).keys() - {gone}
    db.execute(f"delete from knowledge_chunks_vectors where space = {OTHER.index_uid}")
    db.execute(
        "update pg_index set indisvalid = false where indexrelid = %s::regclass", [f'"{left}"']
    )
    store.build_index(SPACE)
    assert indexes(db) == {left: True}


def covered(db: psycopg.Connection) -> list[tuple[int, int]]:
    """Return the rows that each approximate index of a table covers, from the first to the last."""
    query = """select pg_get_expr(indpred, indrelid) from pg_index i
        join pg_class c on c.oid = indexrelid join pg_am a on a.oid = c.relam
        where indrelid = to_regclass('knowledge_chunks_vectors') and amname = 'hnsw'"""
    numbers = "select min(number), max(number) from knowledge_chunks_vectors where"
    return sorted(
        db.execute(f"{numbers} {predicate}").fetchone() or (0, 0)
        for (predicate,) in db.execute(query).fetchall()
    )


def grow(store: PgvectorStore, upto: int, rng: np.random.Generator) -> np.ndarray:
    """Add vectors until their numbers are 1 to `upto`."""
    there = store.count(SPACE)
    vectors = unit(rng, upto - there, SPACE.dimension)
    store.add(SPACE, [stored(n, row, n=n) for n, row in enumerate(vectors, there + 1)])
    return vectors


def test_later_vectors_are_in_no_index(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Vectors that are added beside an index are found without it, until they are many."""
    rng = np.random.default_rng(7)
    store = make_store(FORCED, ensure_index=True, ann_from=100, more_from=50)
    exact = make_store()
    for upto, indexes_end in [
        (99, []),
        (100, [100]),
        (149, [100]),
        (150, [150]),  # merged, because the first index is small
        (199, [150]),
        (2000, [2000]),
        (2050, [2000, 2050]),
        (2100, [2000, 2100]),
        (2700, [2000, 2700]),
        (2850, [2000, 2700, 2850]),
        (2900, [2000, 2700, 2900]),  # merged, because there are three
        (3600, [3600]),
    ]:
        grow(store, upto, rng)
        store.finish_load(SPACE)
        assert [last for _, last in covered(db)] == indexes_end
        store.delete(SPACE, [upto // 2])
        store.add(SPACE, [stored(upto // 2, unit(rng, 1, 4)[0], n=upto // 2)])
        for where in ({}, {"n": {"$gt": upto - 60}}):
            query = unit(rng, 1, 4)[0]
            ours, theirs = (s.nearest(SPACE, query, 20, where, None) for s in (store, exact))
            assert len(set(ours.numbers) & set(theirs.numbers)) >= 19
        assert len(set(hits(store, k=upto))) == upto
        wait_for_builds()


def test_a_search_has_later_vectors_indexed(
    make_store: Callable[..., PgvectorStore],
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that finds many vectors without an index starts building one, in the background."""
    monkeypatch.setattr(store_module, "_SECONDS_BETWEEN_LOOKS", 0)
    store = make_store(ensure_index=True, ann_from=100, more_from=50)
    rng = np.random.default_rng(7)
    grow(store, 300, rng)
    store.finish_load(SPACE)
    for upto, ends in ((349, [300]), (350, [300, 350])):
        grow(store, upto, rng)
        assert len(hits(store, k=5)) == 5
        wait_for_builds()
        assert [last for _, last in covered(db)] == ends


def test_a_merge_that_was_interrupted(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Indexes that a merged one has replaced are not searched, and the next build drops them.

    If an index in the middle is missing, all later vectors are indexed again.
    """
    rng = np.random.default_rng(7)
    store = make_store(ensure_index=True, ann_from=1, more_from=1)
    for upto in (300, 340):
        grow(store, upto, rng)
        store.finish_load(SPACE)
    ann = AnnIndex(Table("knowledge_chunks"), AnnIndexConfig(), "cosine")
    first, second = ann.ranges(db, SPACE)
    assert (first.last, second.after, second.last) == (300, 300, 340)
    merged = second._replace(name=ann.names(SPACE)[7], after=-1)
    db.execute(ann.sql(SPACE, merged))
    assert [index.name for index in ann.ranges(db, SPACE)] == [merged.name]
    assert len(set(hits(store, k=400))) == 340
    store.build_index(SPACE)
    assert indexes(db) == {merged.name: True}
    for upto in (450, 460):
        grow(store, upto, rng)
        store.finish_load(SPACE)
    assert [last for _, last in covered(db)] == [340, 450, 460]
    gone = ann.ranges(db, SPACE)[1].name
    db.execute(f'drop index "{gone}"')
    assert len(set(hits(store, k=500))) == 460
    store.build_index(SPACE)
    assert covered(db) == [(1, 340), (341, 460)]


def test_one_process_builds_at_a_time(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """While another process builds, nothing happens, and searches are exact for the rest."""
    store = make_store(ensure_index=True, ann_from=1)
    crowd(store, SPACE, 50)
    lock = Table("knowledge_chunks").lock("index")
    db.execute(f"select pg_advisory_lock({lock})")
    store.build_index(SPACE)
    assert indexes(db) == {}
    assert len(hits(store)) == 50
    wait_for_builds()
    db.execute(f"select pg_advisory_unlock({lock})")
    store.build_index(SPACE)
    assert list(indexes(db).values()) == [True]


def test_a_server_with_little_shared_memory(
    make_store: Callable[..., PgvectorStore],
    db: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without enough shared memory for parallel workers, one process builds the index."""
    sql = AnnIndex.sql

    def refused_together(self: AnnIndex, *args: Any) -> str:
        together = "current_setting('max_parallel_maintenance_workers')::integer > 0"
        return f"""do $$ begin if {together} then raise disk_full; end if; end $$;
            {sql(self, *args).replace("concurrently", "")}"""

    monkeypatch.setattr(AnnIndex, "sql", refused_together)
    store = make_store(ensure_index=True, ann_from=1)
    crowd(store, SPACE, 20)
    store.build_index(SPACE)
    assert list(indexes(db).values()) == [True]


def test_an_index_is_given_memory(db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build gets enough memory for the whole index, up to a limit, and never less than set."""
    seen: list[str] = []

    def sql(self: AnnIndex, *args: Any) -> str:
        return "select 1"

    monkeypatch.setattr(AnnIndex, "sql", sql)
    db.execute("create table t_vectors (space bigint, number bigint)")
    space = Partition(INDEX, 1, 1_000_000)
    for rows, limit in ((1, 2**30), (99, 2 * 10**8), (0, 2**30), (0, 2**17)):
        db.execute("insert into t_vectors select 1, 1 from generate_series(1, %s)", [rows])
        ann = AnnIndex(Table("t"), AnnIndexConfig(build_max_bytes=limit), "cosine")
        AnnBuilds(ann, first_from=1, more_from=1).build(db, space)
        row = db.execute("show maintenance_work_mem").fetchone()
        assert row is not None
        seen.append(row[0])
    assert seen == ["64MB", "195312kB", "390726kB", "390726kB"]


def test_vectors_too_long_for_an_index(make_store: Callable[..., PgvectorStore]) -> None:
    """A dimension that pgvector cannot index is refused if an index is wanted."""
    long = Partition(INDEX, 9, 5000)
    vectors = [stored(1, np.eye(1, 5000, dtype=np.float32)[0])]
    store = make_store(ensure_index=True)
    for call in (lambda: store.add(long, vectors), lambda: store.count(long)):
        with pytest.raises(UsageError, match=r"up to dimension 4000, but these have 5000"):
            call()
    make_store().add(long, vectors)


# Other processes and packages.


SCRIPT = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tried here
import numpy as np
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
store = PgvectorStore(sys.argv[1])
space, vector = Partition(IndexKey(Namespace("t", "p", "s", "k")), 1, 2), np.ones(2, np.float32)
def add(number):
    store.add(space, [StoredVector(number, vector, "", {})])
def search():
    return store.nearest(space, vector, 50, {}, None).numbers
add(1)
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
            assert 1 in search()
            add(10 + number)
            status = 0
        finally:
            os._exit(status)
    add(20 + number)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert store.count(space) == 11, store.count(space)
store.close()
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork here")
def test_after_a_fork(dsn: str) -> None:
    """After a fork, parent and child have their own connections, while a thread searches."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, dsn]
    done = run_program(command)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg, the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install 'lorebind\[postgres\]'"):
        PgvectorStore("postgresql://localhost/x")
