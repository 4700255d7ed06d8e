"""The size limit of the embedding cache: what is evicted, when, and without which effects."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import EmbedderError, StoreError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.catalog import embedding_cache
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.embedding_cache import EmbeddingCache
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import Database, EmbeddedDatabase, PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.ingest.reindexing import reindex
from lorebind_knowledge.stores.memory import MemoryStore
from tests.processes import run_program

from .bench import Bench, CountingEmbedder, fail_at, fill, ingest, paragraph

VECTOR = 64 * 4
"""Size of one vector of the embedder in these tests, in bytes."""
DAY = 86_400.0


class Clock:
    """A clock whose days are set by the test."""

    now = 1000 * DAY

    def __call__(self) -> float:
        self.now += 1
        return self.now

    def sleep(self) -> None:
        self.now += DAY


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    base: Database
    if request.param == "postgres":
        base = PostgresDatabase(PostgresAddress(request.getfixturevalue("dsn")), CATALOG)
    else:
        base = EmbeddedDatabase(tmp_path / "x.db" if request.param == "file" else None, CATALOG)
    yield base
    base.close()


def cached(cache: EmbeddingCache, texts: Sequence[str]) -> list[str]:
    """Return the texts that are in the cache."""
    missing = set(cache.missing(CountingEmbedder(), texts).values())
    return [text for text in texts if text not in missing]


async def embed_each(cache: EmbeddingCache, *texts: str) -> None:
    for text in texts:
        await cache.embed(CountingEmbedder(), [text])


async def test_what_fits_stays(database: Database, clock: Clock) -> None:
    """Nothing is evicted up to the limit itself, and nothing ever is without one."""
    for bound in (3 * VECTOR, None):
        cache = EmbeddingCache(database, bound, clock)
        await embed_each(cache, "a", "b", "c")
        assert await cache.trim() == 0
        assert cached(cache, "abc") == ["a", "b", "c"]


async def test_the_least_recently_used_go(database: Database, clock: Clock) -> None:
    """The least recently used go first; among those of one day, the oldest go first."""
    cache = EmbeddingCache(database, 2 * VECTOR, clock)
    await embed_each(cache, "a", "b", "c", "d")
    assert await cache.trim() == 2
    assert cached(cache, "abcd") == ["c", "d"]
    clock.sleep()
    await embed_each(cache, "c", "e")
    assert await cache.trim() == 1
    assert cached(cache, "cde") == ["c", "e"]


def sizes(database: Database) -> tuple[int, int, int]:
    """Return the stored size of all vectors, their size, and the number of rows that store it."""
    with database.reading() as sql:
        stored = "select coalesce(sum(bytes), 0), count(*) from catalog_embedding_sizes"
        ((total, rows),) = sql.run(stored)
        ((actual,),) = sql.run("select coalesce(sum(size), 0) from catalog_embeddings")
    return total, actual, rows


async def test_the_size_is_stored(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write stores by how much all vectors grew, in few rows; an excess is corrected."""
    monkeypatch.setattr(embedding_cache, "_CHANGES_MERGED_FROM", 5)
    cache = EmbeddingCache(database, 20 * VECTOR, clock)
    for count in range(1, 10):
        await embed_each(cache, f"text {count}")
        assert sizes(database) == (count * VECTOR, count * VECTOR, count)
    await cache.trim()
    assert sizes(database) == (9 * VECTOR, 9 * VECTOR, 1)
    await cache.embed(CountingEmbedder(), [f"more {count}" for count in range(14)])
    await cache.trim()
    assert sizes(database)[:2] == (20 * VECTOR, 20 * VECTOR)
    with database.writing() as sql:
        sql.insert("catalog_embedding_sizes", [{"bytes": 7 * VECTOR}])
    assert await cache.trim() == 0
    assert sizes(database)[:2] == (20 * VECTOR, 20 * VECTOR)


async def test_a_damaged_size(tmp_path: Path, clock: Clock) -> None:
    """A row with a damaged size is evicted in its turn, without an error."""
    database = EmbeddedDatabase(tmp_path / "x.db", CATALOG)
    cache = EmbeddingCache(database, VECTOR, clock)
    await embed_each(cache, "a", "b", "c")
    with database.writing() as sql:
        oldest = "select key from catalog_embeddings order by created_at limit 1"
        sql.run(f"update catalog_embeddings set size = 'x' where key = ({oldest})")
    assert await cache.trim() == 2
    assert cached(cache, "abc") == ["c"]


async def test_asking_is_no_use(database: Database, clock: Clock) -> None:
    """A plan that finds a vector in the cache does not protect it from eviction."""
    cache = EmbeddingCache(database, VECTOR, clock)
    await embed_each(cache, "a", "b")
    clock.sleep()
    assert cached(cache, "ab") == ["a", "b"]
    assert await cache.trim() == 1
    assert cached(cache, "ab") == ["b"]


