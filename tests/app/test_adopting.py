"""The example of an application that adopts Lorebind: the user's view of each step."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import run_program

from .forked_python import ForkedPython

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "adopting"
BACKUPS = "How long are backups kept?"
NOTHING = "The handbook does not say."
NOTES = """

_embed = WordEmbeddings.embed_documents


def _noted(self: WordEmbeddings, texts: list[str]) -> list[list[float]]:
    with open("embedded.txt", "a") as file:
        file.write("".join(f"{text!r}\\n" for text in texts))
    return _embed(self, texts)


WordEmbeddings.embed_documents = _noted
"""
"""Logs the embedded texts in a file."""


class Application:
    """A copy of the example at one of its steps."""

    def __init__(self, folder: Path, python: Path, step: int = 0) -> None:
        ignored = shutil.ignore_patterns("chroma", ".lorebind", "__pycache__")
        shutil.copytree(EXAMPLE, folder, ignore=ignored)
        self.folder = folder
        self._python = python
        with (folder / "parts.py").open("a", encoding="utf-8") as file:
            file.write(NOTES)
        for number in range(1, step + 1):
            self.take(number)

    def take(self, step: int) -> None:
        """Apply a step, as a reader does."""
        diff = self.folder / f"step_{step}.diff"
        command: list[str | Path] = (
            ["git", "apply", diff] if shutil.which("git") else ["patch", "-p1", "-i", diff]
        )
        ceiling = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        subprocess.run(command, cwd=self.folder, check=True, env=ceiling)

    def run(self, argument: str) -> list[str]:
        """Return the lines that it prints."""
        done = run_program([self._python, "app.py", argument], cwd=self.folder)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    def embedded(self) -> list[str]:
        """Return the texts that were embedded since the last call."""
        path = self.folder / "embedded.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def edit(self, name: str, before: str, after: str) -> None:
        path = self.folder / "handbook" / name
        path.write_text(path.read_text().replace(before, after))


def test_the_documents_become_a_knowledge_base(tmp_path: Path, forked: ForkedPython) -> None:
    """It embeds only changed documents and forgets removed ones; its page shows the rest."""
    application = Application(tmp_path / "app", forked.commands / "python", step=2)
    assert application.run("fill") == ["embedded 6 passages"]
    assert len(application.embedded()) == 6
    application.edit("backups.md", "one year", "two years")
    assert application.run("fill") == ["embedded 1 passages"]
    (embedded,) = application.embedded()
    assert "two years" in embedded
    (application.folder / "handbook" / "backups.md").unlink()
    assert application.run("fill") == ["embedded 0 passages"]
    assert application.run(BACKUPS) == [NOTHING]
    assert application.embedded() == []
    assert not (application.folder / "chroma").exists()


@pytest.mark.parametrize("step", [1, 2])
def test_a_step_is_small(step: int) -> None:
    """A step adds at most ten lines of code, not counting the YAML."""
    lines = (EXAMPLE / f"step_{step}.diff").read_text().splitlines()
    code = lines[: lines.index("--- /dev/null")] if step == 2 else lines
    added = sum(line.startswith("+") and not line.startswith("+++") for line in code)
    assert added <= 10
