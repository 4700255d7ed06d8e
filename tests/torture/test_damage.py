"""A damaged database: for any damage, one line says what is wrong and what to do."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.app.helpers import FILES, Cli, Done

from .damaged_files import damage
from .trials import Trials

COMMANDS: list[list[str]] = [
    ["knowledge", "list"],
    ["knowledge", "plan"],
    ["knowledge", "query", "docs", "-q", "rotate the keys"],
    ["knowledge", "query", "docs", "-q", "rotate the keys", "--filter", "team=ops", "-o", "json"],
    ["knowledge", "ingest"],
    ["doctor"],
    ["ask", ".", "Who rotates the keys?"],
]
QUERY = ["knowledge", "query", "docs", "-q", "rotate the keys"]


def test_damage_is_said_in_a_line_and_can_be_repaired(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    trials: Trials,
) -> None:
    """Any damage gives a known exit code and no traceback, and the suggested fix restores all."""
    whole = tmp_path / "whole"
    whole.mkdir()
    cli = Cli(whole, monkeypatch, capsys)
    cli.write(FILES)
    assert cli("knowledge", "ingest").code == 0
    right = cli(*QUERY).out
    root = tmp_path / "damaged"

    def check(case: random.Random) -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(whole, root)
        cli.move_to(root)
        file = root / ".lorebind/lorebind.db"
        way = damage(file, case)
        for command in case.sample(COMMANDS, 3):
            _check_said(way, command, cli(*command))
        _repair(cli, file, way, right)

    trials.run("damage is said and repaired", check, short=4, full=300)


def _check_said(way: str, command: list[str], done: Done) -> None:
    assert done.code in (0, 1, 2), (way, command, done)
    assert "Traceback" not in done.err, (way, command, done)
    if done.code == 2 or (done.code == 1 and not done.out):
        assert done.err.count("\n") == 1, (way, command, done)


def _repair(cli: Cli, file: Path, way: str, right: str) -> None:
    """Follow the messages: reindex; if that fails, move the file away and ingest again."""
    if cli("knowledge", "reindex", "docs").code or cli(*QUERY).out != right:
        file.rename(file.with_name("damaged"))
        assert cli("knowledge", "ingest").code == 0, way
    assert cli(*QUERY).out == right, way
