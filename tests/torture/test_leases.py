"""Ingests that are disconnected or stopped while others run: nothing is lost, nothing is mixed."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres import Server

from .at_work import Processes
from .trials import Trials
from .two_ingests import (
    ENDED,
    HELD,
    OVERTAKEN,
    UNDER_WAY,
    Expected,
    Scene,
    make_expected,
    make_monday,
    making_scenes,
)

MakeScene = Callable[[str], Scene]

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops by a signal of POSIX"),
    pytest.mark.enable_socket,
]

LEASE, BUSY = 1.0, 1.0
"""Seconds. BUSY is longer than a process waits for the processor on a busy machine."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return make_expected(tmp_path_factory.mktemp("expected"))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    started = Processes(tmp_path_factory.mktemp("printed"), lease=LEASE, busy=BUSY)
    yield started
    started.end()


@pytest.fixture(scope="module")
def monday(
    tmp_path_factory: pytest.TempPathFactory, processes: Processes, postgres: Server
) -> dict[str, Path]:
    return make_monday(tmp_path_factory.mktemp("monday"), processes, postgres)


@pytest.fixture
def make_scene(
    tmp_path: Path,
    monday: dict[str, Path],
    processes: Processes,
    expected: Expected,
    postgres: Server,
) -> Iterator[MakeScene]:
    yield from making_scenes(tmp_path, monday, processes, expected, postgres)


def test_a_lock_that_is_lost(trials: Trials, make_scene: MakeScene, postgres: Server) -> None:
    """If the session that holds an ingest's lock ends, another ingest can start immediately."""
    holder = (
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        " and query like '%%pg_try_advisory_lock%%'"
    )

    def check(case: random.Random) -> None:
        scene = make_scene("pgvector")
        first = scene.begin(case)
        with postgres.connect() as db:
            while first.code() is None and not db.execute(holder, [scene.database]).rowcount:
                time.sleep(0.005)
        second = scene.ingest()
        (code, printed), (after, message) = scene.check(first, second)
        assert after == 0, message
        # Its session may have been ended while it was requesting the lock.
        assert code == 0 or any(sign in printed for sign in (OVERTAKEN, *ENDED)), printed

    trials.run("leases lost locks", check, short=1, full=50)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "silent"])
def test_a_connection_that_is_cut(trials: Trials, make_scene: MakeScene, closed: bool) -> None:
    """After a cut that the server may not notice, another ingest completes."""

    def check(case: random.Random) -> None:
        scene = make_scene("pgvector")
        first = scene.begin(case, cable=True)
        scene.cable.cut(closed=closed, mended=case.choice([True, False]))
        scene.check(first, scene.follow())

    trials.run(f"leases cut {'closed' if closed else 'silent'}", check, short=1, full=50)


@pytest.mark.parametrize("kind", ["pgvector", "sqlite"])
def test_a_process_that_is_stopped(trials: Trials, make_scene: MakeScene, kind: str) -> None:
    """A process stopped beyond its lease continues safely during or after another ingest."""

    def check(case: random.Random) -> None:
        scene = make_scene(kind)
        first = scene.begin(case)
        first.stop()
        while kind == "sqlite" and first.code() is None and within_sqlite(scene):
            first.go_on()  # it holds the file, which is the subject of the next test
            time.sleep(case.uniform(0, 0.01))
            first.stop()
        second = scene.follow()
        scene.wait(second, case.choice([0, 1, 5, 20, 1000]))
        first.go_on()
        (code, printed), (after, message) = scene.check(first, second)
        assert after == 0, message
        # It may have been stopped before it had acquired its lease.
        signs = (OVERTAKEN, UNDER_WAY, *ENDED)
        assert code == 0 or any(sign in printed for sign in signs), printed

    trials.run(f"leases stopped {kind}", check, short=1, full=50)


def within_postgres(scene: Scene, server: Server) -> bool:
    """Check whether a transaction holds the row of a lease."""
    free = "select 1 from catalog_leases for no key update skip locked"
    with server.connect(scene.database) as db:
        return not db.execute(free).rowcount


def within_sqlite(scene: Scene) -> bool:
    """Check whether a process is writing the file."""
    with closing(sqlite3.connect(scene.root / ".lorebind" / "lorebind.db", timeout=0)) as db:
        try:
            db.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        return False


@pytest.mark.parametrize("kind", ["pgvector", "sqlite"])
def test_a_process_that_is_stopped_as_it_writes(
    trials: Trials, make_scene: MakeScene, postgres: Server, kind: str
) -> None:
    """PostgreSQL ends the transaction before the lease expires; SQLite's file stays locked."""

    def is_within(scene: Scene) -> bool:
        return within_sqlite(scene) if kind == "sqlite" else within_postgres(scene, postgres)

    def check(case: random.Random) -> None:
        scene = make_scene(kind)
        first = scene.begin(case)
        while first.code() is None:
            first.stop()
            if is_within(scene):
                break
            first.go_on()
            time.sleep(case.uniform(0, 0.01))
        if kind == "sqlite" and first.code() is None:
            code, printed = scene.ingest().result()
            assert code == 1, printed
            # Another process may have been writing at that moment.
            assert HELD in printed or (UNDER_WAY in printed and not within_sqlite(scene)), printed
            first.go_on()
            scene.check(first, scene.follow())
            return
        second = scene.follow()
        scene.wait(second, case.choice([0, 1, 5, 20, 1000]))
        first.go_on()
        scene.check(first, second)

    trials.run(f"leases stopped within {kind}", check, short=1, full=50)
