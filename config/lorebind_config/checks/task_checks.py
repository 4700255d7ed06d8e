"""Checks single tasks: their conditions, channels, and the schemas of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lorebind_config.checks.conditions import ConditionError, compile_condition
from lorebind_config.checks.json_schemas import schema_faults
from lorebind_config.checks.references import named, problem_at
from lorebind_config.checks.task_names import Names, standings
from lorebind_config.declarations.workflows import CHANNELS, CollectionTask, RouterTask, WaitTask
from lorebind_config.errors import MissingDependencyError, did_you_mean
from lorebind_config.templates.language import ANYTHING, mentions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lorebind_config.checks.conditions import Condition
    from lorebind_config.declarations.workflows import TaskBase, WorkflowDeclaration
    from lorebind_config.errors import Problem
    from lorebind_config.templates.language import Reference

_TRUTHS = {"bool": "true or false", "dyn": ""}
_ROUTES = {**_TRUTHS, "int": "an integer", "uint": "an integer", "string": "text"}


def task_problems(
    workflow: WorkflowDeclaration, injected: Collection[Reference] = ()
) -> Iterator[Problem]:
    """Find the problems of the conditions, channels and schemas of all tasks of a workflow."""
    yield from _channels(workflow)
    names = Names(workflow, injected)
    for standing in standings(workflow):
        task = standing.task
        scopes = {**names.of(standing), "output": ANYTHING}
        yield from _condition(task, "condition", scopes, names)
        if isinstance(task, CollectionTask):
            items = {"item": ANYTHING, "index": ANYTHING}
            yield from _condition(task, "filter", scopes | items, names)
        yield from _updates(task, names.state)
        if isinstance(task, WaitTask) and isinstance(task.answer_schema, dict):
            yield from _schema(task, task.answer_schema)


def _condition(
    task: TaskBase, field: str, scopes: Mapping[str, Any], names: Names
) -> Iterator[Problem]:
    text = getattr(task, field)
    if not isinstance(text, str):
        return
    if templates := mentions(text):
        message = f"{field} is a CEL expression, not a template"
        yield problem_at(task, (field,), message, f"write {'.'.join(templates[0])}")
        return
    try:
        condition = compile_condition(text)
    except ConditionError as error:
        yield problem_at(task, (field,), f"{field}: {error.message}", error.hint)
        return
    except MissingDependencyError:
        return  # a run needs the extra, and reports that it is missing
    routes = field == "condition" and isinstance(task, RouterTask)
    if condition.kind not in (_ROUTES if routes else _TRUTHS):
        expected = "text, an integer, true or false" if routes else "true or false"
        yield problem_at(
            task,
            (field,),
            f"{field}: its value is of type {condition.kind}",
            f"expected {expected}",
        )
    yield from _names(task, field, condition, scopes, names)


def _names(
    task: TaskBase, field: str, condition: Condition, scopes: Mapping[str, Any], names: Names
) -> Iterator[Problem]:
    for path in sorted(condition.paths):
        found: Any = scopes
        for at, key in enumerate(path):
            if not isinstance(found, Mapping):
                break
            if key not in found:
                wrong = f"{field}: {'.'.join(path[: at + 1])} is not defined"
                why, hint = names.why(path, scopes, task) or ("", did_you_mean(key, found))
                yield problem_at(task, (field,), f"{wrong}: {why}" if why else wrong, hint)
                break
            found = found[key]


def _channels(workflow: WorkflowDeclaration) -> Iterator[Problem]:
    for name in workflow.channels if isinstance(workflow.channels, dict) else ():
        if name in CHANNELS:
            message = f"channel {name!r} is built in and cannot be declared"
            hint = f"every workflow has {', '.join(CHANNELS)}; choose another name"
            yield problem_at(workflow, ("channels", name), message, hint)


def _updates(task: TaskBase, state: Any) -> Iterator[Problem]:
    if isinstance(task.update, dict) and isinstance(state, Mapping):
        for name in task.update:
            if name not in state:
                message = f"{named(task, task.id)} updates unknown channel {name!r}"
                hint = f"{did_you_mean(name, state)}; declare it below channels:"
                yield problem_at(task, ("update", name), message, hint)


def _schema(task: WaitTask, schema: dict[str, Any]) -> Iterator[Problem]:
    """Find faults of a schema, and references to definitions that it does not contain."""
    for path, message in schema_faults(schema):
        place = ("answer_schema", *path)
        yield problem_at(task, place, f"schema is not a valid JSON Schema: {message}")
