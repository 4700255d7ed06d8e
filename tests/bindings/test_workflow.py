"""Workflows: the inputs of a run, what its tasks see of each other, and its outputs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from lorebind_bindings import RunResult, Workflows
from lorebind_config.errors import MissingDependencyError, ModelError, NotFoundError, UsageError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.engine import ingest

from .helpers import Echo, OneModel, Scripted, write
from .workflow_helpers import task_fails

TWO_TASKS: dict[str, Any] = {
    "id": "w",
    "input": {"question": {}},
    "tasks": [
        {"id": "first", "prompt": "{{ .workflow.input.question }}"},
        {"id": "second", "prompt": "Check this: {{ .tasks.first.output }}"},
    ],
}


def build(root: Path, workflow: dict[str, Any], **more: Any) -> LoadedProject:
    declared = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "memory", "type": "memory"}],
        "workflows": [workflow],
        "checkpointer": {"type": "memory"},
        **more,
    }
    return build_project(declared, root=root, environ={"REGION": "north", "PASSWORD": "hunter2"})


async def run(
    loaded: LoadedProject, model: BaseChatModel, inputs: dict[str, Any], workflow: str = "w"
) -> RunResult:
    service = KnowledgeService(loaded)
    return await Workflows(loaded, service, OneModel(model)).run(workflow, inputs)


def prompts(model: Scripted) -> list[str]:
    return [str(messages[-1].text) for messages in model.heard]


async def test_tasks_run_in_order_and_see_what_came_before(tmp_path: Path) -> None:
    """The second task's prompt contains the output of the first one."""
    model = Scripted(says=["ninety days", "it is right"])
    result = await run(build(tmp_path, TWO_TASKS), model, {"question": "How often?"})
    assert prompts(model) == ["How often?", "Check this: ninety days"]
    assert list(result.tasks) == ["first", "second"]


@pytest.mark.parametrize("name", ["input", "answers", "tasks", "b.c"])
async def test_a_task_may_have_any_id(tmp_path: Path, name: str) -> None:
    """No id of a task conflicts with internal names of the run."""
    workflow = {"id": "w", "tasks": [{"id": name, "prompt": "Say it."}]}
    result = await run(build(tmp_path, workflow), Scripted(says=["said"]), {})
    assert (result.output, list(result.tasks)) == ("said", [name])


async def test_without_outputs_the_last_task_speaks(tmp_path: Path) -> None:
    """Without declared outputs, the output is the last task's text."""
    model = Scripted(says=["one", "two"])
    result = await run(build(tmp_path, TWO_TASKS), model, {"question": "?"})
    assert result.output == "two"


async def test_outputs_are_a_mapping_of_templates(tmp_path: Path) -> None:
    """Declared outputs can use inputs, variables and all tasks."""
    outputs = {
        "draft": "{{ .tasks.first.output }}",
        "summary": "{{ .input.question }} {{ .workflow.vars.tone }}: {{ .tasks.second.output }}",
    }
    workflow = TWO_TASKS | {"vars": {"tone": "kindly"}, "outputs": outputs}
    result = await run(build(tmp_path, workflow), Scripted(says=["one", "two"]), {"question": "?"})
    assert result.output == {"draft": "one", "summary": "? kindly: two"}


async def test_vars_may_use_inputs_and_the_environment(tmp_path: Path) -> None:
    """Variables can use the inputs and the environment, and keep their types."""
    workflow = {
        "id": "w",
        "input": {"limit": {"type": "integer"}},
        "vars": {"where": "{{ .env.REGION }}", "top": "{{ .workflow.input.limit }}"},
        "tasks": [{"id": "t", "prompt": "{{ .workflow.vars.where }}/{{ .workflow.vars.top }}"}],
        "outputs": {"top": "{{ .workflow.vars.top }}"},
    }
    model = Scripted()
    result = await run(build(tmp_path, workflow), model, {"limit": 3})
    assert prompts(model) == ["north/3"]
    assert result.output == {"top": 3}


