"""Which templates may stand where: checked for all files before anything runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import templates
from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.configuration.task_names import Names, standings, widened
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
from lorebind_knowledge.declarations.base import Declaration, Path, within, written_names
from lorebind_knowledge.declarations.secrets import is_secret_path
from lorebind_knowledge.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lorebind_knowledge.configuration.environment import Environment
    from lorebind_knowledge.configuration.templates import Reference
    from lorebind_knowledge.declarations.agents import AgentDeclaration
    from lorebind_knowledge.declarations.project import ProjectDeclaration
    from lorebind_knowledge.declarations.workflows import WorkflowDeclaration
    from lorebind_knowledge.errors import Problem

_PROSE = ("description", "inject_as", "render")
"""Fields that are read by people only, and may show templates; and two that say of their own what
may be named in them."""
_HINT = (
    "templates are read in api_key, dsn, config, addresses and paths of sources, vars, "
    "prompt, query, history, input, items, with, update and outputs"
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

    They know what was declared: `workflow.input`, also as `input`, `workflow.vars`, channels, and
    the tasks that can come before. `vars` know the input only, `outputs` know all tasks of the
    first level, sources of knowledge bases know no task. Prompts also know the variables that
    passages are injected as, and so do all templates after one.
    """
    names = Names(workflow, injected)
    stands = {id(standing.task): standing for standing in standings(workflow)}
    for inner, path in within(workflow):
        standing = stands.get(id(inner))
        task = standing.task if standing is not None else None
        if standing is not None:
            usual = names.of(standing)
        elif path[:1] == ("checkpointer",):
            usual = {}
        else:
            usual = names.running if path[:1] == ("knowledge_bases",) else names.outputs
        for field in type(inner).model_fields:
            known = {**_VARIABLES, **usual}
            if inner is workflow and field == "vars":
                known = {**_VARIABLES, **names.before_vars}
            elif task is not None and field == "prompt":
                known = widened(known, injected)
            elif task is not None and field == "update":
                known = widened(known, [*names.injected, ("output",)])
            yield from _field(inner, field, known, partial(names.why, scopes=known, by=task))


def _field(
    declaration: Declaration,
    field: str,
    scopes: Mapping[str, Any],
    why: Callable[[Reference], tuple[str, str] | None] = lambda _: None,
) -> Iterator[Problem]:
    templated = field in declaration.templated
    for path, text in texts(getattr(declaration, field)):
        if templated:
            for message, hint in _faults(text, scopes, why, (field, *path)):
                yield problem_at(declaration, (field, *path), message, hint)
        elif field not in _PROSE and field not in declaration.expressions:
            for reference in templates.mentions(text):
                if reference[0] in SCOPES:
                    key = written_names(field, type(declaration).model_fields[field])[0]
                    message = f"{key} is not a template: {shown(reference)} would stay as it is"
                    yield problem_at(declaration, (field, *path), message, _HINT)


def _faults(
    text: str,
    scopes: Mapping[str, Any],
    why: Callable[[Reference], tuple[str, str] | None],
    place: Path,
) -> Iterator[tuple[str, str]]:
    """All that `fill` would raise for a text, as message and hint."""
    try:
        references = templates.references(text)
    except MalformedTemplateError as error:
        # It quotes what was written, and that may be a secret.
        quotes = is_secret_path(place)
        yield f"{place[0]} holds a malformed template" if quotes else error.message, error.hint
        return
    for reference in references:
        try:
            templates.look_up(reference, scopes)
        except TemplateError as error:
            message, hint = why(reference) or ("", "")
            undefined = f"{shown(reference)} is not defined: {message}"
            yield (undefined, hint) if message else (error.message, error.hint)


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