async def test_a_part_of_a_vector_too_many(database: Database, clock: Clock) -> None:
    """Whole vectors are evicted until the rest fits, even all; sizes depend on the embedder."""
    cache = EmbeddingCache(database, 2 * VECTOR - 1, clock)
    await cache.embed(CountingEmbedder(dimension=128), ["large"])
    await embed_each(cache, "a")
    assert await cache.trim() == 1
    assert cached(cache, "a") == ["a"]
    nothing = EmbeddingCache(database, 0, clock)
    assert await nothing.trim() == 1
    assert cached(cache, "a") == []


async def test_many_go(database: Database, clock: Clock) -> None:
    """More vectors than fit into one transaction are evicted."""
    texts = [f"text {number}" for number in range(1_300)]
    cache = EmbeddingCache(database, 10 * VECTOR, clock)
    await cache.embed(CountingEmbedder(), texts)
    clock.sleep()
    await cache.embed(CountingEmbedder(), texts[::130])
    assert await cache.trim() == 1_290
    assert cached(cache, texts) == texts[::130]


class Watched(EmbeddedDatabase):
    """Counts its transactions that write."""

    writes = 0

    @contextlib.contextmanager
    def writing(self) -> Iterator[Sql]:
        self.writes += 1
        with super().writing() as sql:
            yield sql


async def test_reading_seldom_writes(clock: Clock) -> None:
    """The first reads of a day are written in thousands at a time, later ones not at all."""
    database = Watched(None, CATALOG)
    cache = EmbeddingCache(database, 10**9, clock)
    embedder = CountingEmbedder()
    batches = [[f"{batch} {number}" for number in range(60)] for batch in range(40)]
    for batch in batches:
        await cache.embed(embedder, batch)
    assert database.writes == 40

    async def read_all() -> int:
        before = database.writes
        for batch in batches:
            assert (await cache.embed(embedder, batch)).texts_embedded == 0
        return database.writes - before

    assert await read_all() == 0
    clock.sleep()
    assert await read_all() == 1
    await cache.trim()
    assert database.writes == 42
    assert await read_all() == 0
    await cache.trim()
    assert database.writes == 42
    database.close()


# Concurrent callers.


async def test_vectors_that_were_handed_out(database: Database) -> None:
    """A call that has found a vector keeps it, even if it is evicted before the call returns."""
    cache, embedder = EmbeddingCache(database, 0), CountingEmbedder()
    expected = (await cache.embed(embedder, ["a", "b"])).vectors
    await cache.trim()
    await cache.embed(embedder, ["a"])
    embedder.before_batch = lambda _: asyncio.run(cache.trim()) and None
    result = await cache.embed(embedder, ["a", "b"])
    np.testing.assert_array_equal(result.vectors, expected)
    assert (result.texts_embedded, result.cache_hits) == (1, 1)


