"""Every route is called with requests that its schema allows, and with others."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from lorebind import Project
from tests.processes import run_program

from .conftest import serving, token_of, write_project

DENSE = bool(os.environ.get("LOREBIND_TEST_DENSE"))
EXAMPLES = 150 if DENSE else 3
PHASES = "coverage,fuzzing,stateful" if DENSE else "coverage"


def test_no_answer_breaks_the_contract(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = write_project(tmp_path_factory.mktemp("shop"))
    schemathesis = Path(sys.executable).with_name("schemathesis")
    with Project.load(folder) as project:
        project.ingest("handbook")
    token = token_of(folder)
    with serving(folder, "--port", "0") as server:
        tried = run_program(
            [
                str(schemathesis),
                *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
                *("run", f"{server.url}/api/v0/openapi.json"),
                # A run that DELETE cancelled can still be read, with its progress.
                *("--checks", "all", "--exclude-checks", "use_after_free"),
                *("--header", f"Authorization: Bearer {token}"),
                *("--phases", PHASES, "--max-examples", str(EXAMPLES)),
                *("--request-timeout", "60"),  # `/doctor` imports what it tries
                *("--no-color", "--seed", "1"),
            ],
            timeout=900,
            cwd=folder,
        )
        print(tried.stdout)
        assert tried.returncode == 0, tried.stdout + tried.stderr
        counts = re.search(r"(\d+) generated, (\d+) passed", tried.stdout)
        assert counts, tried.stdout
        assert int(counts[1]) >= (5000 if DENSE else 200)
