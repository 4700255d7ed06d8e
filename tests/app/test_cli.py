"""The output of commands, for people and for programs."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from lorebind.cli.commands import app
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from tests.bindings.helpers import write
from tests.processes import run_program

from .forked_python import ForkedPython
from .helpers import FILES, PROJECT, Cli, run_forked, run_lorebind

QUESTION = "How do I rotate the keys?"

COMMANDS: list[list[str]] = [
    ["ask"],
    ["chat"],
    ["trust"],
    ["init"],
    ["validate"],
    ["schema"],
    ["doctor"],
    ["ingest"],
    ["query"],
    ["run"],
    ["eval"],
    ["serve"],
    ["worker"],
    ["mcp"],
    ["playground"],
    ["token"],
    ["token", "create"],
    ["token", "list"],
    ["token", "revoke"],
    ["knowledge"],
    ["knowledge", "list"],
    ["knowledge", "get"],
    ["knowledge", "export"],
    ["knowledge", "apply"],
    ["knowledge", "ingest"],
    ["knowledge", "reindex"],
    ["knowledge", "purge"],
    ["knowledge", "plan"],
    ["knowledge", "query"],
    ["knowledge", "documents"],
    ["knowledge", "chunks"],
    ["knowledge", "find"],
    ["knowledge", "fetch"],
    ["knowledge", "fields"],
    ["knowledge", "skipped"],
    ["knowledge", "add"],
    ["knowledge", "retry"],
    ["knowledge", "delete"],
    ["knowledge", "exclude"],
    ["knowledge", "include"],
    ["knowledge", "runs"],
    ["knowledge", "stats"],
    ["knowledge", "pack"],
    ["knowledge", "unpack"],
    ["knowledge", "rollback"],
    ["knowledge", "watch"],
    ["bindings"],
    ["bindings", "explain"],
    ["workflow"],
    ["workflow", "list"],
    ["workflow", "show"],
    ["workflow", "threads"],
    ["workflow", "history"],
    ["workflow", "replay"],
]

INVOCATIONS: dict[str, list[str]] = {
    "validate": ["validate"],
    "schema": ["schema"],
    "list": ["knowledge", "list"],
    "get": ["knowledge", "get", "docs"],
    "ingest": ["knowledge", "ingest", "docs"],
    "reindex": ["knowledge", "reindex", "docs"],
    "purge": ["knowledge", "purge"],
    "plan": ["knowledge", "plan", "docs"],
    "query": ["knowledge", "query", "docs", "-q", QUESTION],
    "documents": ["knowledge", "documents", "docs"],
    "chunks": ["knowledge", "chunks", "docs", "docs/keys.md"],
    "find": ["knowledge", "find", "docs", "keys"],
    "fetch": ["knowledge", "fetch", "docs", "docs/keys.md"],
    "fields": ["knowledge", "fields", "docs"],
    "runs": ["knowledge", "runs"],
    "stats": ["knowledge", "stats", "docs"],
    "explain": ["bindings", "explain", "--workflow", "reply"],
    "run": ["run", "reply", "--input", f"question={QUESTION}"],
    "workflows": ["workflow", "list"],
    "show": ["workflow", "show", "reply"],
    "threads": ["workflow", "threads", "reply"],
    "ask": ["ask", ".", QUESTION],
    "trust": ["trust", "."],
    "tokens": ["token", "list"],
}
"""Every command that prints a result; for those that need a thread, see `test_cli_workflow`."""


FIELDS: dict[str, set[str]] = {
    "validate": {"valid", "problems"},
    "schema": {"$schema", "title", "properties"},
    "list": {"knowledge_bases"},
    "explain": {"bindings"},
    "get": {"knowledge_base", "stats"},
    "purge": {"undeclared"},
    "plan": {
        *("kb_id", "documents", "chunks", "texts_to_embed", "cache_hits", "failures"),
        *("tokens_to_embed", "tokenizer", "exact", "cost"),
    },
    "reindex": {"kb_id", "strategy", "status", "documents", "chunks", "texts_embedded"},
    "ingest": {
        "kb_id",
        "strategy",
        "run_id",
        "status",
        "documents",
        "chunks",
        "texts_embedded",
        "cache_hits",
        "seconds",
        "failures",
        "sources",
    },
    "query": {"matches", "strategy", "searched", "skipped", "seconds"},
    "documents": {"documents"},
    "chunks": {"chunks"},
    "find": {"passages", "cut"},
    "fetch": {"document", "text", "first_line", "last_line", "gaps", "chunk_ids"},
    "fields": {"fields"},
    "runs": {"runs"},
    "stats": {"kb_id", "documents", "chunks", "embedder", "dimension", "last_run"},
    "run": {"output", "tasks", "citations", "thread_id", "usage", "status", "waiting", "paused"},
    "workflows": {"workflows"},
    "show": {"id", "description", "inputs", "flow"},
    "threads": {"threads"},
    "ask": {"ingests", "results", "answer", "verdict", "citations", "unknown_markers", "usage"},
    "trust": {"folder", "demands"},
    "tokens": {"tokens"},
}


def names(group: Any, path: tuple[str, ...] = ()) -> list[list[str]]:
    """Return all commands of a group, including groups and their commands."""
    paths = []
    for name, summary in group.commands.items():
        _, command, _ = group.resolve_command(Context(group), [name])
        assert command.help.startswith(summary.help)
        paths.append([*path, name])
        if isinstance(command, TyperGroup):
            paths += names(command, (*path, name))
    return paths


def test_all_commands_are_tested() -> None:
    """This file lists exactly the existing commands; summaries are those of their help."""
    assert sorted(names(get_command(app))) == sorted(COMMANDS)


def test_shortcuts(ready_cli: Cli) -> None:
    """Frequent commands have short names, and `--version` prints the version."""
    long = ready_cli("knowledge", "query", "docs", "-q", QUESTION)
    short = ready_cli("query", "docs", QUESTION)
    assert (short.code, short.out) == (long.code, long.out)
    assert ready_cli("ingest", "docs").code == 0
    for name in ("ingest", "query"):
        text = ready_cli("knowledge", name, "--help").out.split("\n\nArguments")[0].split("\n\n", 1)
        assert text[1] in ready_cli(name, "--help").out
    done = ready_cli("--version")
    assert (done.code, done.out) == (0, f"lorebind {version('lorebind')}\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(empty_cli: Cli, command: list[str]) -> None:
    """`--help` describes a command and each of its arguments and options."""
    done = empty_cli(*command, "--help")
    assert (done.code, done.err) == (0, "")
    usage, text = done.out.split("\n\n")[:2]
    assert usage.strip().startswith(f"Usage: lorebind {' '.join(command)}")
    assert len(text.strip()) > 20
    options = re.findall(r"(?m)^  (-[^\n]*?|\[?[A-Z_]+\]?)(?:  +(\S.*))?$", done.out)
    assert len(options) > 0
    described = re.sub(r"\n {10,}", "  ", done.out)
    for line in re.findall(r"(?m)^  (?:-.*)$", described):
        assert re.search(r"\S {2,}\S", line[2:]), f"no help for: {line}"


@pytest.mark.parametrize("name", INVOCATIONS)
def test_json_is_all_there_is_on_stdout(ready_cli: Cli, name: str) -> None:
    """With `--output json`, stdout is one JSON document with the documented fields."""
    done = ready_cli(*INVOCATIONS[name], "--output", "json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out).keys() >= FIELDS[name]


@pytest.mark.parametrize("name", INVOCATIONS)
def test_yaml_says_the_same_as_json(ready_cli: Cli, name: str) -> None:
    """`--output yaml` is the same data, of plain types, in YAML."""

    def steady(text: str) -> str:
        """Remove values that differ between runs."""
        differing = r'("?(?<!_)\b(?:seconds|run_id|thread_id|\w+ed_at)"?): [^\s,]+'
        return re.sub(differing, r"\1: 0", text)

    as_json = ready_cli(*INVOCATIONS[name], "--output", "json")
    as_yaml = ready_cli(*INVOCATIONS[name], "-o", "yaml")
    assert (as_yaml.code, as_yaml.err) == (0, "")
    assert yaml.safe_load(steady(as_yaml.out)) == json.loads(steady(as_json.out))


def test_a_query_explains_itself(ready_cli: Cli) -> None:
    """With --explain, each match has its scores, and each setting the location that set it."""
    query = ["query", "docs", "-q", QUESTION, "--top-k", "1", "--explain"]
    printed = ready_cli(*query).out
    assert re.search(r"figures: dense 0\.\d{3}, lexical \d\.\d{3}", printed)
    assert re.search(r"top_k +1 +caller", printed)
    assert re.search(r"strategy +hybrid +default", printed)
    assert re.search(r"(hit|weak) by hybrid in 0\.\d+ s", printed)
    data = json.loads(ready_cli(*query, "-o", "json").out)
    assert len(data["result"]["matches"]) == 1
    assert data["binding"]["settings"]["top_k"] == 1
    assert data["binding"]["provenance"]["top_k"]["scope"] == "caller"


def test_tenants_are_kept_apart(ready_cli: Cli) -> None:
    """Every command accepts --tenant, and its messages repeat it."""
    done = ready_cli("query", "docs", "-q", QUESTION, "--tenant", "a b")
    assert done.code == 1
    assert "run: lorebind knowledge ingest docs --tenant 'a b'" in done.err
    assert ready_cli("ingest", "docs", "--tenant", "a b").code == 0
    for tenant, count in (("a b", 2), ("c", 0)):
        (docs, _) = json.loads(
            ready_cli("knowledge", "list", "--tenant", tenant, "-o", "json").out
        )["knowledge_bases"]
        assert docs["stats"]["documents"].get("ready", 0) == count
    done = ready_cli("knowledge", "list", "--tenant", "")
    assert (done.code, "--tenant: the name is empty" in done.err) == (2, True)


def test_what_happens_is_logged_where_that_is_wanted(ready_cli: Cli) -> None:
    """-v logs events to standard error, -vv adds their steps, and results do not change."""
    query = ["query", "docs", "-q", QUESTION, "-o", "json"]
    plain, info, more = (ready_cli(*query, *option) for option in ([], ["-v"], ["-vv"]))
    assert plain.err == ""
    assert "INFO lorebind.retrieval: retrieval_completed" in info.err
    assert "embedder_called" not in info.err
    assert "DEBUG lorebind.embedder: embedder_called" in more.err
    assert json.loads(info.out)["matches"] == json.loads(plain.out)["matches"]
    assert QUESTION not in more.err


@pytest.mark.parametrize("declared", ["", ", format: json, level: error"])
def test_what_is_logged_anyway_is_not_logged_twice(ready_cli: Cli, declared: str) -> None:
    """A project that declares logging logs once, in its own format, at the level that -v sets."""
    logs = f"extensions: [{{ provider: logging{declared} }}]\n"
    ready_cli.write({"lorebind.yaml": PROJECT + logs})
    query = ["query", "docs", "-q", QUESTION]
    info, more = (ready_cli(*query, option).err for option in ("-v", "-vv"))
    assert (info.count("retrieval_completed"), info.count("embedder_called")) == (1, 0)
    assert (more.count("retrieval_completed"), more.count("embedder_called")) == (1, 1)
    assert ('{"time"' in info) == bool(declared)


def test_the_matches_of_a_query(ready_cli: Cli) -> None:
    """A match has id, score, relevance, scores, text and metadata with its location."""
    answer = json.loads(ready_cli(*INVOCATIONS["query"], "-o", "json").out)
    best = answer["matches"][0]
    assert set(best) == {"id", "score", "relevance", "scores", "text", "metadata"}
    place = {"kb_id", "uri", "title", "start", "end", "line_start", "line_end"}
    assert best["metadata"].keys() >= place
    assert best["metadata"]["uri"] == "docs/keys.md"
    assert (answer["searched"], answer["strategy"]) == (["docs"], "hybrid")


def test_the_result_of_a_run(ready_cli: Cli) -> None:
    """A run's tasks have output, verdict and citations; an output keeps its type."""
    done = ready_cli(*INVOCATIONS["run"], "--input", "limit=7", "-o", "json")
    result = json.loads(done.out)
    assert result["output"]["limit"] == 7
    task = result["tasks"]["say"]
    assert task.keys() >= {"output", "verdict", "citations"}
    assert task["verdict"] == "hit"
    assert [citation["uri"] for citation in task["citations"]] == ["docs/keys.md"]
    assert result["citations"] == task["citations"]


