"""Run `lorebind` commands in processes that can be stopped, killed or disconnected at any moment.

All are forked from one process that has imported everything. Run as a program, this module is that
process: it reads one JSON object per line, and answers each with a line.

at_work.py LEASE_SECONDS BUSY_SECONDS
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.app import small_life
from tests.app.forked_python import CONSTANTS

SECONDS = 100.0
"""Seconds after which a process that has not ended counts as failed."""


def until(condition: Callable[[], object], seconds: float = SECONDS) -> float:
    """Wait until a condition holds, and return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"did not happen within {seconds:g} s"
        time.sleep(0.01)
    return time.monotonic() - began


class Running:
    """A running process."""

    def __init__(self, server: Processes, process: int, printed: Path) -> None:
        self.process = process
        self._server, self._printed = server, printed
        self._code: int | None = None

    def code(self) -> int | None:
        """Return its exit code, negative for a signal; None while it is running."""
        if self._code is None:
            self._code = self._server.ask(wait=self.process)
        return self._code

    def result(self) -> tuple[int, str]:
        """Wait until it has ended, and return its exit code and output."""
        deadline = time.monotonic() + SECONDS
        while (code := self.code()) is None:
            assert time.monotonic() < deadline, f"does not end: {self.printed}"
            time.sleep(0.01)
        return code, self.printed

    @property
    def printed(self) -> str:
        return self._printed.read_text()

    def stop(self) -> None:
        """Stop all its threads, wherever they are, and wait until they have stopped."""
        self._send(signal.SIGSTOP)
        while self.code() is None and not _has_stopped(self.process):
            time.sleep(0.001)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def _send(self, signal_: signal.Signals) -> None:
        # The parent does not reap an ended process before `code` has asked for it.
        if self._code is None:
            os.kill(self.process, signal_)


def _has_stopped(process: int) -> bool:
    """Check whether all threads have stopped: signals take time on a busy machine. Linux only."""
    states = []
    for stat in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended in the meantime
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return set(states) <= {"T", "t", "Z", "X"}


class Processes:
    """Starts processes that are forked from one parent."""

    def __init__(self, folder: Path, *, lease: float = 30, busy: float = 30) -> None:
        """Start the process: leases last `lease` seconds, and it waits for locks `busy` seconds."""
        self._folder = folder
        self._started: list[Running] = []
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.at_work", str(lease), str(busy)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def lorebind(self, root: Path, *arguments: str, **variables: object) -> Running:
        """Run a command in a project's folder, with additional environment variables."""
        return self.start(root, "lorebind.cli:main", *arguments, **variables)

    def start(self, root: Path, function: str, *arguments: str, **variables: object) -> Running:
        """Call a function, `module:name`, that reads its arguments from `sys.argv`."""
        printed = self._folder / f"{len(self._started)}.txt"
        printed.touch()
        process = self.ask(
            start=function,
            arguments=arguments,
            folder=str(root),
            printed=str(printed),
            variables={name: str(value) for name, value in variables.items()},
        )
        self._started.append(Running(self, process, printed))
        return self._started[-1]

    def ask(self, **request: Any) -> Any:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        line = self._parent.stdout.readline()
        assert line, f"the process that starts others has ended: {self._parent.wait()}"
        return json.loads(line)

    def end(self) -> None:
        for running in self._started:
            if running.code() is None:
                running.kill()
        self._parent.communicate()


def _serve() -> None:
    lease, busy = map(float, sys.argv[1:])
    from lorebind_knowledge.catalog import leases
    from lorebind_knowledge.database import postgres_connections as connections
    from lorebind_knowledge.database import sqlite as database

    leases.SECONDS, database.BUSY_SECONDS, connections.IDLE_SECONDS = lease, busy, busy
    _import_all()
    small_life.live("hashing")
    gc.freeze()  # each process would scan, and so copy, all that was imported
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            __import__(request["start"].partition(":")[0])
            process = os.fork()
            if not process:
                _run(request)
            print(process, flush=True)
        else:
            ended, status = os.waitpid(request["wait"], os.WNOHANG)
            print(os.waitstatus_to_exitcode(status) if ended else "null", flush=True)


def _import_all() -> None:
    import filelock
    import langchain_core.embeddings
    import langchain_core.vectorstores
    import numpy
    import procrastinate.worker
    import psycopg
    import wcmatch.glob

    import lorebind.cli.ingesting
    import lorebind.doctor
    import lorebind.project
    import lorebind_knowledge.chunking.recursive
    import lorebind_knowledge.database.databases
    import lorebind_knowledge.embedders.retrying
    import lorebind_knowledge.scale.worker
    import lorebind_knowledge.service
    import lorebind_knowledge.stores.langchain.store
    import lorebind_knowledge.stores.pgvector.store
    import lorebind_knowledge.stores.sqlite
    import tests.acceptance.noting_embedder
    import tests.app.slow_embedder

    once = (filelock, langchain_core, numpy, procrastinate, psycopg, wcmatch)
    ours = (lorebind, lorebind_knowledge, tests)
    assert all(once + ours), "imported once, not in every process"


def _run(request: dict[str, Any]) -> None:
    code: Any = 1
    try:
        printed = os.open(request["printed"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(printed, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(request["folder"])
        os.environ.update(request["variables"])
        for name, value in json.loads(os.environ.pop(CONSTANTS, "{}")).items():
            module, _, constant = name.partition(":")
            setattr(import_module(module), constant, value)
        sys.argv = ["lorebind", *request["arguments"]]
        module, _, name = request["start"].partition(":")
        try:
            getattr(sys.modules[module], name)()
            code = 0
        except SystemExit as left:
            code = left.code or 0
        except BaseException:
            import traceback

            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    _serve()
