"""The README names every command, and SECURITY.md explains what each command runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_cli import COMMANDS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_in_the_readme(command: list[str]) -> None:
    """The README names the command, so that users can find it."""
    assert f"`lorebind {' '.join(command)}" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_said_of_every_command_what_it_runs(command: list[str]) -> None:
    """The table of SECURITY.md has a row for the command, alone or with others of its group."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("\n\n")[3]
    commands = " ".join(row.split("|")[1] for row in table.splitlines()[2:])
    assert re.search(rf"`([a-z]+ )*{command[-1]}\b", commands)
