"""The Makefile: `make demo` with any question, and a repaired environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

ROOT = Path(__file__).parents[2]
QUESTION = """What does `touch x` do? It costs $5, "or" $(more), 'isn't it; # yes"""


def _make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_program(["make", "-C", str(ROOT), *arguments], env={**os.environ, **variables})


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment whose `lorebind` records its arguments."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/lorebind"
    command.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {tmp_path}/arguments\n")
    command.chmod(0o755)
    (tmp_path / ".product").touch()
    return tmp_path


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_any_question(venv: Path, how: str) -> None:
    """`make demo` passes a question as it is; neither make nor the shell interprets it."""
    variables = {"QUESTION": QUESTION} if how == "environment" else {}
    arguments = [] if variables else [f"QUESTION={QUESTION}"]
    done = _make("demo", f"VENV={venv}", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    assert (venv / "arguments").read_text().splitlines()[-1] == f"question={QUESTION}"


def test_an_empty_question(venv: Path) -> None:
    """`make demo` refuses an empty question before it runs anything."""
    done = _make("demo", f"VENV={venv}", "QUESTION= ")
    assert done.returncode == 2
    assert "QUESTION is empty; write one" in done.stderr
    assert not (venv / "arguments").exists()


def test_an_interrupted_environment(tmp_path: Path) -> None:
    """An environment without the command pip is created again."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    done = _make(f"{venv}/.product", f"VENV={venv}", f"PYTHON={sys.executable}", "INSTALL=:")
    assert done.returncode == 0, done.stderr
    assert (venv / "bin/pip").exists()
