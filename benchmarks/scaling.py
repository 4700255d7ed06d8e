"""How much faster workers make an ingest, and the part that bounds it.

    python benchmarks/scaling.py [--workers 1,2,4,8] [--most 4x16] [--chunks N] [--batch N]
                                 [--seconds S] [--dsn DSN]

The embedder waits 20 ms for each text, as a model of another machine does. Workers are processes of
`lorebind worker` with the same PostgreSQL, and are ready before the clock starts. The ingest runs
in this process. Each ingest has a database of its own.

First, each part alone: a call of the embedder; begin and end of an ingest, with a single batch;
what handing a batch to a worker adds, with one slot and an embedder of no cost; the writer with
that embedder, in one process; and all but the embedding, with all slots and that embedder.

These foretell an ingest: begin and end, plus the longer of a slot's calls and all but the
embedding. Then the ingests themselves with some numbers of workers of one slot each, and the curve
up to the most slots, with the part that bounds each.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import yaml
from ingest import corpus
from pgvector import database, server_seconds, stat
from psycopg.conninfo import make_conninfo

import lorebind.cli
import lorebind.cli.worker
from lorebind import Project
from lorebind_knowledge.embedders.base import embed_documents
from lorebind_knowledge.plumbing.bridge import finish, run
from lorebind_knowledge.plumbing.lanes import usable_processors
from lorebind_knowledge.scale.pool import Pool, key_of

PER_FILE = 8
SECONDS_TO_START = 120
NEARLY = 0.9
"""The share of busy processors from which they bound an ingest."""
EMBEDDER = """
import time
import zlib

import numpy as np
from langchain_core.embeddings import Embeddings

VECTORS = np.random.default_rng(1).standard_normal((4096, 384))


class Waiting(Embeddings):
    def __init__(self, seconds):
        self.seconds = seconds

    def embed_documents(self, texts):
        time.sleep(self.seconds * len(texts))
        return [VECTORS[zlib.crc32(text.encode()) % len(VECTORS)].tolist() for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workers", default="1,2,4,8", help="workers of one slot each")
    parser.add_argument("--most", default="4x16", help="workers, and the slots of each")
    parser.add_argument("--chunks", type=int, default=4096, help="a multiple of 8")
    parser.add_argument("--batch", type=int, default=64, help="texts per call, a multiple of 8")
    parser.add_argument(
        "--seconds", type=float, default=0.02, help="of the embedder, for each text"
    )
    parser.add_argument("--dsn", help="a server with pgvector to make databases in")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run takes minutes
    with database(arguments.dsn) as (dsn, server), tempfile.TemporaryDirectory() as scratch:
        Measurements(dsn, server, Path(scratch), arguments).print_all()


def work(dsn: str, printed: str, *arguments: str) -> None:
    """Run `lorebind worker` in this process."""
    os.environ["DSN"] = dsn
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stderr.fileno())
    sys.argv = ["lorebind", "worker", *arguments]
    lorebind.cli.main()


class Slots(NamedTuple):
    """Workers, and the calls that each makes at the same time."""

    workers: int
    of_each: int = 1

    @property
    def count(self) -> int:
        return self.workers * self.of_each


class Figures(NamedTuple):
    """An ingest: wall clock seconds, and those of processors."""

    chunks: int
    wall: float
    coordinator: float
    workers: float
    postgres: float

    @property
    def busy(self) -> float:
        return self.coordinator + self.workers + self.postgres


class Model(NamedTuple):
    """Foretells ingests from the times of the parts."""

    batch: int
    edges: float
    """Seconds of begin and end of an ingest."""
    call: float
    """Seconds of a slot for each batch, in the embedder."""
    handing: float
    """Seconds of a slot for each batch besides."""
    rest: float
    """Seconds a chunk of everything but the embedding."""
    bound: str
    """The part that bounds everything but the embedding."""

    def seconds(self, chunks: int, slots: int) -> float:
        turns = math.ceil(math.ceil(chunks / self.batch) / slots)
        return self.edges + max(turns * (self.call + self.handing), chunks * self.rest)

    def rate(self, slots: int) -> tuple[float, str]:
        """Return chunks per second of a long ingest, and the part that bounds it."""
        embedded = slots * self.batch / (self.call + self.handing)
        return min((embedded, "embedding"), (1 / self.rest, self.bound))


