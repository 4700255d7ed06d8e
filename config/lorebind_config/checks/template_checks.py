"""Checks the templates of all files: each must be in a field that takes templates, and valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path as FilePath
from typing import Any

from lorebind_config import templates
from lorebind_config.checks.task_names import Names, task_scopes, widened
from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import (
    Declaration,
    Path,
    RefusedError,
    leaves,
    within,
    written_names,
)
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.project import ProjectDeclaration
from lorebind_config.declarations.rendering import check_passage_template, is_file
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import ConfigurationError, MissingVariableError, Problem, UsageError
from lorebind_config.project_files import OutsideError, open_inside
from lorebind_config.redaction import is_secret_path
from lorebind_config.templates import (
    ANYTHING,
    SCOPES,
    Environment,
    LazyScope,
    MalformedTemplateError,
    Reference,
    TemplateError,
    UnsetVariableError,
    as_template,
    injected_variable,
)

_PROSE = ("description", "inject_as", "render")
"""Fields that only people read, which may show templates, and two fields that check the names in
their templates themselves."""
_HINT = (
    "templates can be used in api_key, dsn, config, addresses and paths of sources, vars, "
    "prompt, query, history, input, items, with, update and outputs"
)


class _AnyVariable(LazyScope):
    """Defines every variable, because `unset_variables` checks which ones are set."""

    def __getitem__(self, name: str) -> Any:
        return ANYTHING


_VARIABLES: Mapping[str, Any] = {"env": _AnyVariable(), "secrets": _AnyVariable()}


def project_templates(declaration: Declaration) -> Iterator[Problem]:
    """Find the problems of templates outside workflows, which may use `env` and `secrets`."""
    for inner, _ in within(declaration):
        for field in type(inner).model_fields:
            yield from _field(inner, field, _VARIABLES)


def unset_variables(declaration: Declaration, environment: Environment) -> Iterator[Problem]:
    """Find the variables that the templates of a declaration use but that are not set."""
    for inner, _ in within(declaration):
        for field in inner.templated:
            for path, text in texts(getattr(inner, field)):
                for reference in templates.mentions(text):
                    try:
                        templates.look_up(reference, environment.scopes())
                    except UnsetVariableError as error:
                        yield inner.problem((field, *path), error.message, error.hint)
                    except TemplateError:
                        continue  # not a variable; the checks of templates report it
                    except ConfigurationError as error:  # .env cannot be read
                        yield from error.problems


def refuse_unset(declaration: Declaration, environment: Environment, part: str = "") -> None:
    """Check that all variables that a part needs are set, before the part is made.

    Args:
        declaration: The declaration of the part.
        environment: The environment of the project.
        part: The name of the part in the message; by default its label with its id or kind.

    Raises:
        MissingVariableError: Some are not set. Each problem names the part, and the position of
            the template.
    """
    if missing := list(unset_variables(declaration, environment)):
        name = getattr(declaration, "id", None) or getattr(declaration, declaration.kind_key, None)
        part = part or declaration.label + (f" {name!r}" if name else "")
        problems = [replace(problem, message=f"{part}: {problem.message}") for problem in missing]
        raise MissingVariableError(problems)


def injected_variables(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflow: WorkflowDeclaration,
) -> set[Reference]:
    """Return the variables that prompts of a workflow may use for passages; see `inject_as`.

    A single task may have fewer of them, but that is known only when its bindings are resolved.
    """
    variables: set[Reference] = set()
    for declaration in (project, workflow, *agents):
        for inner, _ in within(declaration):
            written = getattr(inner, "inject_as", None)
            if isinstance(written, str):
                variables.add(injected_variable(written))
    return variables - {()}


def workflow_templates(
    workflow: WorkflowDeclaration, injected: Collection[Reference] = ()
) -> Iterator[Problem]:
    """Find the problems of the templates of a workflow.

    Templates may use what is declared: `workflow.input` (also as `input`), `workflow.vars`,
    channels, and the tasks that can run before. `vars` may use the input only. `outputs` may use
    all tasks of the first level. Sources of knowledge bases may not use tasks. Prompts, and all
    templates of later tasks, may also use the variables that passages are injected as.
    """
    names = Names(workflow, injected)
    stands = {id(scope.task): scope for scope in task_scopes(workflow.tasks)}
    for inner, path in within(workflow):
        scope = stands.get(id(inner))
        task = scope.task if scope is not None else None
        if scope is not None:
            usual = names.of(scope)
        elif path[:1] == ("checkpointer",):
            usual = {}
        else:
            usual = names.running if path[:1] == ("knowledge_bases",) else names.outputs
        for field in type(inner).model_fields:
            scopes = {**_VARIABLES, **usual}
            if inner is workflow and field == "vars":
                scopes = {**_VARIABLES, **names.before_vars}
            elif task is not None and field == "prompt":
                scopes = widened(scopes, injected)
            elif task is not None and field == "update":
                scopes = widened(scopes, [*names.injected, ("output",)])
            yield from _field(inner, field, scopes, partial(names.why, scopes=scopes, by=task))


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
                yield declaration.problem((field, *path), message, hint)
        elif field not in _PROSE and field not in declaration.expressions:
            for reference in templates.mentions(text):
                if reference[0] in SCOPES:
                    key = written_names(field, type(declaration).model_fields[field])[0]
                    message = (
                        f"{key} takes no templates: {as_template(reference)} would stay as written"
                    )
                    yield declaration.problem((field, *path), message, _HINT)


def _faults(
    text: str,
    scopes: Mapping[str, Any],
    why: Callable[[Reference], tuple[str, str] | None],
    place: Path,
) -> Iterator[tuple[str, str]]:
    """Yield the message and the hint of each error that `fill` would raise for a text."""
    try:
        references = templates.references(text)
    except MalformedTemplateError as error:
        # The error quotes the text, which may be a secret.
        quotes = is_secret_path(place)
        yield f"{place[0]} contains a malformed template" if quotes else error.message, error.hint
        return
    for reference in references:
        try:
            templates.look_up(reference, scopes)
        except TemplateError as error:
            message, hint = why(reference) or ("", "")
            undefined = f"{as_template(reference)} is not defined: {message}"
            yield (undefined, hint) if message else (error.message, error.hint)


def texts(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield all strings of a field with their paths, without those of nested declarations."""
    return ((at, item) for at, item in leaves(value) if isinstance(item, str))


