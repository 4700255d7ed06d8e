"""Tasks that run another workflow: their inputs and outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import RunResult, Workflows
from lorebind_config.errors import ModelError, UsageError
from lorebind_config.reading.loading import build_project
from lorebind_config.templates import TemplateError
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.engine import ingest
from tests.app.helpers import Cli

from .helpers import OneModel, Scripted, write
from .workflow_helpers import task_fails

INNER: dict[str, Any] = {
    "id": "inner",
    "input": {"question": {}, "limit": {"type": "integer", "default": 3}},
    "tasks": [{"id": "say", "prompt": "{{ .input.question }}/{{ .input.limit }}"}],
}


def composite(workflow: str, task_id: str = "t", **inputs: Any) -> dict[str, Any]:
    return {"id": task_id, "type": "composite", "workflow": workflow, "input": inputs}


async def run(
    root: Path, model: Scripted, *workflows: dict[str, Any], inputs: Any = None, **more: Any
) -> RunResult:
    """Run the last of these workflows, with everything ingested."""
    data = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "memory", "type": "memory"}],
        "workflows": list(workflows),
        "checkpointer": {"type": "memory"},
        **more,
    }
    loaded = build_project(data, root=root, environ={"PASSWORD": "hunter2"})
    service = KnowledgeService(loaded)
    for kb in loaded.project.knowledge_bases:
        await ingest(service.open(kb.id).corpus())
    try:
        flows = Workflows(loaded, service, OneModel(model))
        return await flows.run(workflows[-1]["id"], inputs or {})
    finally:
        await service.close()


def prompts(model: Scripted) -> list[str]:
    return [str(messages[-1].text) for messages in model.heard]


async def test_inputs_go_in_and_the_output_comes_out(tmp_path: Path) -> None:
    """Templates are filled by the outer run, and the last task's output is the composite's."""
    outer = {
        "id": "outer",
        "input": {"ask": {}},
        "vars": {"depth": {"limit": 7}},
        "tasks": [
            composite(
                "inner", question="{{ .input.ask }}!", limit="{{ .workflow.vars.depth.limit }}"
            ),
            {"id": "after", "prompt": "Check: {{ .tasks.t.output }}"},
        ],
    }
    model = Scripted(says=["inside", "outside"])
    result = await run(tmp_path, model, INNER, outer, inputs={"ask": "How"})
    assert prompts(model) == ["How!/7", "Check: inside"]
    assert (result.output, result.tasks["t"].output) == ("outside", "inside")


async def test_declared_outputs_are_named_below_it(tmp_path: Path) -> None:
    """A workflow with outputs returns a mapping whose values keep their types."""
    inner = INNER | {
        "outputs": {"answer": "{{ .tasks.say.output }}", "limit": "{{ .input.limit }}"}
    }
    outer = {
        "id": "outer",
        "tasks": [composite("inner", question="q")],
        "outputs": {"all": "{{ .tasks.t.output }}", "limit": "{{ .tasks.t.output.limit }}"},
    }
    result = await run(tmp_path, Scripted(says=["yes"]), inner, outer)
    assert result.output == {"all": {"answer": "yes", "limit": 3}, "limit": 3}


async def test_an_output_that_is_not_there(tmp_path: Path) -> None:
    """A template that names an unknown output of a composite fails, and lists the known ones."""
    inner = INNER | {"outputs": {"answer": "{{ .tasks.say.output }}"}}
    outer = {
        "id": "outer",
        "tasks": [
            composite("inner", question="q"),
            {"id": "u", "prompt": "{{ .tasks.t.output.x }}"},
        ],
    }
    with task_fails(TemplateError, r"\.tasks\.t\.output has no 'x'; known: answer"):
        await run(tmp_path, Scripted(), inner, outer)


async def test_inputs_are_checked_when_they_are_known(tmp_path: Path) -> None:
    """The inner workflow rejects a template whose value has another type than the input."""
    outer = {
        "id": "outer",
        "tasks": [composite("inner", question="q", limit="{{ .env.PASSWORD }}")],
    }
    model = Scripted()
    with task_fails(UsageError, "'limit' of workflow 'inner' must be of type integer"):
        await run(tmp_path, model, INNER, outer)
    assert model.heard == []


async def test_what_a_model_says_is_no_template_inside(tmp_path: Path) -> None:
    """Text that is passed to inputs of another workflow is never filled in as a template."""
    outer = {
        "id": "outer",
        "input": {"ask": {}},
        "tasks": [composite("inner", question="{{ .input.ask }}")],
    }
    model = Scripted(says=["{{ .env.PASSWORD }}"])
    result = await run(tmp_path, model, INNER, outer, inputs={"ask": "{{ .secrets.PASSWORD }}"})
    assert prompts(model) == ["{{ .secrets.PASSWORD }}/3"]
    assert result.output == "{{ .env.PASSWORD }}"


DOCUMENTS = {"docs/keys.md": "# Keys\n\nRotate the keys every ninety days.\n"}
DOCS = {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}


async def test_nested_twice_everything_is_carried_up(tmp_path: Path) -> None:
    """Citations, unknown markers, verdicts and usage of nested tasks are in the result."""
    write(tmp_path, DOCUMENTS)
    inner = {
        "id": "inner",
        "input": {"question": {}},
        "tasks": [
            {"id": "look", "prompt": "{{ .input.question }}", "knowledge": [{"id": "docs"}]},
            {"id": "say", "prompt": "{{ .tasks.look.output }}"},
        ],
    }
    middle = {
        "id": "middle",
        "input": {"question": {}},
        "tasks": [composite("inner", "down", question="{{ .input.question }}")],
    }
    outer = {
        "id": "outer",
        "tasks": [
            composite("middle", "first", question="rotate the keys"),
            composite("inner", "second", question="zzz"),
            {"id": "last", "prompt": "{{ .tasks.first.output }}"},
        ],
    }
    says = ["Every ninety days [1], not [9].", "said", "Nothing.", "said so", "end"]
    model = Scripted(says=says)
    result = await run(tmp_path, model, inner, middle, outer, knowledge_bases=[DOCS])
    assert list(result.tasks) == ["first", "second", "last"]
    assert [task.verdict for task in result.tasks.values()] == ["hit", "weak", "none"]
    assert [citation.uri for citation in result.tasks["first"].citations] == ["docs/keys.md"]
    assert result.tasks["first"].unknown_markers == ["[9]"]
    assert [citation.uri for citation in result.citations] == ["docs/keys.md"]
    assert set(result.usage["first"]["down"]) == {"look", "say"}
    assert result.usage["first"]["down"]["look"]["prompt_tokens"] > 0
    assert set(result.usage["second"]) == {"look", "say"}
    assert prompts(model)[-1] == "said"
    assert result.output == "end"


async def test_a_workflow_has_its_own_knowledge_when_it_is_run_by_another(tmp_path: Path) -> None:
    """Ids are looked up in the inner workflow, which also ingests its own knowledge bases."""
    write(tmp_path, DOCUMENTS | {"own/snow.md": "# Snow\n\nPowder covers alpine chalets.\n"})
    docs = DOCS | {"sources": [{"type": "markdown_glob", "path": "own/*.md"}], "ingest": "on_start"}
    task = {"id": "look", "prompt": "powder", "knowledge": [{"id": "docs"}]}
    inner = {"id": "inner", "knowledge_bases": [docs], "tasks": [task]}
    outer = {"id": "outer", "tasks": [composite("inner"), task | {"prompt": "rotate the keys"}]}
    model = Scripted(says=["See [1]."])
    result = await run(tmp_path, model, inner, outer, knowledge_bases=[DOCS])
    uris = {
        name: [citation.uri for citation in task.citations] for name, task in result.tasks.items()
    }
    assert uris == {"t": ["own/snow.md"], "look": ["docs/keys.md"]}


async def test_a_failure_inside_ends_the_run(tmp_path: Path) -> None:
    """The error is that of the inner task, with its path."""
    outer = {"id": "outer", "tasks": [composite("inner", question="q"), {"id": "u", "prompt": "x"}]}
    model = Scripted(error=ConnectionError("cut off"))
    with task_fails(ModelError, "task 't.say' of workflow 'outer' failed: .*cut off"):
        await run(tmp_path, model, INNER, outer)
    assert model.heard == []


PROJECT = """\
name: shop
embedders: [{ id: words, provider: hashing }]
vector_dbs: [{ id: file, type: sqlite }]
knowledge_bases:
  - id: docs
    ingest: on_start
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
workflows:
  - id: inner
    input: { question: {} }
    tasks: [{ id: look, prompt: "{{ .input.question }}", knowledge: [{ id: docs }] }]
  - id: outer
    tasks:
      - id: ask
        type: composite
        workflow: inner
        input: { question: "How often do I rotate the keys?" }
    outputs: { answer: "{{ .tasks.ask.output }}" }
"""


def test_the_command_line_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lorebind run` prints the outputs, with the sources and tokens of the inner tasks."""
    cli = Cli(tmp_path, monkeypatch, capsys)
    cli.write(DOCUMENTS | {"lorebind.yaml": PROJECT})
    done = cli("run", "outer")
    assert (done.code, done.err) == (0, "")
    assert "every ninety days" in done.out
    assert "Sources of ask (hit)" in done.out
    assert "[1] docs/keys.md" in done.out
    assert done.out.count("Prompt: ") == 1
    data = json.loads(cli("run", "outer", "--output", "json").out)
    assert data["citations"][0]["uri"] == "docs/keys.md"
    assert data["usage"]["ask"]["look"]["prompt_tokens"] > 0
