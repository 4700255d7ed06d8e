"""Compare the speed of this checkout with another one, in the same run.

    python benchmarks/against.py --against PATH [--sizes N,N] [--rounds N] [--parts ingest,queries]

`PATH` is another checkout with the same `Project`. Each side runs in its own process and its own
project folder, with the same documents. The sides never run at the same time, and take turns in
being first. A ratio below 1 means that this side takes less time. It is the median over the rounds,
once by wall clock and once by processor time of all threads; on a busy machine, use the latter.

`ingest`: into a new SQLite file, then again with nothing changed, in the default batches of 64.
`queries`: `project.query` of the last of these files, by every strategy, and by similarity with a
filter that a tenth of the passages match; medians of a round, and the number of questions with the
same ids and scores on both sides. `cold`: a fresh process that opens the project and asks.
`pgvector`: a first ingest into PostgreSQL, in a separate server whose processor time counts too.

Texts have 20,000 words whose frequencies follow 1 / rank (Zipf's law), and a question has seven
words of one passage, without the fifty most frequent ones, which stand for stop words. The share of
passages that contain any of them is printed. Vectors are looked up rather than computed, see
`nearest.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "knowledge", "prompts", "bindings", "app", "config"
PARTS = "ingest,queries,cold,pgvector"
HERE, THERE = "here", "there"
EMBEDDER = {"id": "one", "provider": "langchain", "class": "nearest:Clustered", "batch_size": 64}
WORDS, STOP_WORDS, TOPICS = 20_000, 50, 10
PER_FILE, PER_PASSAGE, PER_QUESTION, TOP_K = 10, 60, 7, 10
KINDS: dict[str, dict[str, Any]] = {
    "similarity": {"strategy": "similarity"},
    "similarity, filter": {"strategy": "similarity", "filters": {"topic": "t3"}},
    "lexical": {"strategy": "lexical"},
    "hybrid": {"strategy": "hybrid"},
    "mmr": {"strategy": "mmr"},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout")
    parser.add_argument("--sizes", default="10000,100000", help="in passages")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=40, help="per kind and round")
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--dsn", help="a database with pgvector; default: start a server")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    if arguments.against is None or not (arguments.against / PACKAGES[0]).is_dir():
        parser.error("--against must be the folder of a checkout of Lorebind")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run takes minutes
    parts = arguments.parts.split(",")
    for size in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            checkouts = {HERE: ROOT, THERE: arguments.against.resolve()}
            sides = {name: Side(Path(scratch) / name, at) for name, at in checkouts.items()}
            texts = Texts(size)
            for side in sides.values():
                texts.write(side.folder / "docs")
            Comparison(sides, texts, arguments).run(parts)
            for side in sides.values():
                side.stop()


class Times(NamedTuple):
    """Wall clock seconds and processor seconds."""

    wall: float
    cpu: float


# The input of both sides.


class Texts:
    """Passages of words by rank, where 0 is the most frequent one."""

    def __init__(self, size: int) -> None:
        drawn = np.random.default_rng(1)
        syllables = [a + b + c for a in "bdfgklmnprstv" for b in "aeiou" for c in ("", "n", "s")]
        pairs = np.array([a + b for a in syllables for b in syllables])
        self.words = drawn.choice(pairs, WORDS, replace=False)
        shares = 1 / np.arange(1, WORDS + 1)
        shares /= shares.sum()
        self.ranks: NDArray[np.intp] = drawn.choice(WORDS, (size, PER_PASSAGE), p=shares)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for number in range(0, len(self.ranks), PER_FILE):
            passages = self.words[self.ranks[number : number + PER_FILE]]
            topic = f"---\ntopic: t{number // PER_FILE % TOPICS}\n---\n"
            text = topic + "\n\n".join(map(" ".join, passages))
            (folder / f"{number // PER_FILE}.md").write_text(text, encoding="utf-8")

    def questions(self, count: int) -> tuple[list[str], float]:
        """Return questions, and the median share of passages that contain a word of one."""
        drawn, some = np.random.default_rng(count), self.ranks[:2000]
        questions, shares = [], []
        for passage in drawn.choice(self.ranks, count):
            rare = np.unique(passage[passage >= STOP_WORDS])
            chosen = drawn.permutation(rare)[:PER_QUESTION]
            questions.append(" ".join(self.words[chosen]))
            shares.append(float(np.isin(some, chosen).any(axis=1).mean()))
        return questions, statistics.median(shares)


# One side: its process, which gets commands and returns their durations.


class Side:
    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder = folder
        self._path = os.pathsep.join(str(checkout / package) for package in PACKAGES)
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env={**os.environ, "PYTHONPATH": self._path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, verb: str, **values: Any) -> Any:
        return _reply(self._process, verb, folder=str(self.folder), **values)

    def cold(self, **values: Any) -> Times:
        """Return the time of a new process to its first answer, including its start."""
        began = time.perf_counter()
        process = self._started()
        cpu = _reply(process, "first", folder=str(self.folder), **values)
        wall = time.perf_counter() - began
        process.communicate()
        return Times(wall, cpu)

    def stop(self) -> None:
        self._process.communicate()


def _reply(process: subprocess.Popen[str], verb: str, **values: Any) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([verb, values]) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit(f"{verb}: the process has ended, see above")
    return json.loads(answer)


def serve() -> None:
    """Execute the commands on standard input, line by line."""
    verbs: dict[str, Callable[..., Any]] = {"ingest": ingest, "ask": ask, "first": first}
    for line in sys.stdin:
        verb, values = json.loads(line)
        print(json.dumps(verbs[verb](**values)), flush=True)


def ingest(folder: str, stored: dict[str, Any], size: int) -> list[Times]:
    """Time a first ingest and one with nothing changed."""
    times = []
    with _project(folder, stored) as project:
        for changed in (size, 0):
            wall, cpu = time.perf_counter(), time.process_time()
            report = project.ingest("docs")
            times.append(Times(time.perf_counter() - wall, time.process_time() - cpu))
            chunks = report.chunks
            assert (chunks["total"], chunks["added"]) == (size, changed), report
    return times


_opened: dict[str, Any] = {}


def ask(
    folder: str, stored: dict[str, Any], settings: dict[str, Any], questions: list[str]
) -> tuple[list[Times], list[Any]]:
    """Return the time of each question, and the passages found."""
    project = _opened.setdefault(json.dumps(stored), None) or _project(folder, stored)
    _opened[json.dumps(stored)] = project
    times, answers = [], []
    for question in questions:
        wall, cpu = time.perf_counter(), time.process_time()
        result = project.query("docs", question, top_k=TOP_K, **settings)
        times.append(Times(time.perf_counter() - wall, time.process_time() - cpu))
        answers.append([(match.id, round(match.score, 6)) for match in result])
    return times, answers


def first(folder: str, stored: dict[str, Any], question: str) -> float:
    """Return processor seconds from the start of the process to the first answer."""
    _project(folder, stored).query("docs", question, top_k=TOP_K)
    return time.process_time()


def _project(folder: str, stored: dict[str, Any]) -> Any:
    from lorebind import Project  # imported in the process of a side, which has its own version

    sources = [{"type": "markdown_glob", "path": "docs/*.md"}]
    environ = {}
    if dsn := stored.get("dsn"):
        environ["DSN"] = dsn
        stored = {"type": stored["type"], "config": {"dsn": "{{ .env.DSN }}"}}
    declared = {
        "name": "bench",
        "embedders": [EMBEDDER],
        "vector_dbs": [{"id": "db", **stored}],
        "knowledge_bases": [
            {"id": "docs", "sources": sources, "chunking": {"size": 600, "overlap": 0}}
        ],
    }
    return Project.build(declared, root=folder, environ=environ or None)


# The comparison.


class Comparison:
    def __init__(self, sides: Mapping[str, Side], texts: Texts, arguments: Any) -> None:
        self._sides, self._texts, self._arguments = sides, texts, arguments
        self._size = len(texts.ranks)
        self._rounds: int = arguments.rounds

    def run(self, parts: Sequence[str]) -> None:
        print(f"\n{self._size} passages, {PER_FILE} in a file; median of {self._rounds} rounds")
        print(f"{'':26}   here ms: wall, cpu   there ms: wall, cpu   here / there: wall, cpu")
        files = [_sqlite(number) for number in range(self._rounds)]
        if "ingest" not in parts:
            files = files[-1:]
        filled = [
            self._each(number, partial(self._ingested, stored=file))
            for number, file in enumerate(files)
        ]
        if "ingest" in parts:
            self._line("first ingest", [{s: t[0] for s, t in run.items()} for run in filled])
            self._line("unchanged ingest", [{s: t[1] for s, t in run.items()} for run in filled])
        if "queries" in parts:
            self._queries(files[-1])
        if "cold" in parts:
            question = self._texts.questions(1)[0][0]
            rounds = [
                self._each(number, lambda side: side.cold(stored=files[-1], question=question))
                for number in range(self._rounds)
            ]
            self._line("cold start, first answer", rounds)
        if "pgvector" in parts:
            self._pgvector()

    def _each(self, number: int, measure: Callable[[Side], Any]) -> dict[str, Any]:
        """Return the results of both sides; the order changes every round."""
        names = [HERE, THERE] if number % 2 else [THERE, HERE]
        return {name: measure(self._sides[name]) for name in names}

    def _ingested(self, side: Side, stored: dict[str, Any]) -> list[Times]:
        return [Times(*times) for times in side.do("ingest", stored=stored, size=self._size)]

    def _queries(self, stored: dict[str, Any]) -> None:
        questions, share = self._texts.questions(self._arguments.questions)
        print(f"questions, each with a word of {share:.0%} of the passages:")
        for kind, settings in KINDS.items():
            request = {"stored": stored, "settings": settings, "questions": questions}
            rounds, same = [], 0
            for number in range(self._rounds + 1):
                results = self._each(
                    number, lambda side, request=request: side.do("ask", **request)
                )
                answers = [answers for _, answers in results.values()]
                same = sum(first == other for first, other in zip(*answers, strict=True))
                middle = {
                    name: Times(*(statistics.median(clock) for clock in zip(*times, strict=True)))
                    for name, (times, _) in results.items()
                }
                if number:  # skip the first, which loads data
                    rounds.append(middle)
            self._line(kind, rounds, f"   {same} of {len(questions)} the same")

    def _pgvector(self) -> None:
        import psycopg
        from pgvector import database, server_seconds

        rounds = []
        with database(self._arguments.dsn) as (dsn, server):
            for number in range(self._rounds):

                def loaded(side: Side, number: int = number) -> Times:
                    schema = f"lorebind_{side.folder.name}_{number}"
                    options = f"?options=-csearch_path%3D{schema}%2Cpublic"
                    stored = {"type": "pgvector", "dsn": dsn + options}
                    with psycopg.connect(dsn, autocommit=True) as db:
                        db.execute(f"create schema {schema}")
                        before = server_seconds(server)
                        (wall, cpu), _ = self._ingested(side, stored)
                        both = cpu + server_seconds(server) - before
                        db.execute(f"drop schema {schema} cascade")
                    return Times(wall, both)

                rounds.append(self._each(number, loaded))
        self._line("first ingest into pgvector", rounds)

    def _line(self, name: str, rounds: Sequence[Mapping[str, Times]], note: str = "") -> None:
        columns = []
        for side in (HERE, THERE):
            for clock in Times._fields:
                middle = statistics.median(getattr(times[side], clock) for times in rounds)
                columns.append(f"{middle * 1000:9.1f}")
        for clock in Times._fields:
            ratio = statistics.median(
                getattr(run[HERE], clock) / getattr(run[THERE], clock) for run in rounds
            )
            columns.append(f"{ratio:7.2f}")
        print(f"{name:26} {' '.join(columns)}{note}")


def _sqlite(number: int) -> dict[str, Any]:
    return {"type": "sqlite", "config": {"path": f"{number}.db"}}


if __name__ == "__main__":
    main()
