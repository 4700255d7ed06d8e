"""Ingests whose workers, coordinator or database die or hang: nothing is lost, nothing is mixed."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from tests.app.slow_embedder import calls_in
from tests.postgres import Server

from .at_work import Processes, Running, until
from .handbook import BATCH
from .trials import Trials
from .two_ingests import (
    ENDED,
    OVERTAKEN,
    Expected,
    Scene,
    make_expected,
    make_monday,
    making_scenes,
    pace,
)

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops by a signal of POSIX"),
    pytest.mark.enable_socket,
]

LEASE = 4
FULL = 20
CALL = 0.1
"""Seconds of a call of the embedder."""
REPEATED_WITHIN, RESUMED_WITHIN = 10.0, 15.0
"""Seconds in which another process has to continue what a killed one had in hand."""
BEYOND = 7.0
"""Seconds after which neither the batch of a worker nor the lease of an ingest is still held."""
AWAY = 10.0
"""Seconds without a database, on demand."""
ALONE = "no worker was there"


class Worker(NamedTuple):
    """A worker with one slot, and the log of its embedder."""

    run: Running
    log: Path

    @property
    def calls(self) -> list[list[str]]:
        return calls_in(self.log)


class Crew(Scene):
    """A scene whose ingests are embedded by workers."""

    def worker(self) -> Worker:
        log = self.root / f"worker{len(self._runs)}.jsonl"
        variables = pace(log, CALL) | {"PG_DSN": self._dsn}
        options = ("worker", "--concurrency", "1")
        run = self._processes.lorebind(self.root, *options, **variables)
        self._runs.append(run)
        until(lambda: "waiting for texts" in run.printed)
        return Worker(run, log)

    def begin_with(self, worker: Worker, case: random.Random) -> Running:
        """Start an ingest, and return it at a random moment after the worker has begun."""
        run = self.ingest()
        calls = case.randint(1, 5)
        until(lambda: run.code() is not None or len(worker.calls) >= calls)
        time.sleep(case.uniform(0, CALL))
        return run

    @property
    def repeated(self) -> int:
        """The number of texts that were embedded again."""
        calls = [call for log in self.root.glob("*.jsonl") for call in calls_in(log)]
        embedded = Counter(text for call in calls for text in call)
        return embedded.total() - len(embedded)

    def check_work(self, *workers: Worker) -> None:
        """Check that workers embed the texts of a later ingest, and end well."""
        (self.root / "docs" / "late.md").write_text("A document that is late.")
        code, printed = self.ingest().result()
        assert code == 0, printed
        assert ALONE not in printed, printed
        calls = [call for worker in workers for call in worker.calls]
        assert any("late" in text for call in calls for text in call), printed
        for worker in workers:
            worker.run.terminate()
        for worker in workers:
            code, printed = worker.run.result()
            assert code == 0, printed


class Outage(Crew):
    """A scene whose reader goes on without a database."""

    read_options = ("outages",)


MakeCrew: TypeAlias = Callable[[], Crew]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return make_expected(tmp_path_factory.mktemp("expected"))


def make_monday_of_workers(folder: Path, processes: Processes, server: Server) -> dict[str, Path]:
    """Create the project with an index of Monday's documents, whose ingests need workers."""
    monday = make_monday(folder, processes, server, kinds=("pgvector",))
    declarations = monday["pgvector"] / "lorebind.yaml"
    engine = f"ingestion: {{ engine: distributed, lease_seconds: {LEASE} }}\n"
    declarations.write_text(declarations.read_text() + engine)
    return monday


def crews(
    kind: type[Crew],
    folder: Path,
    monday: dict[str, Path],
    processes: Processes,
    expected: Expected,
    server: Server,
) -> Iterator[MakeCrew]:
    for make in making_scenes(folder, monday, processes, expected, server, kind):

        def make_crew(make: Callable[[str], Crew] = make) -> Crew:
            crew = make("pgvector")
            with server.connect() as db:
                # A sequence in a copied database would go back by up to 32 in a crash, because
                # PostgreSQL counts on the record in which the original was ahead of it.
                db.execute("checkpoint")
            return crew

        yield make_crew


@pytest.fixture(scope="module")
def monday(
    tmp_path_factory: pytest.TempPathFactory, processes: Processes, postgres: Server
) -> dict[str, Path]:
    return make_monday_of_workers(tmp_path_factory.mktemp("monday"), processes, postgres)


@pytest.fixture
def make_crew(
    tmp_path: Path,
    monday: dict[str, Path],
    processes: Processes,
    expected: Expected,
    postgres: Server,
) -> Iterator[MakeCrew]:
    yield from crews(Crew, tmp_path, monday, processes, expected, postgres)