async def test_a_text_that_goes_while_it_is_waited_for(database: Database) -> None:
    """If another call's vector is evicted immediately, a waiting call has the text embedded."""
    embedder = CountingEmbedder()

    class Hasty(EmbeddingCache):
        def _write(self, vectors: Any) -> None:
            super()._write(vectors)
            asyncio.run(self.trim())

    cache = Hasty(database, 0)
    results = await asyncio.gather(*(cache.embed(embedder, ["a", "b"]) for _ in range(5)))
    for result in results:
        np.testing.assert_array_equal(result.vectors, results[0].vectors)
    assert set(embedder.texts) == {"a", "b"}


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_many_trim_at_once(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Catalogs that note, write and evict together do not deadlock or evict too much."""

    def opened() -> Database:
        if kind == "file":
            return EmbeddedDatabase(tmp_path / "x.db", CATALOG)
        return PostgresDatabase(PostgresAddress(request.getfixturevalue("dsn")), CATALOG)

    databases = [opened() for _ in range(4)]
    texts = [f"text {number}" for number in range(200)]
    asyncio.run(EmbeddingCache(databases[0]).embed(CountingEmbedder(), texts))

    def work(at: int) -> int:
        async def use_and_trim() -> int:
            clock = Clock()
            clock.now = 30_000 * DAY
            cache = EmbeddingCache(databases[at], 50 * VECTOR, clock)
            mine = texts[:: 1 if at % 2 else -1]
            await cache.embed(CountingEmbedder(), mine)
            return await cache.trim()

        return asyncio.run(use_and_trim())

    with ThreadPoolExecutor(4) as threads:
        gone = sum(threads.map(work, range(4)))
    cache = EmbeddingCache(databases[0], 50 * VECTOR)
    # A vector that one has evicted may have been missed and stored again by another.
    assert gone >= 150
    assert len(cached(cache, texts)) == 50
    stored, actual, _ = sizes(databases[0])
    assert stored >= actual
    for database in databases:
        database.close()


def test_one_evicts_at_a_time(dsn: str) -> None:
    """In PostgreSQL, a second eviction waits, so that two never deadlock on rows."""
    first = PostgresDatabase(PostgresAddress(dsn), CATALOG)
    impatient = PostgresDatabase(PostgresAddress(f"{dsn}%20-clock_timeout%3D50"), CATALOG)
    turn = EmbeddingCache(first)._alone
    with (
        turn(),
        pytest.raises(StoreError, match="lock timeout"),
        EmbeddingCache(impatient)._alone(),
    ):
        pass
    with EmbeddingCache(impatient)._alone():
        pass
    for database in (first, impatient):
        database.close()


KILLED = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import EmbeddedDatabase
from lorebind_knowledge.catalog.embedding_cache import EmbeddingCache
from tests.fatal_step import Steps
from tests.knowledge.bench import CountingEmbedder

async def work(day, at, trimming):
    steps = Steps()
    if not trimming:
        steps.kill_at(at)
    database = EmbeddedDatabase(Path(sys.argv[2]), CATALOG)
    cache = EmbeddingCache(database, 400 * 256, lambda: day * 86_400.0)
    for first in range(0, 600, 300):
        await cache.embed(CountingEmbedder(), [f"text {n}" for n in range(first, first + 300)])
    if trimming:
        steps.kill_at(at)
    await cache.trim()

for day, at in enumerate(map(int, sys.argv[3:]), 20_000):
    child = os.fork()
    if not child:
        asyncio.run(work(day, abs(at), at < 0))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by a signal of POSIX")
def test_killed_anywhere(tmp_path: Path) -> None:
    """Processes that are killed at any step, half of them as they evict, leave a correct cache."""
    path = tmp_path / "x.db"
    chance = random.Random(5)
    points = [chance.randint(1, 40_000) for _ in range(8)]
    points += [-chance.randint(1, 600) for _ in range(8)]
    points += [1, 10**9]  # on any machine, one is killed first and one never
    chance.shuffle(points)
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parents[2]), str(path)]
    done = run_program([*command, *map(str, points)], check=True)
    assert set(done.stdout.split()) == {"0", str(-signal.SIGKILL)}
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        wrong = "select count(*) from catalog_embeddings where size != length(vector)"
        assert db.execute(wrong).fetchone() == (0,)
    database = EmbeddedDatabase(path, CATALOG)
    stored, actual, _ = sizes(database)
    assert stored == actual
    cache, embedder = EmbeddingCache(database, 100 * VECTOR), CountingEmbedder()
    texts = [f"text {number}" for number in range(600)]
    embedded = asyncio.run(cache.embed(embedder, texts))
    np.testing.assert_array_equal(embedded.vectors, embedder._inner.embed_documents(texts))
    assert embedded.cache_hits > 0
    asyncio.run(cache.trim())
    assert len(cached(cache, texts)) == 100
    database.close()


# At the end of an ingest.


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[Callable[[int], Bench]]:
    benches: list[Bench] = []

    def make(vectors: int) -> Bench:
        catalog = Catalog(cache_bytes=vectors * VECTOR)
        benches.append(Bench(tmp_path, lambda: (MemoryStore(), catalog)))
        return benches[-1]

    yield make
    for bench in benches:
        bench.catalog.close()


async def test_an_ingest_trims_when_it_is_done(bounded: Callable[[int], Bench]) -> None:
    """The index is complete for any limit; texts of cached vectors are not embedded again."""
    bench = bounded(5)
    fill(bench)
    await bench.ingest()
    assert len(await bench.visible()) == 12
    assert (await bench.ingest()).texts_embedded == 0
    report = await bench.ingest(strategy="replace")
    assert (report.texts_embedded, report.cache_hits) == (7, 5)
    assert len(await bench.visible()) == 12


async def test_an_ingest_that_fails_keeps_what_it_paid_for(
    bounded: Callable[[int], Bench],
) -> None:
    """A failed ingest evicts nothing: a rerun embeds only the missing texts."""
    bench = bounded(1)
    fill(bench)

    bench.embedder.before_batch = fail_at(3)
    with pytest.raises(EmbedderError):
        await bench.ingest()
    bench.embedder.before_batch = lambda _: None
    assert (await bench.ingest()).texts_embedded == 4


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(("bound", "again"), [(None, 0), (1024, 1), (0, 2)])
async def test_the_bound_is_declared(
    tmp_path: Path, kind: str, bound: int | None, again: int
) -> None:
    """`embedding_cache.max_bytes` of a vector database limits its cache."""
    declared = {} if bound is None else {"embedding_cache": {"max_bytes": bound}}
    data = {
        "name": "small",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": kind, **declared}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "*.md"}]},
        ],
    }
    for word in ("alpha", "beta"):
        (tmp_path / f"{word}.md").write_text(paragraph(word))
    service = KnowledgeService(build_project(data, root=tmp_path))
    docs = service.open("docs")
    await ingest(docs.corpus())
    assert (await reindex(docs.corpus())).texts_embedded == again
    await service.close()
