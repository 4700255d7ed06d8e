"""The latency of a question, layer by layer, compared with other libraries for nearest vectors.

    make bench
    python benchmarks/latency.py [--sizes N,N] [--rounds N] [--parts vectors,searches,askers,cold]

All figures of a table are from the same run: rounds alternate among its rows, and the ratio to the
first row is the median over the rounds. A question's vector is looked up rather than computed, so
that no figure includes a model; vectors have 384 dimensions and lie in clusters.

`vectors`: the ten nearest passages, through each layer of Lorebind: the store called in a thread,
awaited as every search awaits it, the project's async version, and its sync version. `found` is the
share of results that are as near as those of the exact answer; `ms over the store` is what Lorebind
adds to its own store. `searches`: the other retrieval strategies, in the whole project; a filter is
new if its value was never used before. `askers`: eight threads at a time. `cold`: a fresh process
opens the project and asks; the file is in the system's cache, as after an ingest.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from ingest import corpus, project
from nearest import DIMENSION, LANGCHAIN, NUMPY, TOP_K, bare, installed, vectors_of

from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.plumbing.bridge import call, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nearest import Vector

    from lorebind import Project

EMBEDDER = {"provider": "langchain", "class": "nearest:Clustered", "batch_size": 1000}
PER_FILE = 50
ASKERS = 8
MOST_FOR_LANGCHAIN = 10_000
"""With ten times as many passages, it takes seconds per question."""
SAME = 2e-6
"""Cosines that differ by less count as equal: scores have six decimals."""
SLOW = {LANGCHAIN: 2}
"""Number of questions per round for slow rows."""


class Question(NamedTuple):
    text: str
    """Six words of one passage."""
    vector: Vector


class Held(NamedTuple):
    """The same passages in both stores."""

    sqlite: Project
    memory: Project
    texts: Sequence[str]
    matrix: Vector


Ask: TypeAlias = "Callable[[Question], Any]"
"""Finds passages; an awaitable result is awaited."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=40, help="per row and round")
    parser.add_argument("--parts", default="vectors,searches,askers,cold")
    parser.add_argument("--first-answer", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first_answer:
        print(*first_answer(arguments.first_answer))
        return
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run takes minutes
    parts = arguments.parts.split(",")
    others = installed() if {"vectors", "askers"} & set(parts) else {}
    for size in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory() as scratch, filled(Path(scratch), size) as held:
            asker = Asked(held.texts, arguments.questions, arguments.rounds)
            searches = {
                name: make(held.texts, held.matrix)
                for name, make in others.items()
                if name != LANGCHAIN or size <= MOST_FOR_LANGCHAIN
            }
            theirs: dict[str, Ask] = {
                name: lambda question, search=search: search(question.vector)
                for name, search in searches.items()
            }
            if "vectors" in parts:
                asker.table(f"{size} vectors, top {TOP_K}", theirs | layers(held), exact=held)
            if "searches" in parts:
                asker.table(f"{size} passages, project awaited", ways(held, asker))
            if "askers" in parts:
                asker.together(f"{size} vectors, {ASKERS} threads", theirs | blocking(held))
            if "cold" in parts:
                cold(Path(scratch), held, arguments.rounds)


# The rows.


def layers(held: Held) -> dict[str, Ask]:
    ways: dict[str, Ask] = {}
    for name, declared in (("memory", held.memory), ("sqlite", held.sqlite)):
        search = searching(declared)
        ways |= {
            f"{name}: store": lambda q, s=search: s(q.vector),
            f"{name}: store, awaited": lambda q, s=search: call(s, q.vector),
            f"{name}: project, awaited": lambda q, d=declared: d.aquery("docs", q.text, **NEAREST),
            f"{name}: project": lambda q, d=declared: d.query("docs", q.text, **NEAREST),
        }
    return ways


def blocking(held: Held) -> dict[str, Ask]:
    return {name: ask for name, ask in layers(held).items() if not name.endswith("awaited")}


NEAREST: dict[str, Any] = {"strategy": "similarity", "top_k": TOP_K}
SMOOTHING = {"smoothing": {"weight": 0.3}}


def ways(held: Held, asker: Asked) -> dict[str, Ask]:
    asks: dict[str, Ask] = {}
    limits = itertools.count(1)
    for name, declared in (("memory", held.memory), ("sqlite", held.sqlite)):
        # About a tenth of the passages; `uri` distinguishes new filters without changing the
        # results.
        filters = {"line_start": {"$lt": PER_FILE // 5}}
        asks |= {
            f"{name}: similarity": lambda q, d=declared: d.aquery("docs", q.text, **NEAREST),
            f"{name}: similarity, filter known": lambda q, d=declared, k=filters: d.aquery(
                "docs", q.text, filters=k, **NEAREST
            ),
            f"{name}: similarity, filter new": lambda q, d=declared, k=filters: d.aquery(
                "docs", q.text, filters={**k, "uri": {"$ne": str(next(limits))}}, **NEAREST
            ),
            f"{name}: lexical": lambda q, d=declared: d.aquery(
                "docs", q.text, strategy="lexical", top_k=TOP_K
            ),
            f"{name}: hybrid": lambda q, d=declared: d.aquery(
                "docs", q.text, strategy="hybrid", top_k=TOP_K
            ),
            f"{name}: hybrid, smoothing": lambda q, d=declared: d.aquery_many(
                ["docs"], q.text, strategy="hybrid", top_k=TOP_K, fusion=SMOOTHING
            ),
        }
    return asks


def searching(declared: Project) -> Callable[[Vector], list[str]]:
    """Return a function that searches the vectors of a project's one index, without texts."""
    kb = declared.knowledge.open("docs").kb
    index = kb.catalog.ledger.index(kb.namespace, "active")
    assert index is not None
    with kb.catalog.reading() as sql:
        chunks = Chunks(sql, index.index_uid)
        texts = {n: chunk.text for n, chunk in chunks.chunks(chunks.live_numbers()).items()}

    def search(vector: Vector) -> list[str]:
        hits = finish(kb.index.store.nearest(index.space, vector, TOP_K, {}, None))
        return [texts[number] for number in hits.numbers[:TOP_K]]

    return search


# Timing.


class Asked:
    """Questions, the same for every row of a table, in rounds."""

    def __init__(self, texts: Sequence[str], number: int, rounds: int) -> None:
        chance = random.Random(number)
        passages = (chance.choice(texts).split() for _ in range(number))
        words = [" ".join(chance.sample(passage, 6)) for passage in passages]
        self.questions = [
            Question(text, vector) for text, vector in zip(words, vectors_of(words), strict=True)
        ]
        self.rounds = rounds

    def table(self, title: str, rows: Mapping[str, Ask], exact: Held | None = None) -> None:
        taken: dict[str, list[list[float]]] = {name: [] for name in rows}
        texts: dict[str, list[list[str]]] = {}

        async def measure() -> None:
            for number in range(self.rounds + 1):
                for name, ask in rows.items():
                    times, texts[name] = await ask_all(ask, self.questions[: SLOW.get(name)])
                    if number:  # skip the first, which loads data
                        taken[name].append(times)

        asyncio.run(measure())
        print(f"\n{title}; {self.rounds} rounds of {len(self.questions)} questions")
        more = "   found   ms over the store" if exact else ""
        print(f"{'':34}   p50 ms   p95 ms   to {next(iter(rows))}{more}")
        base = next(iter(taken.values()))
        for name, rounds in taken.items():
            share = f"   {self._share(texts[name], exact):.3f}" if exact else ""
            if (store := taken.get(f"{name.partition(':')[0]}: store")) and exact:
                share += f"   {excess(rounds, store):12.2f}"
            print(f"{name:34} {figures(rounds)}   {ratio(rounds, base):8.2f}{share}")

    def together(self, title: str, rows: Mapping[str, Ask]) -> None:
        """Let one thread ask all questions in sequence, then several threads in parallel."""
        alone: dict[str, list[float]] = {name: [] for name in rows}
        at_once: dict[str, list[float]] = {name: [] for name in rows}
        taken: dict[str, list[list[float]]] = {name: [] for name in rows}
        for number in range(self.rounds + 1):
            for name, ask in rows.items():
                questions = self.questions[: SLOW.get(name)]
                _, rate = in_threads(ask, questions, 1)
                times, several = in_threads(ask, questions, ASKERS)
                if number:
                    alone[name].append(rate)
                    at_once[name].append(several)
                    taken[name].append(times)
        print(f"\n{title}; {self.rounds} rounds of {len(self.questions)} questions")
        print(f"{'':34}   p50 ms   p95 ms   questions/s   to one thread")
        for name, rates in at_once.items():
            gain = statistics.median(
                some / single for some, single in zip(rates, alone[name], strict=True)
            )
            print(
                f"{name:34} {figures(taken[name])}   {statistics.median(rates):11.0f}   {gain:.2f}"
            )

    def _share(self, answers: list[list[str]], exact: Held) -> float:
        """Return the share of results that are as near as the last one of the exact answer."""
        hits = 0
        for texts, question in zip(answers, self.questions, strict=False):
            least = exact.matrix[bare(exact.matrix, question.vector)[-1]] @ question.vector
            hits += int((vectors_of(texts) @ question.vector > least - SAME).sum())
        return hits / (TOP_K * len(answers))


async def ask_all(ask: Ask, questions: Sequence[Question]) -> tuple[list[float], list[list[str]]]:
    """Return the seconds of each question, and the texts that were found."""
    times, texts = [], []
    for question in questions:
        began = time.perf_counter()
        answer = ask(question)
        if inspect.isawaitable(answer):
            answer = await answer
        times.append(time.perf_counter() - began)
        texts.append([getattr(match, "text", match) for match in answer])
    return times, texts


def in_threads(ask: Ask, questions: Sequence[Question], threads: int) -> tuple[list[float], float]:
    """Return the time of each question, and the number of answers per second."""
    waiting, times = iter(questions), list[float]()
    turn = threading.Lock()

    def work() -> None:
        while True:
            with turn:
                question = next(waiting, None)
            if question is None:
                return
            began = time.perf_counter()
            ask(question)
            times.append(time.perf_counter() - began)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return times, len(times) / (time.perf_counter() - began)


def figures(rounds: Sequence[Sequence[float]]) -> str:
    """Return p50 and p95 over all rounds, in milliseconds."""
    times = [seconds * 1000 for round_ in rounds for seconds in round_]
    return f"{np.percentile(times, 50):8.2f} {np.percentile(times, 95):8.2f}"


def ratio(rounds: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float:
    """Return the median over the rounds of the ratio of medians."""
    return statistics.median(
        statistics.median(ours) / statistics.median(theirs)
        for ours, theirs in zip(rounds, base, strict=True)
    )


def excess(rounds: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float:
    """Return the median over the rounds of the difference of medians, in milliseconds."""
    return 1000 * statistics.median(
        statistics.median(ours) - statistics.median(theirs)
        for ours, theirs in zip(rounds, base, strict=True)
    )


# A fresh process.


def cold(scratch: Path, held: Held, rounds: int) -> None:
    np.save(scratch / "matrix.npy", held.matrix)
    taken: dict[str, list[list[float]]] = {"matrix.npy": [], "bench.db": []}
    for _ in range(rounds):
        for name, runs in taken.items():
            command = [sys.executable, __file__, "--first-answer", str(scratch / name)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            runs.append([float(figure) for figure in done.stdout.split()])
    print(f"\n{len(held.texts)} vectors, a fresh process; median of {rounds} rounds")
    print(f"{'':34}   imports, cpu ms   first answer ms   second ms   MB read   MB on disk")
    for name, runs in taken.items():
        imports, first, second, read = (statistics.median(each) for each in zip(*runs, strict=True))
        label = NUMPY if name == "matrix.npy" else "sqlite: project"
        print(
            f"{label:34}   {imports:15.0f}   {first:15.0f}   {second:9.2f}   {read:7.0f}   "
            f"{(scratch / name).stat().st_size / 1e6:10.0f}"
        )


def first_answer(path: Path) -> tuple[float, float, float, float]:
    """Return the processor ms of the imports, the ms of the first and second answer, and the MB
    read."""
    text = "what is near"
    vector = vectors_of([text])[0]
    imported, before = time.process_time(), bytes_read()
    began = time.perf_counter()
    if path.suffix == ".npy":
        matrix = np.load(path)
        bare(matrix, vector)
        first = time.perf_counter()
        bare(matrix, vector)
        ended = time.perf_counter()
    else:
        with project(path.parent / "docs", path, embedder=EMBEDDER) as declared:
            declared.query("docs", text, **NEAREST)
            first = time.perf_counter()
            declared.query("docs", text, **NEAREST)
            ended = time.perf_counter()
    read = bytes_read() - before
    return imported * 1e3, (first - began) * 1e3, (ended - first) * 1e3, read / 1e6


def bytes_read() -> int:
    """Return the bytes this process has read, including from the system's cache; 0 if unknown."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def filled(scratch: Path, size: int) -> Iterator[Held]:
    """Fill both stores with this many passages."""
    passages = corpus(scratch / "docs", size // PER_FILE, PER_FILE)
    texts = [passage.text for passage in passages]
    with (
        project(scratch / "docs", scratch / "bench.db", embedder=EMBEDDER) as sqlite,
        project(scratch / "docs", None, embedder=EMBEDDER) as memory,
    ):
        for declared in (sqlite, memory):
            report = declared.ingest("docs")
            assert (report.status, report.chunks["total"]) == ("completed", size), report
        matrix = vectors_of(texts)
        assert matrix.shape == (size, DIMENSION)
        yield Held(sqlite, memory, texts, matrix)


if __name__ == "__main__":
    main()
