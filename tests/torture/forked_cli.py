"""Run `lorebind` commands, each project's in a fork of a process that has imported everything.

Run as a program, it reads one JSON object per line, and answers each with another. A child that is
killed, or that exits, does not answer.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from typing import Any

SECONDS = 100
WATCHED = frozenset(
    {
        *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen"),
        *("ctypes.dlopen", "webbrowser.open", "shutil.rmtree", "pty.spawn"),
    }
)
"""The first actions of hostile code, as names of Python's audit events."""


class ForkedCli:
    """Runs commands in children of one process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, cwd: str, commands: list[list[str]], **variables: str) -> list[dict[str, Any]]:
        """Run commands and return their results; fewer results if the child has died.

        Each has `code`, `text` (the output), `imported` (modules of project folders) and
        `watched` (events of `WATCHED`). The last two count from the start of the child.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"cwd": cwd, "commands": commands, "variables": variables}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answers: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answers

    def close(self) -> None:
        self._process.communicate(timeout=SECONDS)


def _serve() -> None:
    import langchain_core.documents
    import langchain_core.vectorstores
    import yaml

    import lorebind.doctor
    import lorebind.project
    import lorebind_knowledge.stores.langchain.store
    from lorebind.cli import main

    assert langchain_core.documents
    assert yaml
    assert lorebind.doctor
    assert lorebind_knowledge.stores.langchain.store
    answers = os.fdopen(os.dup(1), "w")
    sys.path[:] = ["", *sys.path[1:]]  # as in `python -c` and in notebooks
    for line in sys.stdin:
        request = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _answer(request, main, writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answered:
            printed = [json.loads(line) for line in answered.read().splitlines()]
        os.waitpid(child, 0)
        answers.write(json.dumps(printed) + "\n")
        answers.flush()


def _answer(request: dict[str, Any], main: Any, writer: int) -> None:
    signal.alarm(SECONDS)
    os.chdir(request["cwd"])
    os.environ.update(request["variables"])
    watched: list[str] = []
    sys.addaudithook(lambda event, _: watched.append(event) if event in WATCHED else None)
    for command in request["commands"]:
        done = _done(main, command)
        done["imported"] = [name for name in sys.modules if "_lorebind_project_" in name]
        done["watched"] = watched
        os.write(writer, json.dumps(done).encode() + b"\n")


def _done(main: Any, command: list[str]) -> dict[str, Any]:
    sys.argv = ["lorebind", *command]
    printed = io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        except BaseException as error:  # users would see a traceback
            code = f"{type(error).__name__}: {error}"
    return {"code": code, "text": printed.getvalue()}


if __name__ == "__main__":
    _serve()
