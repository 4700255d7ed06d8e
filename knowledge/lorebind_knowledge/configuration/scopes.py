"""Which templates may stand where: checked for all files before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import templates
from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.configuration.templates import (
    ANYTHING,
    SCOPES,
    MalformedTemplateError,
    shown,
)
from lorebind_knowledge.declarations.base import Declaration, Path, within
from lorebind_knowledge.declarations.secrets import is_secret_path
from lorebind_knowledge.declarations.workflows import BasicTask, WorkflowDeclaration
from lorebind_knowledge.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_knowledge.configuration.environment import Environment
    from lorebind_knowledge.errors import Problem

_PROSE = ("description",)
"""Fields that are read by people only, and may show templates."""
_HINT = "templates are read in api_key, config, vars, prompt, query and outputs"


def project_templates(declaration: Declaration, environment: Environment) -> Iterator[Problem]:
    """What is wrong with the templates outside workflows, which know `env` and `secrets`."""
    scopes = environment.scopes()
    for inner, _ in within(declaration):
        for field in type(inner).model_fields:
            yield from _field(inner, field, scopes)


def workflow_templates(
    workflow: WorkflowDeclaration, environment: Environment
) -> Iterator[Problem]:
    """What is wrong with the templates of a workflow.

    They know what was declared: `workflow.input`, also as `input`, `workflow.vars`, and of the
    tasks those that come earlier. `vars` know the input only, `outputs` know all tasks.
    """
    # Of what cannot be read, anything may be named.
    readable = isinstance(workflow.input, dict)
    inputs = dict.fromkeys(workflow.input, ANYTHING) if readable else ANYTHING
    variables: Mapping[str, Any] = environment.scopes()
    before = {**variables, "input": inputs, "workflow": {"input": inputs}}
    running = {**before, "workflow": {"input": inputs, "vars": _placeholders(workflow.vars)}}
    by_task = {
        id(task): {**running, "tasks": _outputs(workflow.tasks[:index])}
        for index, task in enumerate(workflow.tasks)
    }
    after = {**running, "tasks": _outputs(workflow.tasks)}
    for inner, _ in within(workflow):
        scopes = by_task[id(inner)] if isinstance(inner, BasicTask) else after
        for field in type(inner).model_fields:
            at_start = inner is workflow and field == "vars"
            yield from _field(inner, field, before if at_start else scopes)


def _outputs(tasks: Sequence[BasicTask]) -> Any:
    if all(isinstance(task.id, str) for task in tasks):
        return {task.id: {"output": ANYTHING} for task in tasks}
    return ANYTHING


def _field(declaration: Declaration, field: str, scopes: Mapping[str, Any]) -> Iterator[Problem]:
    templated = field in declaration.templated
    for path, text in _texts(getattr(declaration, field)):
        if templated:
            try:
                faults = templates.faults(text, scopes)
            except ConfigurationError as error:  # .env cannot be read
                yield from error.problems
                continue
            for fault in faults:
                # A malformed template quotes what was written, and that may be a secret.
                quotes = isinstance(fault, MalformedTemplateError) and is_secret_path(
                    (field, *path)
                )
                message = f"{field} holds a malformed template" if quotes else fault.message
                yield problem_at(declaration, (field, *path), message, fault.hint)
        elif field not in _PROSE:
            for reference in templates.mentions(text):
                if reference[0] in SCOPES:
                    message = f"{field} is not a template: {shown(reference)} would stay as it is"
                    yield problem_at(declaration, (field, *path), message, _HINT)


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """All texts of a field with their paths; declarations within it are looked at themselves."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))


def _placeholders(value: Any) -> Any:
    """The shape of `vars`: what a template makes of a text is known only when it runs."""
    if isinstance(value, dict):
        return {key: _placeholders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_placeholders(item) for item in value]
    return ANYTHING if isinstance(value, str) and "{{" in value else value
