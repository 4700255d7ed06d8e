"""Which templates may stand where: checked for all files before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import templates
from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.configuration.templates import (
    ANYTHING,
    SCOPES,
    LazyScope,
    MalformedTemplateError,
    TemplateError,
    UnsetVariableError,
    injected_variable,
    shown,
)
from lorebind_knowledge.declarations.base import Declaration, Path, within
from lorebind_knowledge.declarations.secrets import is_secret_path
from lorebind_knowledge.declarations.workflows import BasicTask, WorkflowDeclaration
from lorebind_knowledge.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lorebind_knowledge.configuration.environment import Environment
    from lorebind_knowledge.configuration.templates import Reference
    from lorebind_knowledge.declarations.agents import AgentDeclaration
    from lorebind_knowledge.declarations.project import ProjectDeclaration
    from lorebind_knowledge.declarations.workflows import TaskDeclaration
    from lorebind_knowledge.errors import Problem

_PROSE = ("description", "inject_as", "render")
"""Fields that are read by people only, and may show templates; and two that say of their own what
may be named in them."""
_HINT = (
    "templates are read in api_key, dsn, config, addresses and paths of sources, vars, "
    "prompt, query, history, input and outputs"
)


class _AnyVariable(LazyScope):
    """Stands for every variable: `unset_variables` checks which of them are set."""

    def __getitem__(self, name: str) -> Any:
        return ANYTHING


_VARIABLES: Mapping[str, Any] = {"env": _AnyVariable(), "secrets": _AnyVariable()}


def project_templates(declaration: Declaration) -> Iterator[Problem]:
    """What is wrong with the templates outside workflows, which know `env` and `secrets`."""
    for inner, _ in within(declaration):
        for field in type(inner).model_fields:
            yield from _field(inner, field, _VARIABLES)


def unset_variables(declaration: Declaration, environment: Environment) -> Iterator[Problem]:
    """The variables that templates of a declaration name, and that are not set here."""
    for inner, _ in within(declaration):
        for field in inner.templated:
            for path, text in texts(getattr(inner, field)):
                for reference in templates.mentions(text):
                    try:
                        templates.look_up(reference, environment.scopes())
                    except UnsetVariableError as error:
                        yield problem_at(inner, (field, *path), error.message, error.hint)
                    except TemplateError:
                        continue  # no variable; what is wrong with it is said of the template
                    except ConfigurationError as error:  # .env cannot be read
                        yield from error.problems


def injected_variables(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflow: WorkflowDeclaration,
) -> set[Reference]:
    """The variables by which the prompts of a workflow may place passages, see `inject_as`.

    More than any one of its tasks has in effect: which are, is known when bindings are resolved.
    """
    found: set[Reference] = set()
    for declaration in (project, workflow, *agents):
        for inner, _ in within(declaration):
            written = getattr(inner, "inject_as", None)
            if isinstance(written, str):
                found.add(injected_variable(written))
    return found - {()}


def workflow_templates(
    workflow: WorkflowDeclaration, injected: Collection[Reference] = ()
) -> Iterator[Problem]:
    """What is wrong with the templates of a workflow.

    They know what was declared: `workflow.input`, also as `input`, `workflow.vars`, and of the
    tasks those that come earlier. `vars` know the input only, `outputs` know all tasks, sources
    of knowledge bases know no task. Prompts also know the variables that passages are injected as.
    """
    # Of what cannot be read, anything may be named.
    readable = isinstance(workflow.input, dict)
    inputs = dict.fromkeys(workflow.input, ANYTHING) if readable else ANYTHING
    before = {**_VARIABLES, "input": inputs, "workflow": {"input": inputs}}
    running = {**before, "workflow": {"input": inputs, "vars": _placeholders(workflow.vars)}}
    by_task = {
        id(task): {**running, "tasks": _outputs(workflow.tasks[:index])}
        for index, task in enumerate(workflow.tasks)
    }
    after = {**running, "tasks": _outputs(workflow.tasks)}
    for inner, path in within(workflow):
        scopes = by_task.get(id(inner), running if path[:1] == ("knowledge_bases",) else after)
        for field in type(inner).model_fields:
            known = scopes
            if inner is workflow and field == "vars":
                known = before
            elif isinstance(inner, BasicTask) and field == "prompt":
                known = _with(scopes, injected)
            yield from _field(inner, field, known)


def _with(scopes: Mapping[str, Any], references: Collection[Reference]) -> dict[str, Any]:
    """The scopes and, beside what they hold, these names."""
    widened = dict(scopes)
    for name, *rest in sorted(references):
        held = widened.get(name, {}) if rest else ANYTHING
        below = held if isinstance(held, Mapping) else None
        widened[name] = _with(below, [tuple(rest)]) if rest and below is not None else held
    return widened


def _outputs(tasks: Sequence[TaskDeclaration]) -> Any:
    if all(isinstance(task.id, str) for task in tasks):
        return {task.id: {"output": ANYTHING} for task in tasks}
    return ANYTHING


def _field(declaration: Declaration, field: str, scopes: Mapping[str, Any]) -> Iterator[Problem]:
    templated = field in declaration.templated
    for path, text in texts(getattr(declaration, field)):
        if templated:
            for fault in templates.faults(text, scopes):
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


def texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """All texts of a field with their paths; declarations within it are looked at themselves."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, (*path, index))


def _placeholders(value: Any) -> Any:
    """The shape of `vars`: what a template makes of a text is known only when it runs."""
    if isinstance(value, dict):
        return {key: _placeholders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_placeholders(item) for item in value]
    return ANYTHING if isinstance(value, str) and "{{" in value else value
