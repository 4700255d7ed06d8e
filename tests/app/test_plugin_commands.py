"""Commands of plugins: installed distributions add them to `lorebind`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin_project.installing import install, install_acme
from tests.processes import run_program

from .forked_python import ForkedPython

PROJECT = """\
name: p
embedders: [{ id: words, provider: hashing }]
knowledge_bases:
  - { id: docs, sources: [{ type: inline, documents: [{ id: a, text: Keys are rotated. }] }] }
"""
BROKEN = {"commands": {"gone": "nowhere:gone", "number": "broken_lore:NUMBER", "ask": "nowhere:x"}}


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, forked: ForkedPython) -> Run:
    """Runs `lorebind` in a project, with the distributions of two plugins."""
    site, project = tmp_path / "site", tmp_path / "project"
    install_acme(site)
    install(site, "broken-lore", BROKEN, {"broken_lore": "NUMBER = 1\n"})
    project.mkdir()
    (project / "lorebind.yaml").write_text(PROJECT, encoding="utf-8")
    variables = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(site)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program([forked.commands / "lorebind", *arguments], cwd=project, env=variables)

    return run


def test_a_command_of_a_plugin(run: Run) -> None:
    """It is listed with its help, takes the options that every command has, and prints."""
    listed = run("--help").stdout
    assert "acme-titles" in listed
    assert "Print the documents of a knowledge base." in listed
    usage = run("acme-titles", "--help").stdout
    assert all(option in usage for option in ("kb", "--project", "--tenant", "--verbose"))
    assert run("ingest", "docs").returncode == 0
    done = run("acme-titles", "docs")
    assert (done.stdout, done.stderr, done.returncode) == ("inline:a\n", "", 0)
    other = run("acme-titles", "docs", "--tenant", "acme")
    assert (other.stdout, other.returncode) == ("", 0)


def test_a_command_that_cannot_be_loaded(run: Run) -> None:
    """It stops nothing else, and its error names the distribution. Own commands come first."""
    help_text = run("--help")
    assert help_text.returncode == 0
    for name, reason in (("gone", "cannot be loaded from"), ("number", "__call__")):
        done = run(name)
        assert done.returncode != 0
        assert reason in done.stderr
        assert "broken-lore 1.0" in done.stderr
        assert "Traceback" not in done.stderr
    assert run("ask", "--help").returncode == 0
    assert "No such command 'other'" in run("other").stderr
    findings = run("doctor").stdout
    assert "plugin acme-titles of lorebind.commands" in findings
    assert "plugin gone of lorebind.commands" in findings
