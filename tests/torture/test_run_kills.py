"""Requested ingests whose worker or database dies: the run goes on, and its index is whole."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from lorebind import Project
from tests.acceptance.whole_index import active_index
from tests.app.forked_python import CONSTANTS
from tests.app.server.conftest import forking, serving, working
from tests.app.server.test_run_workers import TEXTS, WORKERS
from tests.app.server.test_runs import BATCH, DOCUMENTS, SOON, Slow
from tests.postgres import Server

from .at_work import until
from .trials import Case, Trials

__all__ = ["forking"]  # a fixture that `serving` and `working` need

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by a signal of POSIX"),
    pytest.mark.enable_socket,
]

FULL = 20
RESUMED_WITHIN = 15.0
"""Seconds in which another worker has to continue the run of a killed one."""
AWAY = 10.0
"""Seconds without a database, on demand."""


class Scene:
    """A server that leaves its ingests to workers, and an ingest that is under way."""

    def __init__(self, folder: Path, dsn: str, trials: Trials) -> None:
        self.slow = Slow(folder, WORKERS)
        # On demand with the seconds that are the default.
        constants = {} if trials.full else SOON
        self.slow.environ |= {"PG_DSN": dsn, CONSTANTS: json.dumps(constants)}

    @contextmanager
    def served(self) -> Iterator[httpx.Client]:
        with serving(self.slow.folder, **self.slow.environ) as server, server.client() as api:
            yield api

    def working(self) -> AbstractContextManager[subprocess.Popen[str]]:
        return working(self.slow.folder, **self.slow.environ)

    def begin(self, api: httpx.Client, case: Case) -> str:
        """Request an ingest, and return the address of its run at a random moment within it."""
        where = f"{TEXTS}/runs/{api.post(f'{TEXTS}/ingest').json()['run_id']}"
        batches = case.randint(0, DOCUMENTS // BATCH - 2)
        self.slow.let_through(batches)
        self.slow.wait_for((batches + 1) * BATCH)
        time.sleep(case.uniform(0, 0.2))
        return where

    def check(self, api: httpx.Client, where: str) -> None:
        """Check that the run ends well without a request, and that all is there once."""
        self.slow.let_through(100)

        def status() -> str:
            with suppress(httpx.TransportError, KeyError):
                return str(api.get(where).json()["status"])
            return ""

        until(lambda: status() not in ("", "waiting", "running"))
        assert status() == "completed", api.get(where).text
        assert len(self.slow.embedded()) <= DOCUMENTS + BATCH
        documents = api.get(f"{TEXTS}/documents", params={"limit": 100}).json()["items"]
        assert [each["state"] for each in documents] == ["ready"] * DOCUMENTS
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.slow.environ.items():
                patch.setenv(name, value)
            patch.syspath_prepend(str(self.slow.folder))
            with Project.load(self.slow.folder) as project:
                kb, entry = project.knowledge.open("texts").kb, active_index(project, "texts")
                assert entry is not None
                agreement = kb.index.compare(entry, deep=True)
        assert (agreement.live, agreement.lost, agreement.has_strays) == (DOCUMENTS, [], False)


def test_a_worker_that_is_killed_in_an_ingest(
    trials: Trials, tmp_path: Path, new_dsn: Callable[[], str]
) -> None:
    """Another worker continues its run, soon, and embeds at most one batch again."""

    def check(case: Case) -> None:
        scene = Scene(tmp_path / f"case{case.number}", new_dsn(), trials)
        with scene.served() as api, scene.working() as first:
            where = scene.begin(api, case)
            with scene.working():
                first.kill()
                killed = time.monotonic()
                assert first.wait() == -signal.SIGKILL
                calls = len(scene.slow.embedded())
                scene.slow.let_through(100)
                until(lambda: len(scene.slow.embedded()) > calls)
                seconds = time.monotonic() - killed
                seconds_taken.append(seconds)
                scene.check(api, where)
        assert seconds <= RESUMED_WITHIN or not trials.full

    seconds_taken: list[float] = []
    trials.run("worker killed in a run", check, short=1, full=FULL)
    trials.figures.append(f"went on after at most {max(seconds_taken, default=0):.1f} s")


def test_a_database_that_was_away_in_an_ingest(
    trials: Trials, tmp_path: Path, own_postgres: Server
) -> None:
    """It crashes, and comes back. Server and worker go on unasked, and the run is completed."""

    def check(case: Case) -> None:
        name = f"case{case.number}"
        with own_postgres.connect() as db:
            db.execute(f"create schema {name}")
            db.execute("create extension if not exists vector schema public")
        scene = Scene(tmp_path / name, own_postgres.dsn(schema=name), trials)
        with scene.served() as api, scene.working():
            where = scene.begin(api, case)
            own_postgres.stop()
            scene.slow.let_through(case.choice([0, 100]))  # it needs the database, or not yet
            time.sleep(AWAY if trials.full else 1)
            own_postgres.start()
            scene.check(api, where)

    trials.run("database away in a run", check, short=1, full=FULL)
