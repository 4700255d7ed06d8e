"""Ctrl-C at any moment: one line, exit code 130, and never a traceback."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.app.helpers import FILES
from tests.bindings.helpers import write
from tests.processes import run_program

from .trials import Trials

INTERRUPTED = Path(__file__).with_name("interrupted.py")
LINE = "lorebind: interrupted; finished work is kept, and the next run completes it\n"
COMMANDS: list[list[str]] = [
    ["knowledge", "list"],
    ["knowledge", "plan"],
    ["knowledge", "ingest"],
    ["knowledge", "query", "docs", "-q", "keys"],
    ["run", "reply", "-i", "question=keys"],
    ["ask", ".", "keys"],
    ["doctor"],
]
CALLS = 500_000
"""The approximate number of function calls of a command, including imports."""


def test_ctrl_c_is_a_line_at_any_moment(tmp_path: Path, trials: Trials) -> None:
    """Ctrl-C prints one line, at any moment of a command, even if it is pressed twice."""
    write(tmp_path, FILES)

    def check(case: random.Random) -> None:
        command = case.choice(COMMANDS)
        at = case.choice([case.randrange(1, CALLS), int(CALLS ** case.random())])
        again = case.choice([0, 0, case.uniform(1, 100)])
        done = run_program(
            [sys.executable, INTERRUPTED, str(at), str(again), *command], cwd=tmp_path
        )
        what = (command, at, again, done)
        if done.returncode == 130:
            assert done.stderr == LINE, what
        else:  # the command had ended before
            assert done.returncode in (0, 1), what
            assert "Traceback" not in done.stderr, what

    trials.run("ctrl-c is one line", check, short=2, full=100)