def test_a_misspelled_folder_of_autoload(cli: Cli) -> None:
    """`validate` prints a notice only for a pattern whose missing folder resembles another."""
    autoload = "autoload: { include: ['prats/*.yaml', 'parts/*.yaml', 'later/*.yaml'] }\n"
    cli.write({"parts/notes.txt": "", "lorebind.yaml": "name: p\n" + autoload})
    done = cli("validate")
    assert done.code == 0
    assert done.err == (
        "notice: lorebind.yaml:2:23: 'prats/*.yaml' matches no file, because there is no folder "
        "'prats'; did you mean 'parts'?\n"
    )


def test_problems_as_data(cli: Cli) -> None:
    """`validate --output json` lists every problem with its location, and exits with 2."""
    cli.write({"lorebind.yaml": FILES["lorebind.yaml"] + "extra: 1\nmore: 2\n"})
    done = cli("validate", "-o", "json")
    data = json.loads(done.out)
    assert (done.code, data["valid"]) == (2, False)
    assert [set(problem) for problem in data["problems"]] == [
        {"file", "line", "column", "message", "hint"}
    ] * 2
    line = FILES["lorebind.yaml"].count("\n") + 1
    assert [problem["line"] for problem in data["problems"]] == [line, line + 1]


def test_tables_for_people(ready_cli: Cli) -> None:
    """Without `--output`, the commands print sentences and tables."""
    assert "shop: valid" in ready_cli("validate").out
    listed = ready_cli("knowledge", "list").out
    assert re.search(r"(?m)^docs +2 +2 +completed +How we work$", listed)
    printed = ready_cli(*INVOCATIONS["query"]).out
    assert re.search(r"(?m)^ 1  (0\.\d{3})  relevance \1  docs/keys\.md:1-3  Keys$", printed)
    assert "Rotate the keys" in printed
    ran = ready_cli(*INVOCATIONS["run"]).out
    assert "[1] docs/keys.md, lines 1-3" in ran
    assert re.search(r"Prompt: \d+ tokens \(o200k_base, exact\)", ran)
    again = ready_cli("knowledge", "ingest", "docs").out
    assert again.startswith("Plan: 2 documents\n")
    planned = ready_cli("knowledge", "plan", "docs").out.splitlines()
    assert planned[1:] == ["Tokens to embed: 0 (len/4, estimated)"]
    anew = ready_cli("knowledge", "reindex", "docs").out
    assert anew.startswith("Plan: 2 documents\n")
    assert re.search(r"(?m)^docs: completed in .*; 0 embedded, 2 from the cache$", anew)


