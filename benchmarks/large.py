"""Searches of a large knowledge base in PostgreSQL with approximate indexes.

    python benchmarks/large.py [--sizes N,N] [--questions N] [--add N] [--rest N] [--dsn DSN]

A passage has 60 words of 200,000, whose frequencies follow 1 / rank (Zipf's law), and a document
has ten passages. A question has eight words of one passage. Vectors have 384 dimensions and are
those of `clustered` in `pgvector.py`. Nothing is embedded: a question's vector is looked up.

For each size, passages are written as an ingest writes them, in batches of 1,000. Then:

`hybrid`: `project.query` with the default strategy, p50 and p90: when nothing changes; right after
a publish of one document, every time; and with many passages in no index, again when nothing
changes and after a publish. `similarity`: the same, for nearest vectors only. `no match`: the same,
with a filter that no passage passes. `recall`: the share of the ten nearest vectors that the store
finds.

With those of the last publishes, fewer than 25,000 passages must be in no index. Otherwise an index
is built beside the questions, and they take longer.

`add`: vectors that the store adds per second beside its finished index, which takes in none of
them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings
from pgvector import clustered, database

from lorebind import Project
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.records import Record
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector.settings import PgvectorSettings
from lorebind_knowledge.stores.pgvector.store import PgvectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

WORDS, PER_PASSAGE, PER_DOCUMENT, PER_QUESTION, BEST = 200_000, 60, 10, 8, 10
BATCH = 1000
WARM = 5
"""Questions before each measurement, which load what every search needs."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,200000", help="in passages")
    parser.add_argument("--questions", type=int, default=60, help="per measurement")
    parser.add_argument("--add", type=int, default=10_000, help="vectors to add beside the index")
    parser.add_argument("--rest", type=int, default=23_000, help="passages in no index, see above")
    parser.add_argument("--dsn", help="a writable database with pgvector; default: start a server")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run takes minutes
    for size in map(int, arguments.sizes.split(",")):
        with database(arguments.dsn) as (dsn, _), Large(dsn, size, arguments) as large:
            large.measure()


