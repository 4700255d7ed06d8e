"""The cost of filters by date, number and list, against the same search without a filter.

    python benchmarks/filters.py [--passages N] [--rounds N] [--stores NAME,...] [--dsn DSN]

A document has ten passages, with a day of five years, a number, a list of tags and a team as its
metadata. The ten nearest are asked for, through the whole project. Rounds alternate among the
filters, and `ratio` is the median over the rounds of the ratio to the search without a filter.
`new` filters were never used before. `same`: all stores must find the same passages.

With many passages, a search takes seconds in LangChain's store in memory. Qdrant's local mode waits
for the disk at each vector, so let TMPDIR name a folder in memory, such as /dev/shm.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nearest import TOP_K
from pgvector import database

from lorebind import Project

DSN = "FILTERS_DSN"
PER_DOCUMENT, DAYS, QUESTIONS = 10, 5 * 365, 8
START = datetime.date(2021, 1, 1)
STORES: dict[str, dict[str, Any]] = {
    "sqlite": {"type": "sqlite", "config": {"path": "filters.db"}},
    "pgvector": {"type": "pgvector", "config": {"dsn": f"{{{{ .env.{DSN} }}}}"}},
    "qdrant": {"type": "qdrant", "config": {"path": "qdrant"}},
    "langchain": {
        "type": "langchain",
        "class": "langchain_core.vectorstores:InMemoryVectorStore",
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--dsn", help="a writable database with pgvector; default: start a server")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run takes minutes
    stores = arguments.stores.split(",")
    with ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "pgvector" in stores:
            os.environ[DSN], _ = stack.enter_context(database(arguments.dsn))
        questions = write(here, arguments.passages)
        answers: list[Any] = []
        for name in stores:
            with Project.build(declare(name), root=here) as project:
                project.ingest("docs")
                passages = project.stats("docs").chunks
                print(f"\n{name}, {passages} passages, {arguments.rounds} rounds")
                answers.append(measure(project, questions, arguments.rounds))
                if name == "pgvector":
                    project.knowledge_base("docs").delete()
        print(f"\nsame: {all(answer == answers[0] for answer in answers)}")


def declare(name: str) -> dict[str, Any]:
    return {
        "name": "filters",
        "embedders": [{"id": "e", "provider": "langchain", "class": "nearest:Clustered"}],
        "vector_dbs": [{"id": "db", **STORES[name]}],
        "knowledge_bases": [
            {
                "id": "docs",
                "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                "chunking": {"size": 600, "overlap": 0},
            }
        ],
    }


def write(here: Path, passages: int) -> list[str]:
    """Write the documents, and return questions: the first words of some passages."""
    (here / "docs").mkdir()
    chance, questions = random.Random(1), list[str]()
    for number in range(math.ceil(passages / PER_DOCUMENT)):
        day = START + datetime.timedelta(days=chance.randrange(DAYS))
        tags = chance.sample(["a", "b", "c", "d", "e"], 2)
        about = f"day: {day}\nsize: {chance.randrange(1000)}\ntags: {tags}\nteam: t{number % 4}"
        starts = [f"{number} {at} {chance.random()}" for at in range(PER_DOCUMENT)]
        body = "\n\n".join(f"{start} " + f"{chance.random()} " * 24 for start in starts)
        (here / "docs" / f"{number}.md").write_text(f"---\n{about}\n---\n{body}\n")
        questions += starts
    return chance.choices(questions, k=QUESTIONS)


def filters() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return functions that make the filter of each row."""
    fresh = itertools.count(1)

    def day(share: float) -> str:
        """Return the day after which this share of the documents is."""
        return str(START + datetime.timedelta(days=int(DAYS * (1 - share))))

    def new() -> dict[str, Any]:
        """Return a filter by a time that no other filter has."""
        noon = datetime.datetime.fromisoformat(f"{day(0.5)}T12:00Z")
        return {"day": {"$gte": (noon + datetime.timedelta(seconds=next(fresh))).isoformat()}}

    return {
        "no filter": dict,
        "day, most": lambda: {"day": {"$gte": day(0.9)}},
        "day, half": lambda: {"day": {"$gte": day(0.5)}},
        "day, half, new": new,
        "day, few": lambda: {"day": {"$gte": day(0.02)}},
        "list": lambda: {"tags": "a"},
        "list, of several": lambda: {"tags": {"$in": ["b", "c"]}},
        "number": lambda: {"size": {"$lt": 300}},
        "text": lambda: {"team": "t1"},
    }


def measure(project: Project, questions: list[str], rounds: int) -> dict[str, list[list[str]]]:
    """Print a table, and return the texts of the matches of each question, by its rows."""
    rows = filters()
    durations: dict[str, list[float]] = {name: [] for name in rows}
    texts: dict[str, list[list[str]]] = {}
    for number in range(rounds + 1):
        for name, make in rows.items():
            times, texts[name] = [], []
            for question in questions:
                where = make()
                began = time.perf_counter()
                matches = project.query(
                    "docs", question, strategy="similarity", top_k=TOP_K, filters=where
                )
                times.append(time.perf_counter() - began)
                texts[name].append([match.text for match in matches])
            if number:  # skip the first, which loads data
                durations[name].append(statistics.median(times))
    print(f"{'':20}       ms   ratio")
    for name, medians in durations.items():
        base = durations["no filter"]
        ratio = statistics.median(a / b for a, b in zip(medians, base, strict=True))
        print(f"{name:20} {1000 * statistics.median(medians):8.2f}   {ratio:5.2f}")
    return texts


if __name__ == "__main__":
    main()
