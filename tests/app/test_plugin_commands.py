"""Commands of plugins: installed distributions add them to `lorebind`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin_project.installing import install, install_acme
from tests.processes import run_program

PROJECT = """\
name: p
embedders: [{ id: words, provider: hashing }]
knowledge_bases:
  - { id: docs, sources: [{ type: inline, documents: [{ id: a, text: Keys are rotated. }] }] }
"""
BROKEN = {"commands": {"gone": "nowhere:gone", "number": "broken_lore:NUMBER", "ask": "nowhere:x"}}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    install_acme(folder)
    install(folder, "broken-lore", BROKEN, {"broken_lore": "NUMBER = 1\n"})
    return folder


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `lorebind` with the folder as installed packages, in the project beside it."""
    project = site.parent / "project"
    project.mkdir(exist_ok=True)
    (project / "lorebind.yaml").write_text(PROJECT, encoding="utf-8")
    return run_program(
        [sys.executable, "-m", "lorebind", *arguments],
        cwd=project,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(site)},
    )


def test_a_command_of_a_plugin(site: Path) -> None:
    """It is listed with its help, takes the options that every command has, and prints."""
    listed = run(site, "--help").stdout
    assert "acme-titles" in listed
    assert "Print the documents of a knowledge base." in listed
    usage = run(site, "acme-titles", "--help").stdout
    assert all(option in usage for option in ("kb", "--project", "--tenant", "--verbose"))
    assert run(site, "ingest", "docs").returncode == 0
    done = run(site, "acme-titles", "docs")
    assert (done.stdout, done.stderr, done.returncode) == ("inline:a\n", "", 0)
    other = run(site, "acme-titles", "docs", "--tenant", "acme")
    assert (other.stdout, other.returncode) == ("", 0)


def test_a_command_that_cannot_be_loaded(site: Path) -> None:
    """It stops nothing else, and its error names the distribution. Own commands come first."""
    help_text = run(site, "--help")
    assert help_text.returncode == 0
    for name, reason in (("gone", "cannot be loaded from"), ("number", "__call__")):
        done = run(site, name)
        assert done.returncode != 0
        assert reason in done.stderr
        assert "broken-lore 1.0" in done.stderr
        assert "Traceback" not in done.stderr
    assert run(site, "ask", "--help").returncode == 0
    assert "No such command 'other'" in run(site, "other").stderr
    findings = run(site, "doctor").stdout
    assert "plugin acme-titles of lorebind.commands" in findings
    assert "plugin gone of lorebind.commands" in findings