@pytest.fixture
def make_outage(
    tmp_path: Path, processes: Processes, expected: Expected, own_postgres: Server
) -> Iterator[MakeCrew]:
    with own_postgres.connect("template1") as db:
        db.execute("create extension vector")
    (tmp_path / "monday").mkdir()
    monday = make_monday_of_workers(tmp_path / "monday", processes, own_postgres)
    yield from crews(Outage, tmp_path, monday, processes, expected, own_postgres)


def test_a_worker_that_is_killed(trials: Trials, make_crew: MakeCrew) -> None:
    """At most one batch is embedded twice, by another worker, and soon."""

    def check(case: random.Random) -> None:
        crew = make_crew()
        first, second = crew.worker(), crew.worker()
        ingest = crew.begin_with(first, case)
        first.run.kill()
        first.run.result()
        in_hand = first.calls[-1]
        seconds = until(lambda: ingest.code() is not None or in_hand in second.calls)
        ((code, printed),) = crew.check(ingest)
        assert code == 0, printed
        assert ALONE not in printed, printed
        assert crew.repeated <= BATCH
        assert seconds <= REPEATED_WITHIN or not trials.full
        crew.check_work(second)

    trials.run("worker killed", check, short=1, full=FULL)


def test_a_worker_that_is_suspended(trials: Trials, make_crew: MakeCrew) -> None:
    """Another one repeats its batch. When it goes on, it embeds other texts."""

    def check(case: random.Random) -> None:
        crew = make_crew()
        first, second = crew.worker(), crew.worker()
        ingest = crew.begin_with(first, case)
        first.run.stop()
        deadline = time.monotonic() + case.uniform(BEYOND, BEYOND + 4)
        until(lambda: ingest.code() is not None or time.monotonic() > deadline)
        first.run.go_on()
        ((code, printed),) = crew.check(ingest)
        assert code == 0, printed
        assert crew.repeated <= BATCH
        second.run.terminate()
        assert second.run.result()[0] == 0
        crew.check_work(first)

    trials.run("worker suspended", check, short=1, full=FULL)


def test_a_coordinator_that_is_killed(trials: Trials, make_crew: MakeCrew) -> None:
    """The next ingest goes on soon; workers have embedded meanwhile what they had in hand."""

    def check(case: random.Random) -> None:
        crew = make_crew()
        first, second = crew.worker(), crew.worker()
        ingest = crew.begin_with(first, case)
        ingest.kill()
        killed = time.monotonic()
        ingest.result()
        code, printed = crew.follow().result()
        seconds = time.monotonic() - killed
        assert code == 0, printed
        assert seconds <= RESUMED_WITHIN or not trials.full
        crew.check(crew.ingest())
        assert crew.repeated == 0
        crew.check_work(first, second)

    trials.run("coordinator killed", check, short=1, full=FULL)


def test_a_coordinator_that_is_suspended(trials: Trials, make_crew: MakeCrew) -> None:
    """Another ingest takes over. When the first one goes on, it changes nothing."""

    def check(case: random.Random) -> None:
        crew = make_crew()
        worker = crew.worker()
        first = crew.begin_with(worker, case)
        first.stop()
        time.sleep(LEASE)
        second = crew.follow()
        time.sleep(case.uniform(0, 1))
        first.go_on()
        (code, printed), (after, message) = crew.check(first, second)
        assert after == 0, message
        assert code == 0 or any(sign in printed for sign in (OVERTAKEN, *ENDED)), printed
        crew.check_work(worker)

    trials.run("coordinator suspended", check, short=1, full=FULL)


def test_sessions_that_are_ended(
    trials: Trials, make_outage: MakeCrew, own_postgres: Server
) -> None:
    """The ingest fails or ends well, and the next one completes it, with the same workers."""

    def check(case: random.Random) -> None:
        crew = make_outage()
        first, second = crew.worker(), crew.worker()
        ingest = crew.begin_with(first, case)
        for _ in range(case.randint(1, 3)):
            own_postgres.end_sessions()
            time.sleep(case.uniform(0, 0.3))
        crew.check(ingest, crew.follow())
        crew.check_work(first, second)

    trials.run("worker sessions ended", check, short=1, full=FULL)


def test_a_database_that_was_away(
    trials: Trials, make_outage: MakeCrew, own_postgres: Server
) -> None:
    """It crashes, and comes back. Workers go on unasked, and the next ingest completes the run."""

    def check(case: random.Random) -> None:
        crew = make_outage()
        first, second = crew.worker(), crew.worker()
        ingest = crew.begin_with(first, case)
        own_postgres.stop()
        time.sleep(AWAY if trials.full else 1)
        own_postgres.start()
        crew.check(ingest, crew.follow())
        crew.check_work(first, second)

    trials.run("worker database away", check, short=1, full=FULL)