async def test_what_a_model_says_is_no_template(tmp_path: Path) -> None:
    """Template syntax in an answer or an input is passed on and never evaluated."""
    model = Scripted(says=["{{ .env.PASSWORD }}", "done"])
    await run(build(tmp_path, TWO_TASKS), model, {"question": "{{ .secrets.PASSWORD }}"})
    assert prompts(model) == ["{{ .secrets.PASSWORD }}", "Check this: {{ .env.PASSWORD }}"]


async def test_the_agent_gives_instructions_and_model(tmp_path: Path) -> None:
    """A task uses its agent's instructions and its agent's model."""
    agents = [{"id": "clerk", "model": "small", "instructions": "Be short."}]
    models = [{"id": "small", "provider": "extractive"}, {"id": "big", "provider": "extractive"}]
    tasks = [{"id": "t", "agent": "clerk", "prompt": "?"}, {"id": "u", "prompt": "!"}]
    loaded = build(tmp_path, {"id": "w", "tasks": tasks}, agents=agents, models=models)
    model = Scripted()
    pool = OneModel(model)
    await Workflows(loaded, KnowledgeService(loaded), pool).run("w", {})
    assert pool.asked_for == ["small", None]
    assert [message.text for message in model.heard[0]] == ["Be short.", "?"]
    assert [message.text for message in model.heard[1]] == ["!"]


async def test_a_result_tells_what_each_task_found(tmp_path: Path) -> None:
    """Verdicts, citations and usage are returned per task; repeated citations are listed once."""
    write(tmp_path, {"docs/keys.md": "# Keys\n\nRotate the keys every ninety days.\n"})
    kb = {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}
    tasks = [
        {"id": "a", "prompt": "rotate the keys", "knowledge": [{"id": "docs"}]},
        {"id": "b", "prompt": "when to rotate keys", "knowledge": [{"id": "docs"}]},
        {"id": "c", "prompt": "and?"},
        {"id": "d", "prompt": "x", "knowledge": [{"id": "docs", "min_score": 0.99}]},
    ]
    loaded = build(tmp_path, {"id": "w", "tasks": tasks}, knowledge_bases=[kb])
    service = KnowledgeService(loaded)
    await ingest(service.open("docs").corpus())
    model = Scripted(says=["So [1].", "Again [1], not [2].", "No.", "None."])
    result = await Workflows(loaded, service, OneModel(model)).run("w", {})
    verdicts = {name: task.verdict for name, task in result.tasks.items()}
    assert verdicts == {"a": "hit", "b": "hit", "c": "none", "d": "fallback"}
    assert [citation.uri for citation in result.tasks["a"].citations] == ["docs/keys.md"]
    assert result.tasks["b"].unknown_markers == ["[2]"]
    assert [citation.uri for citation in result.citations] == ["docs/keys.md"]
    assert set(result.usage) == {"a", "b", "c", "d"}
    assert result.usage["c"]["prompt_tokens"] == 5  # 1 for "and?" by len/4, 4 for the message
    assert result.output == "None."
    await service.close()


async def test_every_run_has_a_thread_of_its_own(tmp_path: Path) -> None:
    """Two runs have different thread ids."""
    loaded = build(tmp_path, TWO_TASKS)
    first, two = [await run(loaded, Scripted(), {"question": "?"}) for _ in range(2)]
    assert first.thread_id
    assert first.thread_id != two.thread_id


async def test_concurrent_runs_do_not_mix(tmp_path: Path) -> None:
    """Concurrent runs see only their own inputs and tasks."""
    workflow = {
        "id": "w",
        "input": {"name": {}},
        "vars": {"who": "{{ .workflow.input.name }}"},
        "tasks": [
            {"id": "first", "prompt": "{{ .workflow.vars.who }}"},
            {"id": "second", "prompt": "{{ .tasks.first.output }}-{{ .input.name }}"},
        ],
    }
    loaded = build(tmp_path, workflow)
    flows = Workflows(loaded, KnowledgeService(loaded), OneModel(Echo()))
    names = [f"run{number}" for number in range(8)]
    results = await asyncio.gather(*(flows.run("w", {"name": name}) for name in names))
    assert [result.output for result in results] == [f"{n}-{n}".upper() for n in names]