@pytest.mark.parametrize("name", [*INVOCATIONS, "help"])
def test_pipes_get_plain_text(ready_cli: Cli, forked: ForkedPython, name: str) -> None:
    """In a pipe there are no colors, no progress bars, and no trailing spaces."""
    ready_cli.write({"docs/new.md": "# New\n\nNew keys are longer than the old keys.\n"})
    command = INVOCATIONS.get(name, ["--help"])
    # Two have a pipe and a process of their own; the others run without a terminal as output.
    forks = name in ("ingest", "query")
    done = run_forked(forked, ready_cli.root, *command) if forks else ready_cli(*command)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("\n")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.out)
    assert [line for line in done.out.splitlines() if line != line.rstrip()] == []


def test_init_to_answer_in_an_empty_folder(tmp_path: Path, forked: ForkedPython) -> None:
    """init, validate, ingest, query, run: a new project answers from two files, with no key."""
    write(tmp_path, {name: text for name, text in FILES.items() if name.startswith("docs/")})
    done = run_lorebind(tmp_path, "init")
    assert done.code == 0
    assert done.out.splitlines() == [
        "wrote lorebind.yaml",
        "wrote workflows/answer.yaml",
        "wrote .lorebind/schema/project.json",
        "wrote .lorebind/schema/workflow.json",
        "wrote .lorebind/schema/agent.json",
        'with network access, a better embedder: pip install "lorebind[fastembed]", and in '
        "lorebind.yaml: embedders: [{ id: default, provider: fastembed, model: "
        "BAAI/bge-small-en-v1.5 }]",
        "next: lorebind knowledge ingest docs",
    ]
    file = tmp_path / "lorebind.yaml"
    written = file.read_text()
    better = (
        "#   embedders:  - { id: default, provider: fastembed, model: BAAI/bge-small-en-v1.5 }\n"
    )
    file.write_text(written.replace(better, better.removeprefix("#   ").replace(":  -", ":\n  -")))
    assert file.read_text() != written
    assert run_forked(forked, tmp_path, "validate").code == 0
    file.write_text(written)
    lorebind = partial(run_forked, forked, tmp_path)
    assert lorebind("validate").code == 0
    ingested = lorebind(*done.out.splitlines()[-1].split()[2:], "-o", "json")
    assert json.loads(ingested.out)["documents"]["added"] == 2
    question = "When must an API key be changed?"
    query = lorebind("knowledge", "query", "docs", "-q", question, "-o", "json")
    assert json.loads(query.out)["matches"][0]["metadata"]["uri"] == "docs/keys.md"
    ran = lorebind("run", "answer", "-i", "question=Rotate keys how often?", "-o", "json")
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert result["tasks"]["reply"]["verdict"] == "hit"
    assert "every ninety days" in result["output"]["answer"]
    assert [citation["uri"] for citation in result["citations"]] == ["docs/keys.md"]


