"""Workflows: declared tasks, compiled to a LangGraph `StateGraph` and run."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from lorebind_bindings.answering import answer
from lorebind_bindings.resolver import resolve
from lorebind_knowledge.configuration import resolve as fill
from lorebind_knowledge.errors import UsageError, did_you_mean
from lorebind_knowledge.optional import import_extra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lorebind_bindings.answering import Answer
    from lorebind_bindings.model_pool import ModelPool
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import BasicTask, WorkflowDeclaration
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import Citation


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task of a run gave."""

    output: Any
    verdict: str
    citations: list[Citation]
    unknown_markers: list[str]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a workflow's run gave."""

    output: Any
    """The declared outputs by name; without any, the output of the last task."""
    tasks: dict[str, TaskResult]
    citations: list[Citation]
    """All that the tasks cite, each once."""
    thread_id: str
    usage: dict[str, Any]
    """By task id: the prompt's tokens, and what the model reported."""


def _merge(left: dict[str, Answer], right: dict[str, Answer]) -> dict[str, Answer]:
    return left | right


class _State(TypedDict):
    """The channels of a run."""

    input: dict[str, Any]
    answers: Annotated[dict[str, Any], _merge]


async def run_workflow(
    loaded: LoadedProject,
    service: KnowledgeService,
    models: ModelPool,
    workflow: str,
    inputs: Mapping[str, Any],
) -> RunResult:
    """Run a workflow from its first task to its last.

    Raises:
        NotFoundError: no such workflow.
        UsageError: an input is missing, unknown, or of another type.
        MissingDependencyError: LangGraph is not installed.
        LorebindError: a task failed.
    """
    declared = loaded.workflow(workflow)
    values = check_inputs(declared, inputs)
    graph = _compile(loaded, service, models, declared)
    state = await graph.ainvoke(
        {"input": values, "answers": {}}, {"recursion_limit": len(declared.tasks) + 1}
    )
    answers: dict[str, Answer] = state["answers"]
    cited = {citation.id: citation for found in answers.values() for citation in found.citations}
    return RunResult(
        output=_output(loaded, declared, values, answers),
        tasks={
            name: TaskResult(found.text, found.verdict, found.citations, found.unknown_markers)
            for name, found in answers.items()
        },
        citations=list(cited.values()),
        thread_id=uuid.uuid4().hex,
        usage={name: found.usage for name, found in answers.items()},
    )


def check_inputs(declared: WorkflowDeclaration, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The run's inputs with defaults filled in.

    Raises:
        UsageError: naming the input, what was expected, and the inputs there are.
    """
    for name in inputs:
        if name not in declared.input:
            hint = did_you_mean(name, declared.input)
            raise UsageError(f"workflow {declared.id!r} has no input {name!r}; {hint}")
    values: dict[str, Any] = {}
    for name, expected in declared.input.items():
        if name in inputs:
            values[name] = inputs[name]
            if not expected.accepts(values[name]):
                raise UsageError(
                    f"input {name!r} of workflow {declared.id!r} must be of type {expected.type}, "
                    f"got {type(values[name]).__name__}"
                )
        elif expected.required and expected.default is None:
            raise UsageError(f"workflow {declared.id!r} needs the input {name!r}")
        else:
            values[name] = expected.default
    return values


def _compile(
    loaded: LoadedProject,
    service: KnowledgeService,
    models: ModelPool,
    declared: WorkflowDeclaration,
) -> Any:
    """One node a task, one after the other in the order written."""
    graphs = import_extra("langgraph.graph", extra="workflow", purpose="running a workflow")
    graph = graphs.StateGraph(_State)
    previous = graphs.START
    for task in declared.tasks:
        graph.add_node(task.id, _node(loaded, service, models, declared, task))
        graph.add_edge(previous, task.id)
        previous = task.id
    graph.add_edge(previous, graphs.END)
    return graph.compile(name=declared.id)


def _node(
    loaded: LoadedProject,
    service: KnowledgeService,
    models: ModelPool,
    declared: WorkflowDeclaration,
    task: BasicTask,
) -> Callable[[_State], Awaitable[dict[str, Any]]]:
    bindings = resolve(loaded, workflow=declared.id, task=task.id)
    agent = loaded.agent(task.agent, declared.id) if task.agent else None
    model, counter = models.get(agent.model if agent else None)

    async def node(state: _State) -> dict[str, Any]:
        scopes = _scopes(loaded, declared, state["input"], state["answers"])
        found = await answer(
            service,
            bindings,
            model,
            counter,
            prompt=str(fill(task.prompt, scopes)),
            query=str(fill(task.query, scopes)) if task.query else None,
            instructions=agent.instructions if agent else "",
        )
        return {"answers": {task.id: found}}

    return node


def _scopes(
    loaded: LoadedProject,
    declared: WorkflowDeclaration,
    inputs: Mapping[str, Any],
    answers: Mapping[str, Answer],
) -> dict[str, Any]:
    """What templates may name while the workflow runs."""
    before_vars = {
        **loaded.environment.scopes(),
        "input": inputs,
        "workflow": {"input": inputs},
        "tasks": {name: {"output": found.text} for name, found in answers.items()},
    }
    variables = fill(dict(declared.vars), before_vars)
    return before_vars | {"workflow": {"input": inputs, "vars": variables}}


def _output(
    loaded: LoadedProject,
    declared: WorkflowDeclaration,
    inputs: Mapping[str, Any],
    answers: Mapping[str, Answer],
) -> Any:
    if declared.outputs:
        return fill(dict(declared.outputs), _scopes(loaded, declared, inputs, answers))
    return answers[declared.tasks[-1].id].text