INPUTS = {
    "id": "w",
    "input": {
        "question": {"type": "string"},
        "limit": {"type": "integer", "default": 3},
        "note": {"required": False},
        "exact": {"type": "boolean", "required": False, "default": True},
        "tags": {"type": "array", "required": False},
    },
    "tasks": [{"id": "t", "prompt": "{{ .input.question }}|{{ .input.limit }}|{{ .input.note }}"}],
    "outputs": {"exact": "{{ .input.exact }}", "limit": "{{ .input.limit }}"},
}


async def test_defaults_are_filled_in(tmp_path: Path) -> None:
    """A missing input has its default, or None without a default."""
    model = Scripted()
    result = await run(build(tmp_path, INPUTS), model, {"question": "?"})
    assert prompts(model) == ["?|3|"]
    assert result.output == {"exact": True, "limit": 3}


async def test_what_is_given_goes_over_the_default(tmp_path: Path) -> None:
    """Given values replace the defaults, even if they are false or zero."""
    inputs = {"question": "?", "limit": 0, "exact": False, "note": "n", "tags": []}
    result = await run(build(tmp_path, INPUTS), Scripted(), inputs)
    assert result.output == {"exact": False, "limit": 0}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "workflow 'w' needs the input 'question'"),
        ({"question": "?", "limt": 3}, "no input 'limt'; did you mean 'limit'; known: exact, "),
        ({"question": 3}, "'question' of workflow 'w' must be of type string, got a number"),
        ({"question": None}, "must be of type string, got nothing"),
        ({"question": "?", "limit": "3"}, "must be of type integer, got a text"),
        ({"question": "?", "limit": True}, "must be of type integer, got a boolean"),
        ({"question": "?", "limit": 3.0}, "must be of type integer, got a decimal number"),
        ({"question": "?", "exact": 1}, "must be of type boolean, got a number"),
        ({"question": "?", "tags": {}}, "must be of type array, got a mapping"),
    ],
)
async def test_inputs_are_checked_before_anything_runs(
    tmp_path: Path, inputs: dict[str, Any], message: str
) -> None:
    """A missing, unknown or mistyped input is an error that names it; no model is asked."""
    model = Scripted()
    with pytest.raises(UsageError, match=message):
        await run(build(tmp_path, INPUTS), model, inputs)
    assert model.heard == []


async def test_an_unknown_workflow_is_named(tmp_path: Path) -> None:
    """Running an unknown workflow is an error that suggests the closest name."""
    loaded = build(tmp_path, TWO_TASKS | {"id": "triage"})
    with pytest.raises(NotFoundError, match="no workflow 'triaje'; did you mean 'triage'"):
        await run(loaded, Scripted(), {}, workflow="triaje")


async def test_a_failing_task_ends_the_run(tmp_path: Path) -> None:
    """If a task's model fails, the error names the task and the reason; later tasks do not run."""
    model = Scripted(error=ConnectionError("cut off"))
    with task_fails(ModelError, "task 'first' of workflow 'w' failed: .*cut off"):
        await run(build(tmp_path, TWO_TASKS), model, {"question": "?"})
    assert model.heard == []


async def test_many_tasks_are_no_endless_loop(tmp_path: Path) -> None:
    """A workflow can have many tasks without reaching a limit of steps."""
    tasks = [{"id": f"t{number}", "prompt": str(number)} for number in range(40)]
    model = Scripted()
    await run(build(tmp_path, {"id": "w", "tasks": tasks}), model, {})
    assert prompts(model) == [str(number) for number in range(40)]


async def test_without_langgraph_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If LangGraph is not installed, the error names the extra to install."""
    monkeypatch.delitem(sys.modules, "langgraph.graph", raising=False)
    monkeypatch.setitem(sys.modules, "langgraph", None)
    with pytest.raises(MissingDependencyError, match=r"'langgraph.*lorebind\[workflow\]"):
        await run(build(tmp_path, TWO_TASKS), Scripted(), {"question": "?"})
