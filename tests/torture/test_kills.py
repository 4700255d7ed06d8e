"""Ingests that are killed anywhere: a search works at once, and a rerun ends as if nothing was."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lorebind import Project
from lorebind_knowledge.errors import did_you_mean
from tests.acceptance.helpers import NOTING, embedded, served, texts
from tests.bindings.helpers import write
from tests.fatal_step import Steps

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from lorebind_knowledge.records import DocumentMatch

    from .trials import Trials

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by a signal of POSIX")

REPOSITORY = Path(__file__).parents[2]
BATCH = 4
DOCUMENTS = 16
IN_A_ROW = (1, 1, 2, 4)
"""How often an ingest is killed before it is left in peace: at least once."""

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
import os, sys

sys.path.insert(0, sys.argv[1])
import filelock, langchain_core.embeddings, numpy, wcmatch.glob  # once, not in every child
import lorebind_knowledge.chunking.recursive, lorebind_knowledge.embedders.retrying
import lorebind_knowledge.service, tests.acceptance.noting_embedder
from lorebind import Project
from tests.fatal_step import Steps

def ingest(root, verb, at):
    os.environ["EMBEDDED_LOG"] = os.path.join(root, "embedded.jsonl")
    steps = Steps()
    steps.kill_at(at)
    with Project.load(root) as project:
        if verb == "reindex":
            report = project.reindex("docs")
        else:
            report = project.ingest("docs", strategy=verb)
    assert report.status == "completed", report
    return steps.end()

for line in sys.stdin:
    root, verb, at = line.rstrip().split("\\t")
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.write(writable, str(ingest(root, verb, int(at))).encode())
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

    def run(self, root: Path, verb: str, at: int = 0) -> int:
        """Ingest, killed at a step, at none when that is 0.

        Args:
            root: the folder of the project.
            verb: `reindex`, or a strategy of `ingest`.
            at: the step.

        Returns:
            the steps that it took; 0 when it was killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{root}\t{verb}\t{at}\n")
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


class Scene:
    """An ingest that is to be killed, and what an undisturbed one does."""

    def __init__(self, folder: Path, ingests: Ingests, verb: str, calls: int, *, begun: bool):
        self.verb, self.folder, self._ingests = verb, folder, ingests
        self.lost_at_most = calls * BATCH
        """Texts that a kill may cost: a batch for each call that may be under way at once."""
        project = PROJECT.replace("CALLS_AT_ONCE", str(calls))
        self.start = write(folder / "start", first_state() | {"lorebind.yaml": project})
        if begun:
            assert ingests.run(self.start, "upsert")
            (self.start / "embedded.jsonl").unlink()
        self.old = texts(what_is_served(self.start))
        if begun:
            change(self.start)
        undisturbed = Path(shutil.copytree(self.start, folder / "undisturbed"))
        self.steps = ingests.run(undisturbed, verb)
        self.new, self.end = texts(what_is_served(undisturbed)), state(undisturbed)
        self.needed = embedded(undisturbed / "embedded.jsonl")
        assert len(self.needed) == len(set(self.needed))

    def check(self, case: random.Random) -> None:
        """Kill an ingest, and the reruns that a case may kill as well, until one ends."""
        root = Path(shutil.copytree(self.start, self.folder / "killed"))
        try:
            self._kill(root, case)
        finally:
            shutil.rmtree(root)

    def _kill(self, root: Path, case: random.Random) -> None:
        given: list[tuple[str, str]] = []
        in_a_row = case.choice(IN_A_ROW)
        for attempt in range(in_a_row + 1):
            # The further it came, the less is left to do.
            at = case.randint(1, self.steps // (attempt + 1)) if attempt < in_a_row else 0
            ended = self._ingests.run(root, self.verb, at)
            before, given = given, embedded(root / "embedded.jsonl")
            assert len(set(before).intersection(given[len(before) :])) <= self.lost_at_most
            if ended:
                break
            self._check_served(texts(what_is_served(root)))
        assert state(root) == self.end
        assert set(given) == set(self.needed)
        assert self._ingests.run(root, "upsert")
        assert embedded(root / "embedded.jsonl") == given

    def _check_served(self, found: dict[str, list[str]]) -> None:
        if self.verb != "upsert":
            assert found in (self.old, self.new)
            return
        assert self.old.keys() - {uri(0)} <= found.keys()
        for name, passages in found.items():
            assert passages in (self.old.get(name), self.new.get(name)), name


@pytest.mark.parametrize(
    ("begun", "verb", "calls"),
    [
        (False, "upsert", 1),
        (True, "upsert", 4),
        (True, "replace", 1),
        (True, "reindex", 1),
    ],
    ids=["first", "upsert", "replace", "reindex"],
)
def test_kills(
    trials: Trials,
    tmp_path: Path,
    ingests: Ingests,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    begun: bool,
    verb: str,
    calls: int,
) -> None:
    """After every kill each document is served whole, old or new; the rerun ends exactly where an
    undisturbed ingest ends, and gives the embedder no more that it had been given than one batch
    for each call that may be under way at once."""
    monkeypatch.setenv("EMBEDDED_LOG", str(tmp_path / "questions.jsonl"))
    scene = Scene(tmp_path, ingests, verb, calls, begun=begun)
    trials.run(f"kills {request.node.callspec.id}", scene.check, short=1, full=23)


FOREIGN = "/home/ann/lorebind/.venv/lib/lorebind_plugins/foreign.py"


def test_steps_are_those_of_our_packages() -> None:
    """A folder that is called as a package does not make what is in it ours."""
    foreign = compile("sum([len('a'), len('b')])", FOREIGN, "eval")
    steps = Steps()
    try:
        for _ in range(100):
            eval(foreign)
        assert steps.end() == 0
        steps = Steps()
        did_you_mean("a", ["b"])
    finally:
        taken = steps.end()
    assert taken > 0
