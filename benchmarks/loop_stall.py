"""How late an event loop wakes, and how long a short read waits, during ingests and searches.

    python benchmarks/loop_stall.py [--rounds N] [--askers N] [--files N]

Everything runs on one asyncio loop, with a task that sleeps a millisecond and records how much
later it wakes. Rounds alternate among the rows; each ratio is the median over the rounds. `to the
first` compares the 99th percentiles: Python threads delay a loop by waiting for the interpreter
lock, so the delay shows how many of them run at a time. Embedding costs almost nothing, as in the
other benchmarks. A read is `stats`, called just after `--askers` questions.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ingest import corpus, project
from latency import EMBEDDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lorebind import Project

TOP_K = 10
PARAGRAPHS = 50


class Round(NamedTuple):
    p50: float
    """The median delay of the loop, in milliseconds."""
    p99: float
    seconds: float
    """The duration of the ingest."""
    answers: float
    """The number of answers per second."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--askers", type=int, default=50)
    parser.add_argument("--files", type=int, default=100, help=f"with {PARAGRAPHS} chunks each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "docs"
        texts = [passage.text for passage in corpus(folder, arguments.files, PARAGRAPHS)]
        with project(folder, Path(scratch) / "bench.db", embedder=EMBEDDER) as declared:
            declared.ingest("docs")
            bench = Bench(declared, folder, texts)
            asyncio.run(bench.stalls(arguments.rounds, (1, 0, arguments.askers)))
            asyncio.run(bench.reads(arguments.rounds, arguments.askers))


class Bench:
    def __init__(self, declared: Project, folder: Path, texts: list[str]) -> None:
        self._project, self._folder, self._texts = declared, folder, texts
        self._chance = random.Random(len(texts))
        self._new_files = len(texts) // PARAGRAPHS * 2 // 5

    async def stalls(self, rounds: int, askers: tuple[int, ...]) -> None:
        taken: dict[int, list[Round]] = {number: [] for number in askers}
        for _ in range(rounds):
            for number, row in taken.items():
                row.append(await self._round(number))
        print(
            f"\nan ingest of {self._new_files * PARAGRAPHS} new chunks, median of {rounds} rounds"
        )
        print("askers   late p50 ms   p99 ms   to the first   ingest s   answers/s")
        base = taken[askers[0]]
        for number, row in taken.items():
            ratio = statistics.median(
                mine.p99 / first.p99 for mine, first in zip(row, base, strict=True)
            )
            p50, p99, seconds, answers = (
                statistics.median(each) for each in zip(*row, strict=True)
            )
            print(
                f"{number:6}   {p50:11.2f}   {p99:6.1f}   {ratio:12.2f}   {seconds:8.2f}   "
                f"{answers:9.0f}"
            )

    async def reads(self, rounds: int, askers: int) -> None:
        single, alone, beside = [], [], []
        for _ in range(rounds):
            single += [await self._ask() for _ in range(10)]
            alone += [await self._read() for _ in range(10)]
            asking = [asyncio.create_task(self._ask()) for _ in range(askers)]
            await asyncio.sleep(0.005)  # until they wait for threads
            beside.append(await self._read())
            await asyncio.gather(*asking)
        query, waited = statistics.median(single), statistics.median(beside)
        print(f"\na question {query * 1e3:.1f} ms, a read {statistics.median(alone) * 1e3:.1f} ms;")
        print(
            f"a read beside {askers} questions {waited * 1e3:.1f} ms, "
            f"{waited / query:.2f} times a question"
        )

    async def _round(self, askers: int) -> Round:
        self._write()
        answered = 0

        async def ask_on() -> None:
            nonlocal answered
            while True:
                await self._ask()
                answered += 1

        async with noticing() as late:
            asking = [asyncio.create_task(ask_on()) for _ in range(askers)]
            began = time.perf_counter()
            report = await self._project.aingest("docs")
            seconds = time.perf_counter() - began
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        assert report.texts_embedded == self._new_files * PARAGRAPHS, report
        p50, p99 = np.percentile(late, [50, 99]) * 1e3
        return Round(p50, p99, seconds, answered / seconds)

    def _write(self) -> None:
        """Replace the passages of the previous round by as many new ones."""
        for number in range(self._new_files):
            texts = [" ".join(self._words(68)) for _ in range(PARAGRAPHS)]
            (self._folder / f"new {number}.md").write_text("\n\n".join(texts))

    def _words(self, count: int) -> list[str]:
        return [f"{self._chance.randrange(16**4, 16**5):x}" for _ in range(count)]

    async def _ask(self) -> float:
        question = " ".join(self._chance.sample(self._chance.choice(self._texts).split(), 6))
        began = time.perf_counter()
        await self._project.aquery("docs", question, strategy="hybrid", top_k=TOP_K)
        return time.perf_counter() - began

    async def _read(self) -> float:
        began = time.perf_counter()
        await self._project.astats("docs")
        return time.perf_counter() - began


@asynccontextmanager
async def noticing() -> AsyncIterator[list[float]]:
    """Record how many seconds late the loop woke, each time within the block."""
    late: list[float] = []

    async def beat() -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            late.append(time.perf_counter() - due)

    beating = asyncio.create_task(beat())
    try:
        yield late
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


if __name__ == "__main__":
    main()
