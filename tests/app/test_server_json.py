"""`server.json`, by which the registry of MCP servers lists Lorebind."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema

from tests.app.helpers import Cli

ROOT = Path(__file__).parents[2]
TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 100}
ARGUMENT = {
    "oneOf": [
        {"properties": {"type": {"const": "positional"}}, "required": ["type", "value"]},
        {"properties": {"type": {"const": "named"}}, "required": ["type", "name"]},
    ],
    "properties": {"format": {"enum": ["string", "number", "boolean", "filepath"]}},
}
SHAPE = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "repository", "packages"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "title": TEXT,
        "description": TEXT,
        "version": TEXT,
        "repository": {"required": ["url", "source"]},
        "packages": {
            "minItems": 1,
            "items": {
                "required": ["registryType", "identifier", "version", "transport"],
                "properties": {
                    "registryType": {"const": "pypi"},
                    "transport": {"required": ["type"]},
                    "runtimeArguments": {"items": ARGUMENT},
                    "packageArguments": {"items": ARGUMENT},
                },
            },
        },
    },
}
"""The part of the schema of 2025-12-11 that the file uses."""


def test_the_file_is_what_the_registry_reads(empty_cli: Cli) -> None:
    """Its versions are those of the package, the README proves the name, and the command exists."""
    data = json.loads((ROOT / "server.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    jsonschema.validate(data, SHAPE)
    assert re.search("/2025-12-11/", data["$schema"])
    assert data["version"] == project["version"]
    (package,) = data["packages"]
    assert (package["identifier"], package["version"]) == (project["name"], project["version"])
    (extra,) = package["runtimeArguments"]
    assert extra["value"] == f"lorebind[mcp]=={project['version']}"
    assert f"<!-- mcp-name: {data['name']} -->" in (ROOT / "README.md").read_text()
    command, option = package["packageArguments"]
    assert option["name"] in empty_cli(command["value"], "--help").out
