"""Two ingests of one knowledge base, the first of which is disturbed, while a reader searches."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from sqlalchemy.engine import make_url

from lorebind import Project
from tests.postgres import Server

from .at_work import Processes, Running
from .cable import Cable
from .handbook import (
    BATCH,
    DOCUMENTS,
    FRIDAY,
    MONDAY,
    PASSAGES,
    PGVECTOR,
    SQLITE,
    Served,
    change,
    check_agreement,
    fresh,
    write_project,
)

S = TypeVar("S", bound="Scene")

INGEST = ("knowledge", "ingest", "docs")
VECTOR_DBS = {"pgvector": PGVECTOR, "sqlite": SQLITE}
CALLS = DOCUMENTS * PASSAGES // BATCH
SOON = 60.0
OVERTAKEN = "another process took over"
ENDED = (
    "idle-in-transaction",
    "the connection is lost",
    "server closed the connection",
    "terminating connection",
)
"""Messages for a transaction that PostgreSQL has ended; the original reason may be lost."""
UNDER_WAY = "is under way; wait for it to end"
HELD = "another process has locked it; wait for it to end, or stop it"


class Expected(NamedTuple):
    """The passages that new indexes serve."""

    monday: Served
    friday: Served


def pace(log: Path, seconds: float = 0) -> dict[str, object]:
    """Return the variables that tell an embedder its speed and the path of its log."""
    return {"SLOW_LOG": log, "SLOW_SECONDS": seconds, "SLOW_GATE": ""}


class Scene:
    """A project with Friday's documents, an index of Monday's, and a reader at work."""

    read_options: tuple[str, ...] = ()
    """Options of `handbook.read`."""

    def __init__(
        self, root: Path, processes: Processes, expected: Expected, server: Server, database: str
    ) -> None:
        self.root, self.database = root, database
        self.cable = Cable(server.port)
        self._processes, self._expected = processes, expected
        self._dsn = server.dsn(database=database)
        self._logs: list[Path] = []
        self._last = root / "last"
        self._runs: list[Running] = []
        states = root / "states.json"
        states.write_text(json.dumps(expected))
        self._reader = processes.start(
            root,
            "tests.torture.handbook:read",
            str(states),
            str(self._last),
            *self.read_options,
            PG_DSN=self._dsn,
            **pace(root / "questions"),
        )
        self._runs.append(self._reader)

    def ingest(self, *options: str, seconds: float = 0, cable: bool = False) -> Running:
        """Start an ingest with an embedder that takes some seconds per call."""
        dsn = self._dsn
        if cable:
            dsn = make_url(dsn).set(port=self.cable.port).render_as_string(hide_password=False)
        log = self.root / f"embedded{len(self._logs)}.jsonl"
        self._logs.append(log)
        variables = pace(log, seconds) | {"PG_DSN": dsn}
        self._runs.append(self._processes.lorebind(self.root, *INGEST, *options, **variables))
        return self._runs[-1]

    def begin(self, case: random.Random, *, cable: bool = False) -> Running:
        """Start an ingest, and return it at a random moment, perhaps after its end."""
        run = self.ingest(seconds=0.02, cable=cable)
        self.wait(run, case.randrange(CALLS))
        time.sleep(case.uniform(0, 0.05))
        return run

    def follow(self) -> Running:
        """Start an ingest; try again until no other ingest's lease prevents it."""
        deadline = time.monotonic() + SOON
        while True:
            run = self.ingest()
            self.wait(run, 1)
            if run.code() is None or not any(sign in run.printed for sign in (UNDER_WAY, HELD)):
                return run
            assert run.code() == 1
            assert time.monotonic() < deadline, run.printed
            time.sleep(0.2)

    def wait(self, run: Running, calls: int) -> None:
        """Wait until the last ingest has called its embedder this many times or has ended."""
        log = self._logs[-1]
        deadline = time.monotonic() + SOON
        while run.code() is None:
            if not calls or (log.exists() and log.read_bytes().count(b"\n") >= calls):
                return
            assert time.monotonic() < deadline, run.printed
            time.sleep(0.005)

    def check(self, *runs: Running) -> list[tuple[int, str]]:
        """Check what holds after ingests of which one completed; return codes and outputs."""
        results = [run.result() for run in runs]
        for code, printed in results:
            assert code in (0, 1), printed
            assert "Traceback" not in printed, printed
            assert code == 0 or "lorebind: " in printed, printed
        assert 0 in [code for code, _ in results], results
        friday = self._expected.friday
        with Project.load(self.root, environ={"PG_DSN": self._dsn}) as project:
            state, there = check_agreement(project, friday)
            assert there >= state.entered, (state, there)
        code, printed = self.ingest("-o", "json").result()
        report = json.loads(printed)
        assert (code, report["status"], report["texts_embedded"]) == (0, "completed", 0), printed
        assert report["documents"]["unchanged"] == len(friday), printed
        assert report["notices"] == [], printed
        self._last.touch()
        code, printed = self._reader.result()
        assert code == 0, printed
        read = json.loads(printed.splitlines()[-1])  # psycopg may have logged an outage
        assert not read["faults"], read["faults"]
        assert read["answers"] > 0
        with Project.load(self.root, environ={"PG_DSN": self._dsn}) as project:
            state, there = check_agreement(project, friday)
            assert (state.entered, there) == (state.live, state.live)
        return results

    def end(self) -> None:
        for run in self._runs:
            run.kill()
            run.result()
        self.cable.close()
        shutil.rmtree(self.root)


def make_monday(
    folder: Path,
    processes: Processes,
    server: Server,
    kinds: Collection[str] = ("pgvector", "sqlite"),
) -> dict[str, Path]:
    """Create projects with Friday's documents and an index of Monday's, by kind of database."""
    with server.connect() as db:
        db.execute("drop database if exists monday with (force)")
        db.execute("create database monday")
    roots = {}
    for kind in kinds:
        root = roots[kind] = write_project(folder / kind, VECTOR_DBS[kind])
        variables = pace(root / "log") | {"PG_DSN": server.dsn(database="monday")}
        code, printed = processes.lorebind(root, *INGEST, **variables).result()
        assert code == 0, printed
        change(root)
    return roots


def make_expected(folder: Path) -> Expected:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in pace(folder / "log").items():
            patch.setenv(name, str(value))
        return Expected(fresh(folder / "monday", MONDAY), fresh(folder / "friday", FRIDAY))


def making_scenes(
    folder: Path,
    monday: dict[str, Path],
    processes: Processes,
    expected: Expected,
    server: Server,
    kind_of_scene: type[S] = Scene,  # type: ignore[assignment]  # mypy: not of every S
) -> Iterator[Callable[[str], S]]:
    """Yield a function that creates a scene for a kind of database and ends the previous one."""
    scenes: list[S] = []

    def make(kind: str) -> S:
        while scenes:
            scenes.pop().end()
        root = Path(shutil.copytree(monday[kind], folder / "scene"))
        database = f"friday_{time.monotonic_ns()}"
        if kind == "pgvector":
            with server.connect() as db:
                db.execute(f"create database {database} template monday")
        scenes.append(kind_of_scene(root, processes, expected, server, database))
        return scenes[-1]

    yield make
    while scenes:
        scenes.pop().end()
