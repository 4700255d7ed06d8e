"""Run the command line, in this process or in a new one."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lorebind.cli import main
from tests.bindings.helpers import PARTS, write
from tests.processes import run_program

from .forked_python import ForkedPython

LOREBIND = Path(sys.executable).with_name("lorebind")

PROJECT = f"""\
name: shop
{PARTS}\
knowledge_bases:
  - id: docs
    description: How we work
    sources: [{{ type: markdown_glob, path: "docs/**/*.md" }}]
    metadata: {{ team: ops }}
  - id: rules
    sources: [{{ type: markdown_glob, path: "rules/*.md" }}]
knowledge: [{{ id: docs }}]
autoload: {{ include: ["workflows/*.yaml"] }}
"""

WORKFLOW = """\
id: reply
input:
  question: { type: string }
  limit: { type: integer, default: 3 }
tasks: [{ id: say, prompt: "{{ .workflow.input.question }}" }]
outputs: { answer: "{{ .tasks.say.output }}", limit: "{{ .workflow.input.limit }}" }
"""

DOCUMENTS = {
    "docs/keys.md": "# Keys\n\nRotate the keys with the rotate command every ninety days.\n",
    "docs/bills.md": "# Bills\n\nInvoices are sent by mail to the owner each month.\n",
    "rules/access.md": "# Access\n\nAccess is granted by the owner of a system.\n",
}

FILES = DOCUMENTS | {"lorebind.yaml": PROJECT, "workflows/reply.yaml": WORKFLOW}
"""A project with two knowledge bases and a workflow that needs no model."""

HOOKS = """\
from pathlib import Path

from lorebind import Extension

(Path(__file__).parent / "was-run").touch()


class Audit(Extension):
    pass
"""
EXTENSION = 'extensions: [{ provider: python, class: "hooks:Audit" }]\n'
"""Code of a project, and the setting that names it."""


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str


class Cli:
    """Runs `lorebind` in this process, in a folder of its own."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.root = root
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.chdir(root)

    def write(self, files: dict[str, str]) -> None:
        write(self.root, files)

    def move_to(self, folder: Path) -> None:
        """Run later commands in another folder."""
        self._monkeypatch.chdir(folder)

    def __call__(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["lorebind", *arguments])
        self._capsys.readouterr()
        code: Any = 0
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            main()
        except SystemExit as done:
            code = done.code
        finally:
            signal.signal(signal.SIGINT, on_interrupt)
        printed = self._capsys.readouterr()
        return Done(code, printed.out, printed.err)


def run_forked(forked: ForkedPython, root: Path, *arguments: str) -> Done:
    """Run the installed command in a forked process that has its libraries imported."""
    done = run_program([forked.commands / "lorebind", *arguments], cwd=root)
    return Done(done.returncode, done.stdout, done.stderr)


def run_lorebind(root: Path, *arguments: str, **variables: str) -> Done:
    """Run the installed command in a new process."""
    done = run_program([LOREBIND, *arguments], cwd=root, env=os.environ | variables)
    return Done(done.returncode, done.stdout, done.stderr)