class Measurements:
    def __init__(
        self, dsn: str, server: int | None, scratch: Path, arguments: argparse.Namespace
    ) -> None:
        self._dsn, self._server, self._scratch = dsn, server, scratch
        self._batch: int = arguments.batch
        self._chunks: int = arguments.chunks
        self._seconds: float = arguments.seconds
        self._workers = [Slots(int(count)) for count in arguments.workers.split(",")]
        self._most = Slots(*map(int, arguments.most.split("x")))
        self._many = max(self._chunks, self._most.count * self._batch * 5)
        """Chunks for all slots; each makes several calls."""
        self._numbers = itertools.count()

    def print_all(self) -> None:
        model = self._parts()
        print(f"\n{self._chunks} chunks, {self._seconds * 1000:g} ms a text:")
        print(f"{'':8}{'foretold s':>12}{'measured s':>12}{'chunks/s':>10}{'times one':>10}")
        base = 0.0
        for slots in self._workers:
            ended = self._ingest(self._chunks, slots, self._seconds)
            base = base or ended.wall
            foretold = model.seconds(self._chunks, slots.count)
            print(
                f"{slots.workers:>8}{foretold:>12.1f}{ended.wall:>12.1f}"
                f"{self._chunks / ended.wall:>10,.0f}{base / ended.wall:>10.2f}"
                f"   {ended.wall / foretold - 1:+.0%}"
            )
        self._curve(model)

    def _parts(self) -> Model:
        call = self._call()
        edges, one = self._ingests([self._batch, self._chunks], Slots(1), 0)
        handing = max(one.wall - edges.wall, 0) / (self._chunks / self._batch)
        alone = self._ingest(self._many, None, 0)
        rest = self._ingest(self._many, self._most, 0)
        print(f"parts, batches of {self._batch} texts:")
        print(f"  a call of the embedder       {call * 1000:>8,.0f} ms")
        print(f"  begin and end of an ingest   {edges.wall * 1000:>8,.0f} ms")
        print(f"  handing a batch to a worker  {handing * 1000:>8,.0f} ms")
        for name, ended in (("writer, in one process", alone), ("all but the embedding", rest)):
            cpu = [1e6 * seconds / ended.chunks for seconds in ended[2:]]
            print(
                f"  {name:<24} {ended.chunks / ended.wall:>8,.0f} chunks/s; µs of processors a "
                "chunk: ingest {:,.0f}, workers {:,.0f}, PostgreSQL {:,.0f}; ".format(*cpu)
                + f"{ended.busy / ended.wall:.1f} of {usable_processors()} processors busy"
            )
        all_but_embedding = (rest.wall - edges.wall) / rest.chunks
        are_busy = rest.busy / rest.wall > NEARLY * usable_processors()
        bound = "processors of this machine" if are_busy else "the writer"
        return Model(self._batch, edges.wall, call, handing, all_but_embedding, bound)

    def _call(self) -> float:
        with self._project(self._dsn, self._seconds, "local") as (project, _):
            embedder = project.knowledge.embedder()
            texts = [f"text {number}" for number in range(self._batch)]
            run(embed_documents(embedder, texts))
            began = time.perf_counter()
            run(embed_documents(embedder, texts))
            return time.perf_counter() - began

    def _curve(self, model: Model) -> None:
        many, most = self._many, self._most
        print(f"\nforetold for long ingests; measured with {many} chunks:")
        print(f"{'slots':>8}{'chunks/s':>12}   bound by")
        for slots in sorted({1, 2, 4, 8, 16, 32, most.count}):
            rate, bound = model.rate(slots)
            print(f"{slots:>8}{rate:>12,.0f}   {bound}")
        ended = self._ingest(many, most, self._seconds)
        cpu = ended.busy / ended.wall
        print(
            f"{most.count:>8}{many / ended.wall:>12,.0f}   measured, {most.workers} workers of "
            f"{most.of_each}; {cpu:.1f} of {usable_processors()} processors busy"
        )

    def _ingest(self, chunks: int, slots: Slots | None, seconds: float) -> Figures:
        return self._ingests([chunks], slots, seconds)[0]

    def _ingests(self, sizes: Sequence[int], slots: Slots | None, seconds: float) -> list[Figures]:
        """Ingest new documents several times, with warm workers; None embeds in this process."""
        with ExitStack() as stack:
            dsn = stack.enter_context(self._new_database())
            engine = "distributed" if slots else "local"
            project, root = stack.enter_context(self._project(dsn, seconds, engine))
            if slots:
                workers = stack.enter_context(self._started(root, dsn, slots))
                self._await(project, slots.count)
            else:
                workers = []
            project.ingest("docs")  # makes the tables
            return [self._measured(project, root, size, workers) for size in sizes]

    def _measured(
        self, project: Project, root: Path, chunks: int, workers: Sequence[int]
    ) -> Figures:
        corpus(root / f"{chunks}", chunks // PER_FILE, PER_FILE)
        before = self._clocks(workers)
        report = project.ingest("docs")
        after = self._clocks(workers)
        assert (report.status, report.texts_embedded) == ("completed", chunks), report
        assert report.notices == [], report
        return Figures(chunks, *(b - a for a, b in zip(before, after, strict=True)))

    def _clocks(self, workers: Sequence[int]) -> list[float]:
        ticks = sum(sum(map(int, stat(worker)[11:13])) for worker in workers)
        ours = ticks / os.sysconf("SC_CLK_TCK")
        return [time.perf_counter(), time.process_time(), ours, server_seconds(self._server)]

    @contextmanager
    def _new_database(self) -> Iterator[str]:
        name = f"scaling_{next(self._numbers)}"
        with psycopg.connect(self._dsn, autocommit=True) as db:
            db.execute(f"create database {name}")
            dsn = make_conninfo(self._dsn, dbname=name)
            with psycopg.connect(dsn) as new:
                new.execute("create extension vector")
            try:
                yield dsn
            finally:
                db.execute(f"drop database {name} with (force)")

    @contextmanager
    def _project(self, dsn: str, seconds: float, engine: str) -> Iterator[tuple[Project, Path]]:
        root = self._scratch / f"{next(self._numbers)}"
        root.mkdir()
        (root / "waiting.py").write_text(EMBEDDER)
        (root / "warm").mkdir()
        (root / "warm" / "first.md").write_text("The first text.")
        (root / "lorebind.yaml").write_text(yaml.safe_dump(self._declared(seconds, engine)))
        with Project.load(root, environ={"DSN": dsn}) as project:
            yield project, root

    def _declared(self, seconds: float, engine: str) -> dict[str, Any]:
        embedder = {
            "id": "waiting",
            "provider": "langchain",
            "class": "waiting:Waiting",
            "config": {"seconds": seconds},
            "batch_size": self._batch,
            "max_concurrent": 64,
        }
        return {
            "name": "scaling",
            "ingestion": {"engine": engine},
            "embedders": [embedder],
            "vector_dbs": [
                {"id": "db", "type": "pgvector", "config": {"dsn": "{{ .env.DSN }}"}},
            ],
            "knowledge_bases": [
                {
                    "id": "docs",
                    "sources": [{"type": "markdown_glob", "path": "*/*.md"}],
                    "chunking": {"size": 600, "overlap": 0},
                }
            ],
        }

    @contextmanager
    def _started(self, root: Path, dsn: str, slots: Slots) -> Iterator[list[int]]:
        # From a process that has imported everything: imports would take longer than the ingests.
        context, printed = multiprocessing.get_context("forkserver"), root / "workers.txt"
        arguments = [dsn, str(printed), "-p", str(root), "--concurrency", str(slots.of_each)]
        started = [context.Process(target=work, args=arguments) for _ in range(slots.workers)]
        for worker in started:
            worker.start()
        try:
            yield [worker.pid for worker in started if worker.pid]
        finally:
            for worker in started:
                worker.terminate()
            for worker in started:
                worker.join()
        assert not any(worker.exitcode for worker in started), printed.read_text()

    def _await(self, project: Project, count: int) -> None:
        """Wait until the workers are ready."""
        catalog, (embedder, *_) = project.knowledge.open("docs").embedding
        pool, deadline = catalog.embeddings.maker, time.monotonic() + SECONDS_TO_START
        assert isinstance(pool, Pool)
        while finish(pool.engine.look_after(key_of(embedder))) < count:
            assert time.monotonic() < deadline, "the workers do not start"
            time.sleep(0.05)


if __name__ == "__main__":
    main()
