"""Readers that search continuously while a writer is killed again and again.

    python benchmarks/readers.py [--store sqlite|pgvector|langchain|memory] [--seconds N]
    python benchmarks/readers.py --store pgvector --answers 50000 --kills 500

One writer replaces documents, and now and then the whole index. It is killed with SIGKILL at random
moments, and another one continues. Every answer of every reader is checked: each document must be
present, whole, of one generation, and never of an older one than before. At the end, the store and
the catalog must agree.

`sqlite`: one file; writer and readers are processes. `pgvector`: the same with one PostgreSQL,
which is started unless `--dsn` names one. `langchain`: the same with a catalog in a file and
LangChain's own store in PostgreSQL. `memory`: a store in memory with a catalog in a file; writer
and readers are threads, and the writer ends by an exception at a random step.

It ends after `--seconds`, or when `--answers` and `--kills` are reached, however long that takes.

It prints the publications; the answers; how often readers started again, because their snapshot was
deleted in the meantime; how many gave up after that; the kills; answers with missing documents, and
answers that mixed generations. The last two must be 0.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import filelock  # noqa: F401 - here once, not in every process
import numpy as np
from langchain_postgres import PGEngine, PGVectorStore
from sqlalchemy.exc import ProgrammingError

from lorebind_config.errors import IngestRunningError, LorebindError, StoreError
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.records import Record
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.sqlite import SqliteStore
from lorebind_knowledge.testing.index_recovery import WatchedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.records import Vector

HERE = Namespace("default", "bench", "project", "docs")
KEY = IndexKey(HERE)
DIMENSION = 16
URIS = [f"{number}.md" for number in range(6)]
SIZE = 8
"""The number of chunks of a document, half of which never change."""
MANIFEST = Manifest("bench", "bench-1", DIMENSION, "bench-1")
REINDEX_EVERY = 25
LONGEST_LIFE = 8
"""The maximum number of publications until a writer is killed."""
MOMENT = 0.05
GAVE_UP = "again and again"


class Options(NamedTuple):
    store: str
    folder: Path
    dsn: str
    """The DSN of a PostgreSQL, if the store needs one."""
    readers: int
    sweep_every: int
    seconds: float
    answers: int
    kills: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--store", choices=(*OPENED, "memory"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--answers", type=int, default=0, help="the minimum number of answers")
    parser.add_argument("--kills", type=int, default=0, help="the minimum number of kills")
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--sweep-every", type=int, default=5, help="publications")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dsn", help="a writable database with pgvector; default: start a server")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory() as folder, postgres(arguments.store, arguments.dsn) as dsn:
        options = Options(
            arguments.store,
            Path(folder),
            dsn,
            arguments.readers,
            arguments.sweep_every,
            arguments.seconds,
            arguments.answers,
            arguments.kills,
        )
        run = in_threads if arguments.store == "memory" else in_processes
        seen, kills, seconds, left = run(options)
    print(
        f"{arguments.store}: {seconds:.0f} s, {seen['publications']} publications, "
        f"{seen['answers']} answers, {seen['retries']} retries, {seen['gave up']} gave up, "
        f"{kills} kills, {seen['gaps']} gaps, {seen['mixtures']} mixtures; {left}"
    )
    if seen["gaps"] or seen["mixtures"] or not seen["answers"]:
        sys.exit(1)


@contextmanager
def postgres(store: str, dsn: str | None) -> Iterator[str]:
    if store in ("sqlite", "memory"):
        yield ""
        return
    from pgvector import database

    with database(dsn) as (url, _):
        yield url


def opened(options: Options) -> Index:
    return OPENED[options.store](options)


def in_sqlite(options: Options) -> Index:
    file = options.folder / "lorebind.db"
    return Index(SqliteStore(file), Catalog(file))


def in_pgvector(options: Options) -> Index:
    catalog = Catalog(postgres=PostgresDatabase(PostgresAddress(options.dsn), CATALOG))
    return Index(PgvectorStore(options.dsn), catalog)


def in_langchain(options: Options) -> Index:
    def make(embedding: Embeddings) -> PGVectorStore:
        engine = PGEngine.from_connection_string(
            options.dsn.replace("postgresql:", "postgresql+psycopg:")
        )
        with suppress(ProgrammingError):  # it may already exist
            engine.init_vectorstore_table("chunks", DIMENSION)
        return PGVectorStore.create_sync(engine, embedding, "chunks")

    store = LangChainStore(Recipe("langchain_postgres:PGVectorStore", make), exact=True)
    return Index(store, Catalog(options.folder / "catalog.db"))


OPENED = {"sqlite": in_sqlite, "pgvector": in_pgvector, "langchain": in_langchain}


# The writer.


def chunks(uri: str, generation: int) -> list[Record]:
    records = []
    for at in range(SIZE):
        unchanged = at % 2 == 0
        name = f"{uri} {at}" if unchanged else f"{uri} {at} {generation}"
        text = f"passage {name}"
        place = {"line_start": generation}
        records.append(Record(name, KEY, uri, generation, text, vector_of(text), place))
    return records


def vector_of(text: str) -> Vector:
    seed = zlib.crc32(text.encode())
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def write(index: Index, sweep_every: int, published: Callable[[], bool]) -> None:
    """Do the work of a writer: complete the work of a killed one, then replace documents.

    Args:
        index: the index.
        sweep_every: the number of publications between sweeps.
        published: called after each publication; returns whether to end.
    """
    with lease_of(index) as lease:
        ledger = index.catalog.ledger
        for state in ("building", "retired"):
            while entry := ledger.index(HERE, state):
                ledger.retire_index(lease, entry.key)
                index.drop(lease, entry)
        active = ledger.index(HERE, "active") or build(index, lease)
        index.sweep(lease, active, abandon=True)
        for count in range(1, sys.maxsize):
            if count % REINDEX_EVERY == 0:
                before, active = active, build(index, lease)
                index.drop(lease, before)
            else:
                replace(index, lease, active, random.sample(URIS, random.randint(1, 3)))
            if count % sweep_every == 0:
                index.sweep(lease, active)
            if published():
                index.sweep(lease, active)
                return


@contextmanager
def lease_of(index: Index) -> Iterator[Lease]:
    with ExitStack() as stack:
        while True:
            with suppress(IngestRunningError):
                lease = stack.enter_context(index.catalog.lease(HERE))
                break
            time.sleep(0.01)
        yield lease


def build(index: Index, lease: Lease) -> IndexEntry:
    created = index.catalog.ledger.create_index(lease, MANIFEST)
    replace(index, lease, created, URIS)
    index.catalog.ledger.activate_index(lease, created.key)
    return created


def replace(index: Index, lease: Lease, entry: IndexEntry, uris: list[str]) -> None:
    generations = index.next_generations(entry, uris)
    for uri in uris:
        records = chunks(uri, generations[uri])
        index.stage(lease, entry, records[:5])
        index.stage(lease, entry, records[5:])
    index.publish(lease, entry, generations)


# The readers.


class Reader:
    """Searches again and again, and counts the results."""

    def __init__(self, index: Index, seen: Counter[str]) -> None:
        self._index, self._seen = index, seen
        self._newest: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        tries = 0

        def ask(view: View) -> dict[str, list[tuple[int, int]]]:
            nonlocal tries
            tries += 1
            return found_in(view)

        try:
            places = self._index.read(HERE, ask)
        except StoreError as error:
            if GAVE_UP not in str(error):
                raise
            self._seen["gave up"] += 1
        else:
            self._seen["answers"] += 1
            self._check(places)
        self._seen["retries"] += tries - 1

    def _check(self, places: dict[str, list[tuple[int, int]]]) -> None:
        if {uri: len(seen) for uri, seen in places.items()} != dict.fromkeys(URIS, SIZE):
            self._seen["gaps"] += 1
            return
        for uri, seen in places.items():
            if len(set(seen)) > 1 or seen[0] < self._newest.get(uri, (0, 0)):
                self._seen["mixtures"] += 1
                return
            self._newest[uri] = seen[0]


def found_in(view: View) -> dict[str, list[tuple[int, int]]]:
    """Return for each document the generations of the chunks that all ways of searching find."""
    most = len(URIS) * SIZE + 3
    nearest = set(view.nearest(vector_of(str(random.random())), most).numbers.tolist())
    worded = set(view.bm25_search("passage", most).numbers.tolist())
    places: dict[str, list[tuple[int, int]]] = {}
    for chunk in view.chunks(nearest & worded).values():
        place = view.index.key.number, chunk.metadata["line_start"]
        places.setdefault(chunk.uri, []).append(place)
    return places


# Processes.


def in_processes(options: Options) -> tuple[Counter[str], int, float, str]:
    """Run writer and readers as forks of this process, which must not open anything before."""
    processes = multiprocessing.get_context("fork")
    end = processes.Event()
    answers = processes.Value("q", 0)
    results = processes.SimpleQueue()
    # Without a lock, because a killed writer could hold it.
    publications = processes.RawValue("q", 0)

    def published() -> bool:
        publications.value += 1
        return False

    def write_for_ever() -> None:
        random.seed(os.getpid())
        write(opened(options), options.sweep_every, published)

    def begin() -> None:
        index = opened(options)
        write(index, options.sweep_every, lambda: True)
        index.close()

    def read() -> None:
        random.seed(os.getpid())
        seen: Counter[str] = Counter()
        index = opened(options)
        reader = Reader(index, seen)
        while not end.is_set():
            reader.look()
            with answers.get_lock():
                answers.value += 1
        index.close()
        results.put(seen)

    def forked(work: Callable[[], None]) -> Any:
        process = processes.Process(target=work)
        process.start()
        return process

    forked(begin).join()
    started = time.monotonic()
    readers = [forked(read) for _ in range(options.readers)]
    kills = 0
    while going(options, started, answers.value, kills) and all(
        reader.is_alive() for reader in readers
    ):
        last = publications.value + random.randint(0, LONGEST_LIFE)
        writer = forked(write_for_ever)
        while publications.value < last and writer.exitcode is None:
            time.sleep(MOMENT / 50)
        writer.join(random.uniform(0, MOMENT))
        if writer.exitcode is not None:
            sys.exit("a writer failed")
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        kills += 1
    seconds = time.monotonic() - started
    if not all(reader.is_alive() for reader in readers):
        sys.exit("a reader failed")
    end.set()
    seen: Counter[str] = Counter()
    for _ in readers:
        seen.update(results.get())
    seen["publications"] = publications.value
    return seen, kills, seconds, left_in(opened(options))


# Threads.


class EndedError(LorebindError):
    """Ends a writer as if it were killed."""


def in_threads(options: Options) -> tuple[Counter[str], int, float, str]:
    store, end = MemoryStore(), threading.Event()
    counts: list[Counter[str]] = []
    failures: list[BaseException] = []
    fatal, publications = [0.0], [0]

    def step(_: str) -> None:
        if random.random() < fatal[0]:
            raise EndedError

    def published() -> bool:
        publications[0] += 1
        return False

    def new_index(inner: Any = store) -> Index:
        return Index(inner, Catalog(options.folder / "catalog.db"))

    def read() -> None:
        seen: Counter[str] = Counter()
        counts.append(seen)
        index = new_index()
        try:
            reader = Reader(index, seen)
            while not end.is_set():
                reader.look()
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            index.catalog.close()

    writer = new_index(WatchedStore(store, step))
    write(writer, options.sweep_every, lambda: True)
    started = time.monotonic()
    threads = [threading.Thread(target=read) for _ in range(options.readers)]
    for thread in threads:
        thread.start()
    kills = 0
    fatal[0] = 0.02
    while (
        going(options, started, sum(count["answers"] for count in counts), kills) and not failures
    ):
        with suppress(EndedError):
            write(writer, options.sweep_every, published)
        kills += 1
    seconds = time.monotonic() - started
    end.set()
    for thread in threads:
        thread.join()
    fatal[0] = 0
    seen = sum(counts, Counter(publications=publications[0]))
    return seen, kills, seconds, left_in(writer)


def going(options: Options, started: float, answers: int, kills: int) -> bool:
    if options.answers or options.kills:
        return answers < options.answers or kills < options.kills
    return time.monotonic() - started < options.seconds


def left_in(index: Index) -> str:
    """Check that store and catalog agree after another writer has taken over."""
    write(index, 1, lambda: True)
    entry = index.catalog.ledger.index(HERE, "active")
    assert entry is not None
    state = index.read(HERE, lambda view: view.state)
    lost = index.compare(entry, deep=True).lost
    count = index.store.count(entry.space)
    index.close()
    there = state.entered if count is None else count  # LangChain's stores cannot count
    if lost or not there == state.live == state.entered == len(URIS) * SIZE:
        sys.exit(f"afterwards: {state}, {count} vectors, {len(lost)} lost")
    return f"afterwards {there} vectors, as the catalog says"


if __name__ == "__main__":
    main()