class Vectors(Embeddings):
    """Looks up the vectors of questions."""

    def __init__(self) -> None:
        self.by_text: dict[str, NDArray[np.float32]] = {}
        self._other = clustered(3, 1)[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.by_text.get(text, self._other).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector without a thread, which a lookup does not need."""
        return self.embed_query(text)


class Large:
    """A knowledge base that grows."""

    def __init__(self, dsn: str, size: int, arguments: argparse.Namespace) -> None:
        self._dsn, self._size, self._arguments = dsn, size, arguments
        self._table = f"large_{size}"
        self._vectors = Vectors()
        self._folder = tempfile.TemporaryDirectory()
        config: dict[str, Any] = {
            "dsn": "{{ .env.DSN }}",
            "table": self._table,
            "ensure_index": True,
            "index": {"build_max_bytes": 4_000_000_000},
        }
        self.project = Project.build(
            {
                "name": f"large-{size}",
                "vector_dbs": [{"id": "db", "type": "pgvector", "config": config}],
                "knowledge_bases": [
                    {
                        "id": "docs",
                        "sources": [
                            {"type": "inline", "documents": [{"id": "first", "text": "A text."}]}
                        ],
                    }
                ],
            },
            embedder=self._vectors,
            root=self._folder.name,
            environ={"DSN": dsn},
        )
        self.project.ingest("docs")
        self._kb = self.project.knowledge.open("docs").kb
        entry = self._kb.catalog.ledger.index(self._kb.namespace, "active")
        assert entry is not None
        self._entry = entry
        self._batches = self._draw()
        self._passages: list[str] = []
        self._rng = np.random.default_rng(size)
        self._in_no_index = 0
        """Number of passages written since the index was built."""

    def __enter__(self) -> Large:
        return self

    def __exit__(self, *_: object) -> None:
        self.project.close()
        self._folder.cleanup()

    def measure(self) -> None:
        print(f"{self._size} passages, {self._arguments.questions} questions each:")
        with timed("write", self._size):
            self.grow(self._size)
        with timed("build the index", self._size):
            self._kb.index.finish_load(self._entry)
        self._in_no_index = 0
        self.recall()
        self.ask("nothing changes")
        self.ask("after a publish", self.publish)
        self.add(self._arguments.add)
        self.grow(self._arguments.rest - self._in_no_index)
        self.recall()
        self.ask(f"{self._in_no_index} in no index")
        self.ask("the same, after a publish", self.publish)

    def grow(self, count: int) -> None:
        """Write more passages as an ingest does."""
        index, kb = self._kb.index, self._kb
        self._in_no_index += max(count, 0)
        with kb.catalog.lease(kb.namespace) as lease:
            for start in range(0, count, BATCH):
                records = self._records(min(BATCH, count - start))
                index.stage(lease, self._entry, records)
                index.publish(lease, self._entry, {record.uri: 1 for record in records})

    def publish(self) -> None:
        self.grow(PER_DOCUMENT)

    def add(self, count: int) -> None:
        """Add vectors to the store alone, and delete them again."""
        store, space = self._kb.index.store, self._entry.space
        numbers = range(2**40, 2**40 + count)
        vectors = [
            StoredVector(n, v, "", {}) for n, v in zip(numbers, clustered(4, count), strict=True)
        ]
        with timed("add", count):
            for start in range(0, count, BATCH):
                finish(store.add(space, vectors[start : start + BATCH]))
        finish(store.delete(space, numbers))

    def recall(self) -> None:
        exact = PgvectorStore(self._dsn, PgvectorSettings(table=self._table))
        found = 0
        for vector in clustered(int(self._rng.integers(2**31)), self._arguments.questions):
            some, best = (
                finish(store.nearest(self._entry.space, vector, BEST, {}, None)).numbers
                for store in (self._kb.index.store, exact)
            )
            found += len(set(some).intersection(best))
        exact.close()
        print(f"  recall@{BEST}: {found / (BEST * self._arguments.questions):.4f}")

    def ask(self, state: str, before: Callable[[], object] = lambda: None) -> None:
        """Print the times of questions in this state of the knowledge base."""
        kinds: dict[str, dict[str, Any]] = {
            "hybrid": {},
            "similarity": {"strategy": "similarity"},
            "no match": {"strategy": "similarity", "filters": {"title": "none"}},
        }
        for kind, settings in kinds.items():
            times, found = [], 0
            for at, question in enumerate(self._questions(WARM + self._arguments.questions)):
                before()
                began = time.perf_counter()
                result = self.project.query("docs", question, top_k=BEST, **settings)
                if at >= WARM:
                    times.append((time.perf_counter() - began) * 1000)
                    found += len(result.matches)
            p50, p90 = np.percentile(times, [50, 90])
            print(f"  {kind}, {state}: p50 {p50:.0f} ms, p90 {p90:.0f} ms, {found} passages")

    def _questions(self, count: int) -> list[str]:
        questions = []
        vectors = clustered(int(self._rng.integers(2**31)), count)
        for vector in vectors:
            words = self._passages[int(self._rng.integers(len(self._passages)))].split()
            question = " ".join(self._rng.choice(words, PER_QUESTION, replace=False))
            self._vectors.by_text[question] = vector
            questions.append(question)
        return questions

    def _records(self, count: int) -> list[Record]:
        return list(itertools.islice(self._batches, count))

    def _draw(self) -> Iterator[Record]:
        rng = np.random.default_rng(1)
        shares = 1 / np.arange(1, WORDS + 1)
        shares /= shares.sum()
        words = np.array([f"w{number:x}" for number in range(WORDS)])
        for number in itertools.count():
            vectors = clustered(10 + number, BATCH)
            drawn = words[rng.choice(WORDS, (BATCH, PER_PASSAGE), p=shares)]
            for at, (vector, passage) in enumerate(zip(vectors, drawn, strict=True)):
                text = " ".join(passage)
                if at < BATCH // 10:
                    self._passages.append(text)
                place = number * BATCH + at
                yield Record(
                    f"{place:064x}",
                    self._entry.key,
                    f"{place // PER_DOCUMENT}.md",
                    1,
                    text,
                    vector,
                    {"kb_id": "docs", "uri": f"{place // PER_DOCUMENT}.md", "title": "", "start": 0}
                    | {"end": len(text), "line_start": 1, "line_end": 1},
                )


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    began = time.perf_counter()
    yield
    taken = time.perf_counter() - began
    print(f"  {what}: {taken:.1f} s, {count / taken:,.0f} a second")


if __name__ == "__main__":
    main()
