"""`workflows: [{source: file}]` names the file of a workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lorebind_config.declarations.schema import json_schema
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import build_project, load_project

TRIAGE = "id: triage\ntasks:\n  - { id: say, prompt: Hello. }\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a project folder with a workflow file, and another file outside of the folder."""
    folder = tmp_path / "project"
    (folder / "flows").mkdir(parents=True)
    (folder / "flows" / "triage.yaml").write_text(TRIAGE)
    (tmp_path / "outside.yaml").write_text(TRIAGE)
    return folder


def load(root: Path, workflows: str, more: str = "") -> dict[str, Any]:
    (root / "lorebind.yaml").write_text(f"name: p\nworkflows: {workflows}\n{more}")
    return load_project(root, environ={}).workflows


def problems(root: Path, workflows: str, more: str = "") -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(root, workflows, more)
    return [str(problem) for problem in caught.value.problems]


def test_a_file_is_named_beside_workflows_in_full(root: Path) -> None:
    """A list may contain both files and workflows."""
    inline = "{ id: own, tasks: [{ id: t, prompt: x }] }"
    flows = load(root, f"[{{ source: flows/triage.yaml }}, {inline}]")
    assert sorted(flows) == ["own", "triage"]
    assert str(flows["triage"].tasks[0].position("prompt")) == "flows/triage.yaml:3:16"


def test_what_is_declared_is_the_entry(root: Path) -> None:
    """The project's declaration contains the name of the file, not its content."""
    load(root, "[{ source: flows/triage.yaml }]")
    project = load_project(root, environ={}).project
    assert project.written()["workflows"] == [{"source": "flows/triage.yaml"}]


@pytest.mark.parametrize(
    "source", ["flows/triage.yaml", "./flows/triage.yaml", "flows/./triage.yaml"]
)
def test_named_and_autoloaded_it_is_read_once(root: Path, source: str) -> None:
    """A file that is named in several ways is read once."""
    autoload = "autoload: { include: ['flows/*.yaml'] }\n"
    assert list(load(root, f"[{{ source: {source} }}]", autoload)) == ["triage"]
    twice = f"[{{ source: {source} }}, {{ source: flows/triage.yaml }}]"
    assert list(load(root, twice)) == ["triage"]


def test_two_files_with_one_id(root: Path) -> None:
    """Ids of workflows are unique across files."""
    (root / "flows" / "other.yaml").write_text(TRIAGE)
    assert problems(root, "[{ source: flows/other.yaml }, { source: flows/triage.yaml }]") == [
        "flows/triage.yaml:1:1: workflow id 'triage' is used twice; it is first used at "
        "flows/other.yaml:1:1"
    ]


def test_a_file_that_is_not_there(root: Path) -> None:
    """A missing file is reported where it is named; a folder is not a file."""
    assert problems(root, "[{ source: flows/gone.yaml }, { source: flows }]") == [
        "lorebind.yaml:2:15: there is no file 'flows/gone.yaml'",
        "lorebind.yaml:2:44: there is no file 'flows'",
    ]


@pytest.mark.parametrize("source", ["../outside.yaml", "/etc/hostname", "flows/../../outside.yaml"])
def test_a_file_outside_of_the_project(root: Path, source: str) -> None:
    """Paths out of the project folder are refused where they are written."""
    assert problems(root, f"[{{ source: {source} }}]") == [
        f"lorebind.yaml:2:15: '{source}' leaves the project folder; "
        "write a path relative to the project folder, without '..'"
    ]


def test_a_link_out_of_the_project(root: Path) -> None:
    """Links out of the project folder are refused."""
    (root / "flows" / "link.yaml").symlink_to(root.parent / "outside.yaml")
    assert problems(root, "[{ source: flows/link.yaml }]") == [
        "lorebind.yaml:2:15: 'flows/link.yaml' leads out of the project folder"
    ]


def test_problems_inside_stand_in_the_file(root: Path) -> None:
    """A named file must be a workflow, whatever its content looks like."""
    (root / "flows" / "triage.yaml").write_text("resource: agent\nid: triage\nprompt: x\n")
    lines = problems(root, "[{ source: flows/triage.yaml }]")
    assert {problem.partition(": ")[0] for problem in lines} == {
        "flows/triage.yaml:1:1",
        "flows/triage.yaml:3:1",
    }
    assert any("missing key 'tasks'" in problem for problem in lines)
    (root / "flows" / "triage.yaml").write_text("id: [\n")
    (found_one,) = problems(root, "[{ source: flows/triage.yaml }]")
    assert found_one.startswith("flows/triage.yaml:2:1: this is not YAML")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{ source: flows/triage.yaml, id: triage }", "unknown key 'id'"),
        ("{ source: flows/triage.yaml, tasks: [] }", "unknown key 'tasks'"),
        ("{ source: 3 }", "source: expected text, got the number 3"),
        ("{ source: '' }", "a file pattern is empty"),
        ("{ source: null }", "source: expected text, got nothing"),
        ("{ sorce: flows/triage.yaml }", "unknown key 'sorce'"),
        ("flows/triage.yaml", "expected a mapping"),
    ],
)
def test_an_entry_is_one_or_the_other(root: Path, entry: str, problem: str) -> None:
    """No other key is allowed next to `source`."""
    lines = problems(root, f"[{entry}]")
    assert any(problem in line for line in lines), lines
    assert all(line.startswith("lorebind.yaml:2:") for line in lines)


VALIDATOR = Draft202012Validator(json_schema("project"))
TASKS = [{"id": "t", "prompt": "x"}]


@pytest.mark.parametrize(
    "entry",
    [
        {"source": "flows/triage.yaml"},
        {"id": "own", "tasks": TASKS},
        {"source": "flows/triage.yaml", "id": "triage"},
        {"source": "../outside.yaml"},
        {"source": 3},
        {"source": None},
        {"source": ""},
        {"id": "own", "tasks": TASKS, "source": "flows/triage.yaml"},
        {},
        {"id": "own"},
        {"id": "own", "tasks": [{"id": "t", "type": "composite", "workflow": "triage"}]},
        {"id": "own", "tasks": [{"id": "t", "type": "composite"}]},
        {"id": "own", "tasks": [{"id": "t", "type": "basic", "workflow": "triage"}]},
        {"id": "own", "tasks": [{"id": "t", "prompt": "x", "input": {}}]},
    ],
)
def test_the_schema_and_loading_agree(root: Path, entry: dict[str, Any]) -> None:
    """A JSON Schema validator accepts exactly the entries that load."""
    data = {"name": "p", "workflows": [entry]}
    triage = {"id": "triage", "tasks": TASKS}
    if "source" not in entry:
        data["workflows"] = [entry, triage]
    try:
        build_project(data, root=root, environ={})
    except ConfigurationError:
        loads = False
    else:
        loads = True
    assert VALIDATOR.is_valid(data) == loads
