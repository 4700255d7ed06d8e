"""The reference documents every command, and SECURITY.md says what each command runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_cli import COMMANDS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference" / "commands.md"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_in_the_reference(command: list[str]) -> None:
    """The page has a section for each command, which says what it does."""
    page = REFERENCE.read_text(encoding="utf-8")
    assert re.search(rf"(?m)^## `lorebind {' '.join(command)}(?: [a-z]+)?`\n\n\S", page)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_said_of_every_command_what_it_runs(command: list[str]) -> None:
    """The table of SECURITY.md has a row for the command, alone or with others of its group."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("\n\n")[3]
    commands = " ".join(row.split("|")[1] for row in table.splitlines()[2:])
    assert re.search(rf"`([a-z]+ )*{command[-1]}\b", commands)