def test_init_makes_a_folder(empty_cli: Cli) -> None:
    """`init FOLDER` creates the folder, names the project after it, and prints the next command."""
    done = empty_cli("init", "my shop/handbook!")
    assert done.code == 0
    assert "knowledge ingest docs" in done.out.splitlines()[-1]
    text = (empty_cli.root / "my shop/handbook!/lorebind.yaml").read_text()
    assert yaml.safe_load(text)["name"] == "handbook"
    assert empty_cli("validate", "--project", "my shop/handbook!").code == 0


@pytest.mark.parametrize("there", ["lorebind.yaml", "workflows/answer.yaml"])
def test_init_never_overwrites(empty_cli: Cli, there: str) -> None:
    """If one of its files exists, `init` writes nothing and names the file."""
    empty_cli.write({there: "mine: true\n"})
    done = empty_cli("init")
    assert done.code == 2
    assert f"{there} already exists; nothing was written" in done.err
    assert (empty_cli.root / there).read_text() == "mine: true\n"
    files = [path for path in empty_cli.root.rglob("*") if path.is_file()]
    assert files == [empty_cli.root / there]


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m lorebind` is the same as the installed command."""
    command = [sys.executable, "-m", "lorebind", "--help"]
    done = run_program(command, cwd=tmp_path, check=True)
    script = run_lorebind(tmp_path, "--help").out
    assert done.stdout.replace("python -m lorebind", "lorebind") == script


def test_a_project_may_be_elsewhere(ready_cli: Cli, tmp_path_factory: Any) -> None:
    """`--project` takes a folder or a file; paths in it stay relative to the project."""
    ready_cli.move_to(tmp_path_factory.mktemp("elsewhere"))
    for path in (ready_cli.root, ready_cli.root / "lorebind.yaml"):
        done = ready_cli(*INVOCATIONS["query"], "-p", str(path), "-o", "json")
        assert json.loads(done.out)["matches"][0]["metadata"]["uri"] == "docs/keys.md"


def test_knowledge_of_a_workflow(ready_cli: Cli) -> None:
    """A workflow's knowledge bases are ingested, queried and listed like others, by its name."""
    ready_cli.write(
        {
            "own/a.md": "# Owls\n\nOwls fly at night.",
            "workflows/own.yaml": (
                "id: own\nknowledge_bases:\n"
                '  - { id: birds, sources: [{ type: markdown_glob, path: "own/*.md" }] }\n'
                "knowledge: [{ id: birds }]\n"
                "tasks: [{ id: tell, prompt: owls at night }]\n"
            ),
        }
    )
    before = ready_cli("run", "own")
    assert (before.code, before.out) == (1, ""), before.err
    advice = "lorebind knowledge ingest birds --workflow own"
    assert advice in before.err
    assert ready_cli(*advice.split()[1:]).code == 0
    done = ready_cli("knowledge", "query", "birds", "-w", "own", "-q", "owls", "-o", "json")
    assert json.loads(done.out)["matches"][0]["metadata"]["uri"] == "own/a.md"
    assert re.search(r"(?m)^birds +own +1 +1 +completed", ready_cli("knowledge", "list").out)
    assert ready_cli("knowledge", "get", "birds").code == 2


def test_explain_names_every_setting(ready_cli: Cli) -> None:
    """The table has a row for each setting, with the file and line that set it."""
    binding = PROJECT.replace("{ id: docs }]", "{ id: docs, top_k: 7 }]")
    ready_cli.write({"lorebind.yaml": binding})
    done = ready_cli("bindings", "explain", "--workflow", "reply")
    for name in RetrievalDeclaration.model_fields:
        assert re.search(rf"(?m)^{name} ", done.out)
    assert re.search(r"(?m)^top_k +7 +project +lorebind\.yaml:\d+$", done.out)
    assert "A match is weak if its best passage has a relevance below 0.1" in done.out
    (row,) = json.loads(ready_cli("bindings", "explain", "-o", "json").out)["bindings"]
    assert row["weak_below"] == 0.1
    ready_cli.write(
        {"lorebind.yaml": PROJECT.replace("- id: docs\n", "- id: docs\n    weak_below: null\n")}
    )
    assert "No match is weak" in ready_cli("bindings", "explain").out
    assert ready_cli("bindings", "explain", "--task", "x").code == 2


def test_help_has_a_short_form(cli: Cli) -> None:
    """`-h` is `--help`, also after a subcommand."""
    for command in ([], ["knowledge"], ["workflow", "history"]):
        short = cli(*command, "-h")
        assert (short.code, short.out) == (0, cli(*command, "--help").out)


def test_a_project_is_found_from_a_folder_in_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the nearest lorebind.yaml upwards, if file and folders are this user's."""
    here = cli("knowledge", "list").out
    inner = cli.root / "docs" / "inner"
    inner.mkdir()
    cli.move_to(inner)
    assert cli("knowledge", "list").out == here
    assert cli("ask", ".", "x").code == 1  # it answers from the folder that it names
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    refused = cli("knowledge", "list")
    assert (refused.code, "lorebind.yaml" in refused.err) == (2, True)
