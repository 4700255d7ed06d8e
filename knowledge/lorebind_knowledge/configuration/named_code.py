"""Classes and factories that declarations name: refused with their place, before they are called.

Validation imports nothing. It refuses what no project may name, whatever is installed: the standard
library, programs, what leads out of the folder. What a name stands for is judged when the part is
made, between its import and its first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.declarations.base import within
from lorebind_knowledge.declarations.values import CodePath
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.project_code import (
    RefusedCodeError,
    derives,
    described,
    files_of_project,
    has_method,
    import_of_project,
    is_factory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from lorebind_knowledge.configuration.environment import Environment
    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.errors import LorebindError, Problem


def code_named(declaration: Declaration) -> Iterator[tuple[str, CodePath]]:
    """The fields of a declaration that name code, each with its path; not those within others."""
    for field in type(declaration).model_fields:
        for path in _paths(getattr(declaration, field)):
            yield field, path


def code_problems(declaration: Declaration, root: Path) -> Iterator[Problem]:
    """What is wrong with the code that a declaration names, as far as no import tells."""
    for inner, _ in within(declaration):
        for field, path in code_named(inner):
            try:
                files_of_project(path, root)
            except RefusedCodeError as error:
                yield problem_at(inner, (field,), error.message, error.hint)


def named_class(
    declaration: Declaration,
    environment: Environment,
    expected: str,
    *kinds: type,
    methods: Collection[str] = (),
    failure: type[LorebindError] = UsageError,
) -> Callable[..., Any]:
    """The class that a declaration names, which may be called now.

    Args:
        declaration: it has a field `class_path`.
        environment: of the project.
        expected: what belongs there, for the message: `a class derived from …`.
        kinds: what the class may be derived from.
        methods: one of these, instead, makes it fit too.
        failure: what is raised for one that does not.

    Raises:
        UsageError: it cannot be imported.
    """
    found = _imported(declaration, environment)
    if derives(found, *kinds) or has_method(found, methods):
        made: Callable[..., Any] = found
        return made
    raise failure(_wrong(declaration, found, expected))


def named_factory(
    declaration: Declaration,
    environment: Environment,
    expected: str,
    *kinds: type,
    methods: Collection[str] = (),
    takes: Collection[str] = (),
    failure: type[LorebindError] = UsageError,
) -> Callable[..., Any]:
    """As `named_class`, or a function, see `is_factory`; what that makes is yet to be judged.

    Args:
        takes: the function has one of these parameters.
    """
    found = _imported(declaration, environment)
    if derives(found, *kinds) or has_method(found, methods) or is_factory(found, takes):
        made: Callable[..., Any] = found
        return made
    either = f"{expected}, or a function of the project folder or of an installed package"
    if takes:
        either += f" with a parameter {' or '.join(map(repr, takes))}"
    raise failure(_wrong(declaration, found, either))


def _imported(declaration: Declaration, environment: Environment) -> Any:
    try:
        return import_of_project(_path_of(declaration), environment.root)
    except UsageError as error:
        raise UsageError(f"{_subject(declaration)}: {error}") from error


def _wrong(declaration: Declaration, found: object, expected: str) -> str:
    path = _path_of(declaration)
    return f"{_subject(declaration)}: {path} is {described(found)}; expected {expected}"


def _subject(declaration: Declaration) -> str:
    """What messages begin with: where the class is named, if in a file, and what names it."""
    at = declaration.position("class_path")
    called = declaration.label
    if isinstance(name := getattr(declaration, "id", None), str):
        called += f" {name!r}"
    return f"{at}: {called}" if at.line else called


def _path_of(declaration: Declaration) -> str:
    path: str = declaration.class_path  # type: ignore[attr-defined]  # see `named_class`
    return path


def _paths(value: Any) -> Iterator[CodePath]:
    if isinstance(value, CodePath):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _paths(item)