def run_references(declaration: KnowledgeBaseDeclaration) -> list[templates.Reference]:
    """Return the references in its sources whose values only a run of its workflow knows."""
    return [
        reference
        for _, text in texts([source.model_dump() for source in declaration.sources])
        for reference in templates.mentions(text)
        if reference[0] in ("workflow", "input")
    ]


def run_values(declaration: KnowledgeBaseDeclaration, variables: Mapping[str, Any]) -> str | None:
    """Return the values of these references in a run, as JSON; None if there are no references.

    Args:
        declaration: The knowledge base.
        given: The values of `{{ .workflow.… }}`: `input` and `vars`.
    """
    scopes = {"workflow": variables, "input": variables.get("input", {})}
    values: dict[str, Any] = {}
    for reference in run_references(declaration):
        with suppress(templates.TemplateError):  # the source itself reports it
            values[".".join(reference)] = templates.look_up(reference, scopes)
    return json.dumps(values, sort_keys=True, default=str) if values else None


_LONGEST = 64 * 1024


def passage_templates(declaration: Declaration, root: FilePath) -> Iterator[Problem]:
    """Find the problems of the `render` files of a declaration and of those nested in it."""
    for inner, _ in within(declaration):
        render = getattr(inner, "render", None)
        if isinstance(render, str) and is_file(render):
            try:
                read_passage_template(root, render)
            except UsageError as error:
                yield inner.problem(("render",), str(error))


def read_passage_template(root: FilePath, name: str) -> str:
    """Return the template in a file of the project folder.

    Raises:
        UsageError: The file does not exist, is outside of the folder, or is not a valid passage
            template.
    """
    try:
        with TextIOWrapper(open_inside(root, name), encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise UsageError(
                f"{name!r} is too long for a template; expected at most {_LONGEST} characters"
            )
        check_passage_template(text)
    except OutsideError:
        raise UsageError(f"{name!r} leads out of the project folder") from None
    except (FileNotFoundError, IsADirectoryError):
        raise UsageError(f"there is no file {name!r}") from None
    except (OSError, UnicodeDecodeError, RefusedError) as error:
        raise UsageError(f"{name!r}: {error}") from None
    except ValueError:  # not a possible file name
        raise UsageError(f"there is no file {name!r}") from None
    return text
