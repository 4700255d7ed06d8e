"""Checks single agents and tasks: their tools, conditions, channels, and the schemas of answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lorebind_config.checks.conditions import Condition, ConditionError, compile_condition
from lorebind_config.checks.json_schemas import schema_faults
from lorebind_config.checks.task_names import Names, task_scopes
from lorebind_config.declarations.agents import (
    AgentDeclaration,
    CodeTool,
    KnowledgeTool,
    McpTools,
)
from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_config.declarations.project import selected
from lorebind_config.declarations.tasks import (
    CHANNELS,
    CollectionTask,
    RouterTask,
    TaskBase,
    WaitTask,
)
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import MissingDependencyError, Problem, did_you_mean
from lorebind_config.templates import ANYTHING, Reference, mentions

_TRUTHS = ("bool", "dyn")
_ROUTES = (*_TRUTHS, "int", "uint", "string")
"""The CEL types of the values that conditions of tasks and of routers may have."""


def agents(
    declared: Iterable[AgentDeclaration], models: Sequence[ModelDeclaration]
) -> Iterator[Problem]:
    """Find tools that share a name, invalid output schemas, and settings a model cannot use."""
    for agent in declared:
        yield from _repeated(agent)
        yield from _quoting(agent, models)
        yield from _schema(agent, "output_schema", "output_schema")


def _quoting(agent: AgentDeclaration, models: Sequence[ModelDeclaration]) -> Iterator[Problem]:
    """Find the settings of an agent that its extractive model would ignore.

    A project that declares no models is not checked, because a call may bring its own model.
    """
    model = selected(models, agent.model) if models else None
    if model is None or model.provider != EXTRACTIVE:
        return
    beyond = dict.fromkeys(("tools", "read_tools"), "cannot call tools")
    beyond["output_schema"] = "cannot write JSON"
    for field, why in beyond.items():
        if getattr(agent, field):
            message = f"{agent.title} has {field}, but its model {model.id!r} (extractive) {why}"
            yield agent.problem((field,), message, f"name a chat model, or remove {field}")


def _repeated(agent: AgentDeclaration) -> Iterator[Problem]:
    first: dict[str, Declaration] = {}
    for tool in agent.tools:
        called = _called(tool)
        if called in first:
            message = f"{agent.title} has two tools {called!r}"
            hint = f"the first is at {first[called].position()}"
            if isinstance(tool, KnowledgeTool):
                hint += "; give this one another 'name'"
            yield tool.problem((), message, hint)
        elif called is not None:
            first[called] = tool


def _called(tool: CodeTool | KnowledgeTool | McpTools) -> str | None:
    """Return the name that the tool must not share with others, or its code path for a function.

    None if it could not be read. The name of a function is known only after it is imported, and
    the names of a server's tools when it runs.
    """
    if isinstance(tool, McpTools):
        return None
    name = tool.call if isinstance(tool, CodeTool) else (tool.name or tool.knowledge)
    if not isinstance(name, str):
        return None
    return str(name) if isinstance(tool, CodeTool) else tool.called


def task_problems(
    workflow: WorkflowDeclaration, injected: Collection[Reference] = ()
) -> Iterator[Problem]:
    """Find the problems of the conditions, channels and schemas of all tasks of a workflow."""
    yield from _channels(workflow)
    names = Names(workflow, injected)
    for scope in task_scopes(workflow.tasks):
        task = scope.task
        scopes = {**names.of(scope), "output": ANYTHING}
        yield from _condition(task, "condition", scopes, names)
        if isinstance(task, CollectionTask):
            items = {"item": ANYTHING, "index": ANYTHING}
            yield from _condition(task, "filter", scopes | items, names)
        yield from _updates(task, names.state)
        if isinstance(task, WaitTask):
            yield from _schema(task, "answer_schema", "schema")


def _condition(
    task: TaskBase, field: str, scopes: Mapping[str, Any], names: Names
) -> Iterator[Problem]:
    text = getattr(task, field)
    if not isinstance(text, str):
        return
    if templates := mentions(text):
        message = f"{field} is a CEL expression, not a template"
        yield task.problem((field,), message, f"write {'.'.join(templates[0])}")
        return
    try:
        condition = compile_condition(text)
    except ConditionError as error:
        yield task.problem((field,), f"{field}: {error.message}", error.hint)
        return
    except MissingDependencyError:
        return  # a run needs the extra, and reports that it is missing
    routes = field == "condition" and isinstance(task, RouterTask)
    if condition.kind not in (_ROUTES if routes else _TRUTHS):
        expected = "text, an integer, true or false" if routes else "true or false"
        yield task.problem(
            (field,),
            f"{field}: its value is of type {condition.kind}",
            f"expected {expected}",
        )
    yield from _names(task, field, condition, scopes, names)


def _names(
    task: TaskBase, field: str, condition: Condition, scopes: Mapping[str, Any], names: Names
) -> Iterator[Problem]:
    for path in sorted(condition.paths):
        value: Any = scopes
        for at, key in enumerate(path):
            if not isinstance(value, Mapping):
                break
            if key not in value:
                wrong = f"{field}: {'.'.join(path[: at + 1])} is not defined"
                why, hint = names.why(path, scopes, task) or ("", did_you_mean(key, value))
                yield task.problem((field,), f"{wrong}: {why}" if why else wrong, hint)
                break
            value = value[key]


def _channels(workflow: WorkflowDeclaration) -> Iterator[Problem]:
    for name in workflow.channels if isinstance(workflow.channels, dict) else ():
        if name in CHANNELS:
            message = f"channel {name!r} is built in and cannot be declared"
            hint = f"every workflow has {', '.join(CHANNELS)}; choose another name"
            yield workflow.problem(("channels", name), message, hint)


def _updates(task: TaskBase, state: Any) -> Iterator[Problem]:
    if isinstance(task.update, dict) and isinstance(state, Mapping):
        for name in task.update:
            if name not in state:
                message = f"{task.title} updates unknown channel {name!r}"
                hint = f"{did_you_mean(name, state)}; declare it below channels:"
                yield task.problem(("update", name), message, hint)


def _schema(declaration: Declaration, field: str, key: str) -> Iterator[Problem]:
    """Find faults of a schema, and references to definitions that it does not contain."""
    schema = getattr(declaration, field)
    for path, message in schema_faults(schema) if isinstance(schema, dict) else ():
        message = f"{key} is not a valid JSON Schema: {message}"
        yield declaration.problem((field, *path), message)
