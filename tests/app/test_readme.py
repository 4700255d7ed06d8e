"""The README speaks of every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_cli import COMMANDS

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_in_the_readme(command: list[str]) -> None:
    """A command that the README does not name is one that nobody finds."""
    assert f"`lorebind {' '.join(command)}" in README.read_text(encoding="utf-8")
