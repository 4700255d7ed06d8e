"""Workflows: declared tasks, compiled to a LangGraph `StateGraph` and run."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from lorebind_bindings.answering import Request, answer
from lorebind_bindings.inputs import check_inputs, running_scope
from lorebind_bindings.prompt_template import Prompt
from lorebind_bindings.resolver import resolve
from lorebind_bindings.retrieving import best_of
from lorebind_knowledge.configuration import fill
from lorebind_knowledge.declarations import BasicTask, CompositeTask
from lorebind_knowledge.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from lorebind_bindings.model_pool import ModelPool
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import TaskDeclaration, WorkflowDeclaration
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


@dataclass(frozen=True, slots=True)
class _Done:
    """A task that has run."""

    result: TaskResult
    usage: dict[str, Any]


def _merge(left: dict[str, _Done], right: dict[str, _Done]) -> dict[str, _Done]:
    return left | right


class _State(TypedDict):
    """The channels of a run."""

    input: dict[str, Any]
    done: Annotated[dict[str, _Done], _merge]


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
        {"input": values, "done": {}}, {"recursion_limit": len(declared.tasks) + 1}
    )
    done: dict[str, _Done] = state["done"]
    return RunResult(
        output=_output(loaded, declared, values, done),
        tasks={name: found.result for name, found in done.items()},
        citations=_each_once(found.result for found in done.values()),
        thread_id=uuid.uuid4().hex,
        usage={name: found.usage for name, found in done.items()},
    )


def _each_once(results: Iterable[TaskResult]) -> list[Citation]:
    cited = {citation.id: citation for result in results for citation in result.citations}
    return list(cited.values())


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
    task: TaskDeclaration,
) -> Callable[[_State], Awaitable[dict[str, Any]]]:
    """What a task does with the state: its part of `done`."""
    if isinstance(task, CompositeTask):
        run = _composite(loaded, service, models, task)
    elif isinstance(task, BasicTask):
        run = _basic(loaded, service, models, declared, task)
    else:
        raise NotImplementedError(task.type)

    async def node(state: _State) -> dict[str, Any]:
        return {"done": {task.id: await run(_scopes(loaded, declared, **state))}}

    return node


def _basic(
    loaded: LoadedProject,
    service: KnowledgeService,
    models: ModelPool,
    declared: WorkflowDeclaration,
    task: BasicTask,
) -> Callable[[dict[str, Any]], Awaitable[_Done]]:
    bindings = models.condensing(resolve(loaded, workflow=declared.id, task=task.id))
    agent = loaded.agent(task.agent, declared.id) if task.agent else None
    model, counter = models.get(agent.model if agent else None)

    async def run(scopes: dict[str, Any]) -> _Done:
        for binding in bindings:
            await service.start(binding.id, workflow=declared.id, given=scopes["workflow"])
        request = Request(
            Prompt(task.prompt, scopes),
            query=str(fill(task.query, scopes)) if task.query else None,
            instructions=agent.instructions if agent else "",
            history=fill(task.history, scopes) if task.history else (),
        )
        found = await answer(service, bindings, model, counter, request)
        result = TaskResult(found.text, found.verdict, found.citations, found.unknown_markers)
        return _Done(result, found.usage)

    return run


def _composite(
    loaded: LoadedProject, service: KnowledgeService, models: ModelPool, task: CompositeTask
) -> Callable[[dict[str, Any]], Awaitable[_Done]]:
    async def run(scopes: dict[str, Any]) -> _Done:
        inputs = fill(dict(task.input), scopes)
        found = await run_workflow(loaded, service, models, task.workflow, inputs)
        verdict = best_of(inner.verdict for inner in found.tasks.values())
        unknown = [marker for inner in found.tasks.values() for marker in inner.unknown_markers]
        return _Done(TaskResult(found.output, verdict, found.citations, unknown), found.usage)

    return run


def _scopes(
    loaded: LoadedProject,
    declared: WorkflowDeclaration,
    input: Mapping[str, Any],  # noqa: A002  # the names of the state's channels
    done: Mapping[str, _Done],
) -> dict[str, Any]:
    """What templates may name while the workflow runs."""
    return {
        **loaded.environment.scopes(),
        "input": input,
        "workflow": running_scope(loaded, declared, input),
        "tasks": {name: {"output": found.result.output} for name, found in done.items()},
    }


def _output(
    loaded: LoadedProject,
    declared: WorkflowDeclaration,
    inputs: Mapping[str, Any],
    done: Mapping[str, _Done],
) -> Any:
    if declared.outputs:
        return fill(dict(declared.outputs), _scopes(loaded, declared, inputs, done))
    return done[declared.tasks[-1].id].result.output
