"""`lorebind knowledge export` and `apply`: their output, their changes and their refusals."""

from __future__ import annotations

import io
import json
import sys

import pytest
import yaml

from .helpers import PROJECT, WORKFLOW, Cli

NEW = """\
knowledge_bases:
  - id: docs
    sources: [{ type: markdown_glob, path: "docs/**/*.md" }]
    description: How we work today
  - id: news
    sources: [{ type: markdown_glob, path: "news/*.md" }]
"""


def project_of(cli: Cli) -> str:
    return (cli.root / "lorebind.yaml").read_text(encoding="utf-8")


def test_export_prints_yaml_and_json(cli: Cli) -> None:
    """`export` prints everything, or one knowledge base with its resources, in both formats."""
    done = cli("knowledge", "export")
    assert (done.code, done.err) == (0, "")
    data = yaml.safe_load(done.out)
    declared = yaml.safe_load(PROJECT)
    assert data == {key: declared[key] for key in ("embedders", "vector_dbs", "knowledge_bases")}
    assert json.loads(cli("knowledge", "export", "--output", "json").out) == data
    exported = yaml.safe_load(cli("knowledge", "export", "rules").out)
    assert [kb["id"] for kb in exported["knowledge_bases"]] == ["rules"]


def test_export_of_what_is_not_there(cli: Cli) -> None:
    """An unknown id is reported with the nearest one."""
    done = cli("knowledge", "export", "ruls")
    assert (done.code, done.out) == (2, "")
    assert "'ruls'; did you mean 'rules'" in done.err


def test_apply_writes_and_says_what(cli: Cli) -> None:
    """`apply` prints a line per resource; the file contains them, and its project is valid."""
    cli.write({"new.yaml": NEW})
    done = cli("knowledge", "apply", "-f", "new.yaml")
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines() if "knowledge_bases" in line]
    assert [row[-1] for row in rows] == ["updated", "created"]
    assert [kb["id"] for kb in yaml.safe_load(project_of(cli))["knowledge_bases"]] == [
        "docs",
        "rules",
        "news",
    ]
    assert cli("validate").code == 0
    again = cli("knowledge", "apply", "-f", "new.yaml", "--output", "json")
    assert json.loads(again.out) == {
        "changes": [
            {"section": "knowledge_bases", "id": "docs", "action": "unchanged"},
            {"section": "knowledge_bases", "id": "news", "action": "unchanged"},
        ],
        "diff": "",
        "written": False,
    }


def test_a_dry_run_shows_the_difference(cli: Cli) -> None:
    """A dry run writes nothing, and prints the changed lines before the table."""
    cli.write({"new.yaml": NEW})
    done = cli("knowledge", "apply", "-f", "new.yaml", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert "-    description: How we work\n" in done.out
    assert "+    description: How we work today\n" in done.out
    assert "would be" in done.out
    assert project_of(cli) == PROJECT
    data = json.loads(cli("knowledge", "apply", "-f", "new.yaml", "--dry-run", "-o", "json").out)
    assert data["written"] is False
    assert "+    description: How we work today\n" in data["diff"]


def test_what_is_exported_applies_without_a_change(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`export | apply -f -` changes nothing."""
    exported = cli("knowledge", "export").out
    monkeypatch.setattr(sys, "stdin", io.StringIO(exported))
    done = cli("knowledge", "apply", "-f", "-", "--output", "json")
    assert (done.code, done.err) == (0, "")
    changes = json.loads(done.out)["changes"]
    assert {change["action"] for change in changes} == {"unchanged"}
    assert project_of(cli) == PROJECT


def test_one_goes_through_a_pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`apply` accepts the output of `get ID -o yaml` and `export ID`."""
    kbs = "knowledge_bases: [{ id: docs, sources: [{ type: file_glob, path: 'own/*' }] }]\n"
    workflow = f"# Ours.\n{WORKFLOW}{kbs}"
    file = cli.root / "workflows/reply.yaml"
    for words in (["get", "rules"], ["export", "rules"], ["get", "docs"], ["export", "docs"]):
        for place in ([], ["--workflow", "reply"]):
            cli.write({"workflows/reply.yaml": workflow})
            printed = cli("knowledge", *words, *place, "-o", "yaml").out
            monkeypatch.setattr(sys, "stdin", io.StringIO(printed))
            done = cli("knowledge", "apply", "-f", "-", "-o", "json")
            assert (done.code, done.err) == (0, "")
            assert json.loads(done.out)["written"] is False
            monkeypatch.setattr(sys, "stdin", io.StringIO(printed.replace("own/*", "new/*")))
            assert cli("knowledge", "apply", "-f", "-").code == 0
            of_workflow = bool(place) and words[1] == "docs"
            assert ("new/*" in file.read_text()) == of_workflow
    assert project_of(cli) == PROJECT


def test_one_of_a_workflow_is_exported(cli: Cli) -> None:
    """The export names its workflow, and includes its embedder."""
    kbs = "knowledge_bases: [{ id: own, sources: [{ type: file_glob, path: 'own/*' }] }]\n"
    cli.write({"workflows/reply.yaml": WORKFLOW + kbs})
    data = yaml.safe_load(cli("knowledge", "export", "own", "--workflow", "reply").out)
    assert data.pop("workflow") == "reply"
    assert [kb["id"] for kb in data.pop("knowledge_bases")] == ["own"]
    assert sorted(data) == ["embedders", "vector_dbs"]
    assert cli("knowledge", "export", "own").code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("knowledge_bases: [{}]\n", "missing key 'id'"),
        ("knowledge_bases: [\n", "new.yaml:2:1: this is not YAML"),
        (
            NEW.replace("id: news", "id: news\n    embedder: gone"),
            "uses unknown embedder 'gone'",
        ),
        (
            "embedders: [{ id: c, provider: openai, api_key: sk-hidden }]\n",
            "new.yaml:1:40: api_key holds a literal value",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(cli: Cli, text: str, message: str) -> None:
    """The exit code is 2, the problems are on stderr without secrets, and the file is unchanged."""
    cli.write({"new.yaml": text})
    done = cli("knowledge", "apply", "--file", "new.yaml")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "sk-hidden" not in done.err
    assert project_of(cli) == PROJECT


def test_a_file_that_cannot_be_read(cli: Cli) -> None:
    """A missing file, a folder and a file that is not UTF-8 each cause an error of one line."""
    (cli.root / "latin.yaml").write_bytes(b"\xfc")
    for name, reason in (
        ("gone.yaml", "No such file"),
        ("docs", "Is a directory"),
        ("latin.yaml", "latin.yaml cannot be read"),
    ):
        done = cli("knowledge", "apply", "-f", name)
        assert (done.code, done.out) == (2, "")
        assert reason in done.err
        assert done.err.count("\n") == 1
