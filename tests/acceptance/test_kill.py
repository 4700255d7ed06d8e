"""Ingests that are killed anywhere: a search works at once, and a rerun ends as if nothing was.

The process kills itself with SIGKILL at a given step of ours, a step being a call out of or into
our packages, a return included: before and after every statement of the ledger and the store, in
whichever thread. So a point is as likely within a transaction as in the middle of the embedding.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lorebind import Project
from tests.bindings.helpers import write

from .helpers import NOTING, embedded, served, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.records import DocumentMatch

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by a signal of POSIX")

REPOSITORY = Path(__file__).parents[2]
BATCH = 4
DOCUMENTS = 60
MOST_IN_A_ROW = 6
"""Kills before an ingest is left in peace."""

PROJECT = f"""\
name: killed
embedders:
  - id: noting
    provider: langchain
    class: "{NOTING}"
    batch_size: {BATCH}
    max_concurrent: CALLS_AT_ONCE
knowledge_bases:
  - id: docs
    sources: [{{ type: markdown_glob, path: "docs/*.md" }}]
    chunking: {{ size: 100, overlap: 0 }}
    preprocess: {{ dedupe: false }}
"""

INGESTS = """
import os, signal, sys, threading
from itertools import count

sys.path.insert(0, sys.argv[1])
import filelock, langchain_core.embeddings, numpy, wcmatch.glob  # once, not in every child
import lorebind_knowledge.chunking.recursive, lorebind_knowledge.embedders.steady
import lorebind_knowledge.service, tests.acceptance.noting_embedder
from lorebind import Project

steps, fatal, is_ours = count(1), 0, {}

def step(frame, event, argument):
    code = frame.f_code
    ours = is_ours.get(code)
    if ours is None:
        ours = is_ours[code] = f"{os.sep}lorebind" in code.co_filename
    if ours and next(steps) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

def ingest(root, strategy):
    os.environ["EMBEDDED_LOG"] = os.path.join(root, "embedded.jsonl")
    threading.setprofile(step)
    sys.setprofile(step)
    with Project.load(root) as project:
        report = project.ingest("docs", strategy=strategy)
    sys.setprofile(None)
    assert report.status == "completed", report
    return next(steps)

for line in sys.stdin:
    root, strategy, at = line.rstrip().split("\\t")
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            fatal = int(at)
            os.write(writable, str(ingest(root, strategy)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writable)
    _, status = os.waitpid(child, 0)
    taken = os.read(readable, 100).decode()
    os.close(readable)
    print(os.waitstatus_to_exitcode(status), taken or 0, flush=True)
"""
"""Ingests the folders that it is told to, each in a process forked for it."""


class Ingests:
    """Runs ingests in processes of their own, which may be killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", INGESTS, str(REPOSITORY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, root: Path, strategy: str, at: int = 0) -> int:
        """Ingest, killed at a step, at none when that is 0.

        Returns:
            the steps that it took; 0 when it was killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{root}\t{strategy}\t{at}\n")
        self._process.stdin.flush()
        code, steps = map(int, self._process.stdout.readline().split())
        assert code == (0 if steps else -signal.SIGKILL)
        return steps

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def ingests() -> Iterator[Ingests]:
    ingests = Ingests()
    yield ingests
    ingests.end()


def uri(number: int) -> str:
    return f"docs/{number:02}.md"


URIS = [uri(number) for number in range(DOCUMENTS + 1)]


def document(number: int, version: str) -> str:
    """Three passages, of which the last is the same in every version."""
    return "\n\n".join(
        f"passage {part} of document {number} as of {which}, {f'word{number}{part} ' * 5}"
        for part, which in (("one", version), ("two", version), ("three", "ever"))
    )


def first_state() -> dict[str, str]:
    return {uri(number): document(number, "monday") for number in range(DOCUMENTS)}


def change(root: Path) -> None:
    """Two of three documents are edited, one goes, one comes."""
    edited = {uri(n): document(n, "friday") for n in range(DOCUMENTS) if n % 3}
    write(root, edited | {uri(DOCUMENTS): document(DOCUMENTS, "friday")})
    (root / uri(0)).unlink()


def what_is_served(root: Path) -> dict[str, list[DocumentMatch]]:
    with Project.load(root) as project:
        return served(project, "docs", URIS)


def state(root: Path) -> tuple[object, ...]:
    """All that a user can see: passages with ids, places and scores; counts; an answer."""
    with Project.load(root) as project:
        stats = project.stats("docs")
        answer = project.query("docs", "document 17 word17one", top_k=7).matches
        return served(project, "docs", URIS), stats.documents, stats.chunks, answer


@pytest.mark.parametrize(
    ("begun", "strategy", "calls", "kills", "seed"),
    [(False, "upsert", 1, 8, 11), (True, "upsert", 4, 12, 12), (True, "replace", 1, 10, 13)],
    ids=["first", "upsert", "replace"],
)
def test_killed_anywhere(
    tmp_path: Path,
    ingests: Ingests,
    monkeypatch: pytest.MonkeyPatch,
    begun: bool,
    strategy: str,
    calls: int,
    kills: int,
    seed: int,
) -> None:
    """After every kill each document is served whole, old or new; the rerun ends exactly where an
    undisturbed ingest ends, and gives the embedder no more that it had been given than one batch
    for each call that may be under way at once."""
    monkeypatch.setenv("EMBEDDED_LOG", str(tmp_path / "questions.jsonl"))
    project = PROJECT.replace("CALLS_AT_ONCE", str(calls))
    start = write(tmp_path / "start", first_state() | {"lorebind.yaml": project})
    if begun:
        assert ingests.run(start, "upsert")
        (start / "embedded.jsonl").unlink()
    old = texts(what_is_served(start))
    if begun:
        change(start)
    undisturbed = Path(shutil.copytree(start, tmp_path / "undisturbed"))
    steps = ingests.run(undisturbed, strategy)
    expected, new = state(undisturbed), texts(what_is_served(undisturbed))
    needed = embedded(undisturbed / "embedded.jsonl")
    assert len(needed) == len(set(needed))

    chance, points, made = random.Random(seed), [], 0
    while made < kills:
        root = Path(shutil.copytree(start, tmp_path / f"killed{made}"))
        given: list[tuple[str, str]] = []
        for attempt in range(MOST_IN_A_ROW + 1):
            # The further it came, the less is left to do.
            left = steps // (attempt + 1)
            at = chance.randint(1, left) if attempt < MOST_IN_A_ROW else 0
            points.append(at)
            tried = f"seed {seed}, killed at {points} of {steps} steps"
            ended = ingests.run(root, strategy, at)
            before, given = given, embedded(root / "embedded.jsonl")
            assert len(set(before).intersection(given[len(before) :])) <= calls * BATCH, tried
            if ended:
                break
            made += 1
            found = texts(what_is_served(root))
            if strategy == "replace":
                assert found == old, tried
            else:
                assert old.keys() - {uri(0)} <= found.keys(), tried
                for name, passages in found.items():
                    assert passages in (old.get(name), new.get(name)), tried
        assert state(root) == expected, tried
        assert set(given) == set(needed), tried
        assert ingests.run(root, "upsert"), tried
        assert embedded(root / "embedded.jsonl") == given, tried
        shutil.rmtree(root)
