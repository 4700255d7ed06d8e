"""Ingests that are killed anywhere: searches work immediately, and a rerun completes the ingest."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from lorebind import Project
from lorebind_config.errors import did_you_mean
from lorebind_knowledge.records import DocumentMatch
from tests.acceptance.helpers import NOTING, embedded, served, texts
from tests.bindings.helpers import write
from tests.density import DENSE
from tests.fatal_step import Steps
from tests.postgres import Server

from .at_work import Processes
from .handbook import project_of
from .trials import Trials

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by a signal of POSIX"),
    pytest.mark.enable_socket,
]

BATCH = 4
DOCUMENTS = 16 if DENSE else 8
IN_A_ROW = (1, 1, 2, 4)
"""Number of kills before an ingest may end: at least one."""

PROJECT = project_of(NOTING, batch=BATCH, size=100)
VECTOR_DBS = {
    "sqlite": "{ id: db, type: sqlite }",
    "pgvector": '{ id: db, type: pgvector, config: { dsn: "{{ .env.PG_DSN }}" } }',
    "langchain": """
    id: db
    type: langchain
    factory: "tests.torture.langchain_table:table"
    config:
      schema: public
      engine:
        factory: "langchain_postgres:PGEngine.from_connection_string"
        config: { url: "{{ .env.PG_URL }}" }""",
}


class Place(NamedTuple):
    """A project, and its environment, for example with the address of its database."""

    root: Path
    environ: dict[str, str]

    @property
    def log(self) -> Path:
        return Path(self.environ["EMBEDDED_LOG"])


class Places:
    """Creates projects and copies of them, and ingests them in processes that may be killed."""

    def __init__(self, folder: Path, processes: Processes, server: Server | None) -> None:
        self._folder, self._processes, self._server = folder, processes, server

    def new(self, name: str, copied: Place | None = None) -> Place:
        root = self._folder / name
        environ = {"EMBEDDED_LOG": str(root / "embedded.jsonl")}
        if copied is not None:
            shutil.copytree(copied.root, root)
        if self._server is not None:
            database = f"{name}_{time.monotonic_ns()}"
            template = "template1" if copied is None else copied.environ["PG_NAME"]
            with self._server.connect() as db:
                db.execute(f"create database {database} template {template}")
            dsn = self._server.dsn(database=database)
            url = dsn.replace("postgresql:", "postgresql+psycopg:")
            environ |= {"PG_NAME": database, "PG_DSN": dsn, "PG_URL": url}
            if copied is None:
                with self._server.connect(database) as db:
                    db.execute("create extension vector")
        return Place(root, environ)

    def end(self, place: Place) -> None:
        shutil.rmtree(place.root)
        if self._server is not None:
            with self._server.connect() as db:
                db.execute(f"drop database {place.environ['PG_NAME']} with (force)")

    def ingest(self, place: Place, verb: str, at: int = 0) -> int:
        """Ingest, killed at a step unless it is 0; return the number of steps, or 0 if killed."""
        run = self._processes.start(
            place.root, "tests.torture.killed:ingest", verb, str(at), **place.environ
        )
        code, printed = run.result()
        if code == 0:
            return int(printed)
        assert code == -signal.SIGKILL, printed
        return 0


def uri(number: int) -> str:
    return f"docs/{number:02}.md"


URIS = [uri(number) for number in range(DOCUMENTS + 1)]


def document(number: int, version: str) -> str:
    """Return a text of three passages; the last one is the same in all versions."""
    return "\n\n".join(
        f"passage {part} of document {number} as of {which}, {f'word{number}{part} ' * 5}"
        for part, which in (("one", version), ("two", version), ("three", "ever"))
    )


def first_state() -> dict[str, str]:
    return {uri(number): document(number, "monday") for number in range(DOCUMENTS)}


def change(root: Path) -> None:
    """Edit two of three documents, remove one and add one."""
    edited = {uri(n): document(n, "friday") for n in range(DOCUMENTS) if n % 3}
    write(root, edited | {uri(DOCUMENTS): document(DOCUMENTS, "friday")})
    (root / uri(0)).unlink()


def what_is_served(place: Place) -> dict[str, list[DocumentMatch]]:
    with Project.load(place.root, environ=place.environ) as project:
        return served(project, "docs", URIS)


def state(place: Place) -> tuple[object, ...]:
    """Return all that users can see: passages with ids, spans and scores; counts; an answer."""
    with Project.load(place.root, environ=place.environ) as project:
        stats = project.stats("docs")
        answer = project.query("docs", "document 17 word17one", top_k=7).matches
        return served(project, "docs", URIS), stats.documents, stats.chunks, answer


class Scene:
    """An ingest to be killed, and the result of an undisturbed one."""

    def __init__(self, places: Places, kind: str, verb: str, calls: int, *, begun: bool):
        self.verb, self._places = verb, places
        self.lost_at_most = calls * BATCH
        """Maximum number of texts that a kill may cost: a batch per concurrent call."""
        project = PROJECT.replace("CALLS_AT_ONCE", str(calls))
        project = project.replace("VECTOR_DB", VECTOR_DBS[kind])
        self.start = places.new("start")
        write(self.start.root, first_state() | {"lorebind.yaml": project})
        if begun:
            assert places.ingest(self.start, "upsert")
            self.start.log.unlink()
        self.old = texts(what_is_served(self.start))
        fresh = places.new("fresh")
        write(fresh.root, first_state() | {"lorebind.yaml": project})
        if begun:
            change(self.start.root)
            change(fresh.root)
        undisturbed = places.new("undisturbed", self.start)
        self.steps = places.ingest(undisturbed, verb)
        self.new, self.end = texts(what_is_served(undisturbed)), state(undisturbed)
        self.needed = embedded(undisturbed.log)
        assert len(self.needed) == len(set(self.needed))
        assert places.ingest(fresh, "upsert")
        assert state(fresh) == self.end

    def check(self, case: random.Random) -> None:
        """Kill an ingest and possibly its reruns, until one ends."""
        place = self._places.new("killed", self.start)
        try:
            self._kill(place, case)
        finally:
            self._places.end(place)

    def _kill(self, place: Place, case: random.Random) -> None:
        sent: list[tuple[str, str]] = []
        in_a_row = case.choice(IN_A_ROW)
        for attempt in range(in_a_row + 1):
            # Later attempts have fewer steps left.
            at = case.randint(1, self.steps // (attempt + 1)) if attempt < in_a_row else 0
            ended = self._places.ingest(place, self.verb, at)
            before, sent = sent, embedded(place.log)
            assert len(set(before).intersection(sent[len(before) :])) <= self.lost_at_most
            if ended:
                break
            self._check_served(texts(what_is_served(place)))
        assert state(place) == self.end
        assert set(sent) == set(self.needed)
        assert self._places.ingest(place, "upsert")
        assert embedded(place.log) == sent

    def _check_served(self, served: dict[str, list[str]]) -> None:
        if self.verb != "upsert":
            assert served in (self.old, self.new)
            return
        assert self.old.keys() - {uri(0)} <= served.keys()
        for name, passages in served.items():
            assert passages in (self.old.get(name), self.new.get(name)), name


@pytest.mark.parametrize(
    ("kind", "begun", "verb", "calls", "full"),
    [
        ("sqlite", False, "upsert", 1, 23),
        ("sqlite", True, "upsert", 4, 23),
        ("sqlite", True, "replace", 1, 23),
        ("sqlite", True, "reindex", 1, 23),
        ("pgvector", True, "upsert", 2, 50),
        ("langchain", True, "upsert", 2, 50),
    ],
    ids=["first", "upsert", "replace", "reindex", "pgvector", "langchain"],
)
def test_kills(
    trials: Trials,
    tmp_path: Path,
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    kind: str,
    begun: bool,
    verb: str,
    calls: int,
    full: int,
) -> None:
    """Every document is served completely, and the rerun repeats at most a batch per call."""
    monkeypatch.setenv("EMBEDDED_LOG", str(tmp_path / "questions.jsonl"))
    server = None if kind == "sqlite" else request.getfixturevalue("postgres")
    scene = Scene(Places(tmp_path, processes, server), kind, verb, calls, begun=begun)
    trials.run(f"kills {request.node.callspec.id}", scene.check, short=1, full=full)


FOREIGN = "/home/ann/lorebind/.venv/lib/lorebind_plugins/foreign.py"


def test_steps_are_those_of_our_packages() -> None:
    """Code in a folder that has the name of a Lorebind package does not count as Lorebind's."""
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
