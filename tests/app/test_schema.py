"""The JSON Schemas, in the location where editors find them."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from jsonschema import Draft202012Validator

from lorebind_config.declarations.schema import FILES, Kind, json_schema

from .helpers import Cli

PLACE = ".lorebind/schema"


@pytest.mark.parametrize("kind", FILES)
def test_a_schema_is_printed(empty_cli: Cli, kind: Kind) -> None:
    """`schema KIND` prints that schema as JSON, needs no project, and writes no file."""
    done = empty_cli("schema", kind)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == json_schema(kind)
    assert list(empty_cli.root.iterdir()) == []


def test_what_init_writes_is_checked_by_editors(empty_cli: Cli) -> None:
    """The first line of each file names, relative to its folder, a schema by which it is valid."""
    assert empty_cli("init").code == 0
    assert empty_cli("validate").code == 0
    files = sorted(empty_cli.root.rglob("*.yaml"))
    assert len(files) == 2
    for path in files:
        text = path.read_text()
        modeline = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        assert modeline, path
        schema = json.loads((path.parent / modeline[1]).read_text())
        Draft202012Validator(schema).validate(yaml.safe_load(text))


def test_schemas_are_kept_out_of_version_control(empty_cli: Cli) -> None:
    """They are in the data folder, which ignores itself."""
    assert empty_cli("init").code == 0
    assert (empty_cli.root / ".lorebind/.gitignore").read_text() == "*\n"


def test_schemas_are_renewed(cli: Cli) -> None:
    """`schema --write` replaces the files of an earlier version in the project's folder."""
    cli.write({f"{PLACE}/agent.json": "{}"})
    cli("schema", "--write", "--project", "lorebind.yaml")
    names = [path.name for path in sorted((cli.root / PLACE).iterdir())]
    assert names == ["agent.json", "project.json", "workflow.json"]
    assert json.loads((cli.root / PLACE / "agent.json").read_text()) == json_schema("agent")


def test_what_was_written_as_data(cli: Cli) -> None:
    """`schema --write --output json` lists the files."""
    done = cli("schema", "--write", "-o", "json")
    assert json.loads(done.out) == {"written": [f"{PLACE}/{kind}.json" for kind in FILES]}


def test_no_folder_no_schemas(empty_cli: Cli) -> None:
    """A missing project folder is wrong usage."""
    done = empty_cli("schema", "--write", "--project", "nowhere")
    assert (done.code, done.err) == (2, "lorebind: there is no folder nowhere\n")
