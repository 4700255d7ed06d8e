"""Every route is called with requests that its schema allows, and with others."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind import Project
from lorebind.server.openapi import TENANT_HEADER
from tests.density import DENSE
from tests.processes import run_program

from .conftest import serving, token_of, write_project

pytestmark = pytest.mark.enable_socket  # loopback: Schemathesis has no Unix sockets

EXAMPLES = 150 if DENSE else 3
PHASES = "coverage,fuzzing,stateful" if DENSE else "coverage"
UNICODE = Path(__file__).resolve().parents[3] / ".hypothesis"
"""Where Hypothesis stores tables of characters, which take a second to compute."""


def schema_of(url: str, token: str) -> dict[str, Any]:
    """Return the schema of a server; unless the tests are dense, one route takes a tenant.

    The same code reads the tenant of all routes, and a fourth of the cases try that.
    """
    headers = {"Authorization": f"Bearer {token}"}
    schema: dict[str, Any] = httpx.get(f"{url}/api/v0/openapi.json", headers=headers).json()
    routes = [route for path in schema["paths"].values() for route in path.values()]
    tenants = [route for route in routes if TENANT_HEADER in route.get("parameters", ())]
    assert len(tenants) > 20
    for route in [] if DENSE else tenants[1:]:
        route["parameters"].remove(TENANT_HEADER)
    return schema


def test_no_answer_breaks_the_contract(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = write_project(tmp_path_factory.mktemp("shop"))
    schemathesis = Path(sys.executable).with_name("schemathesis")
    with Project.load(folder) as project:
        project.ingest("handbook")
    token = token_of(folder)
    with serving(folder, "--port", "0") as server:
        (folder / "schema.json").write_text(json.dumps(schema_of(server.url, token)))
        tried = run_program(
            [
                str(schemathesis),
                *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
                *("run", "schema.json", "--url", server.url),
                # A run that DELETE cancelled can still be read, with its progress.
                *("--checks", "all", "--exclude-checks", "use_after_free"),
                *("--header", f"Authorization: Bearer {token}"),
                *("--phases", PHASES, "--max-examples", str(EXAMPLES)),
                *("--request-timeout", "60"),  # `/doctor` imports what it tries
                *("--no-color", "--seed", "1"),
            ],
            timeout=900,
            cwd=folder,
            env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(UNICODE)},
        )
        print(tried.stdout)
        assert tried.returncode == 0, tried.stdout + tried.stderr
        counts = re.search(r"(\d+) generated, (\d+) passed", tried.stdout)
        assert counts, tried.stdout
        assert int(counts[1]) >= (5000 if DENSE else 200)
