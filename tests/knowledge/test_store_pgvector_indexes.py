"""The approximate indexes of the PostgreSQL store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
import pytest

from lorebind_config.errors import UsageError
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import ApproximateStore, VectorStore
from lorebind_knowledge.stores.pgvector import store as store_module
from lorebind_knowledge.stores.pgvector.ann import AnnIndex
from lorebind_knowledge.stores.pgvector.ann_builds import AnnBuilds
from lorebind_knowledge.stores.pgvector.settings import AnnIndexConfig
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.pgvector.table import Table

from .pgvector_vectors import EAST, INDEX, OTHER, SPACE, hits, indexes, stored, unit


@pytest.fixture
def store(make_store: Callable[..., PgvectorStore]) -> PgvectorStore:
    return make_store()


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


def test_the_memory_of_an_index(db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
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
