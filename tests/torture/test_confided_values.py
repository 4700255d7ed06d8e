"""Values of variables never leave the project, whatever its sources do with them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.knowledge.web_server import WebServer

from .confiding import Project
from .trials import Trials


def test_no_value_is_shown_or_kept(
    trials: Trials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket_enabled: None
) -> None:
    """No output, log or file contains a value of `.env` used in an address, bucket or header."""
    server = WebServer()

    def check(case: random.Random) -> None:
        root = tmp_path / "project"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        monkeypatch.chdir(root)
        project = Project(case, root, server)
        printed = "".join(project.run(command, monkeypatch) for command in project.commands())
        stored = project.files()
        for word in project.words:
            assert word not in printed.lower(), (
                word,
                (root / "lorebind.yaml").read_text(),
                printed,
            )
            assert word.encode() not in stored.lower(), (word, (root / "lorebind.yaml").read_text())

    try:
        trials.run("values of variables stay where they are", check, short=2, full=120)
    finally:
        server.close()
