"""Classes and factories that declarations name: refused with their place, before they are called.

Validation imports nothing. It refuses what no project may name, whatever is installed: the standard
library, programs, what leads out of the folder. What a name stands for is judged when the part is
made, between its import and its first call.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.declarations.base import within
from lorebind_knowledge.declarations.live import LiveObject
from lorebind_knowledge.declarations.values import CodePath
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.project_code import (
    RefusedCodeError,
    derives,
    described,
    files_of_project,
    has_method,
    import_of_project,
    is_class_of_others,
    is_factory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from lorebind_knowledge.configuration.environment import Environment
    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.declarations.base import Path as Place
    from lorebind_knowledge.errors import LorebindError, Problem

_CLASS: Place = ("class_path",)


def code_named(declaration: Declaration) -> Iterator[tuple[Place, CodePath]]:
    """Where a declaration names code, by its fields, and which; not what those within it name."""
    for field in type(declaration).model_fields:
        yield from _paths(getattr(declaration, field), (field,))


def code_problems(declaration: Declaration, root: Path) -> Iterator[Problem]:
    """What is wrong with the code that a declaration names, as far as no import tells."""
    for inner, _ in within(declaration):
        for place, path in code_named(inner):
            try:
                files_of_project(path, root)
            except RefusedCodeError as error:
                yield problem_at(inner, place, error.message, error.hint)


def named_class(
    declaration: Declaration,
    environment: Environment,
    expected: str,
    *kinds: type,
    methods: Collection[str] = (),
    failure: type[LorebindError] = UsageError,
) -> Callable[..., Any]:
    """The class that a declaration names, which may be called now.

    Where the declaration holds an object instead, it is what gives that object; see `live`.

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
    given: Any = getattr(declaration, str(_CLASS[0]))
    if isinstance(given, LiveObject):
        if isinstance(given.object, kinds) or has_method(type(given.object), methods):
            return partial(_held, given.object)
        found = type(given.object)
        raise failure(f"{declaration.label}: got {described(found)}; expected {expected}")
    found = _imported(declaration, environment, _CLASS)
    if derives(found, *kinds) or has_method(found, methods):
        made: Callable[..., Any] = found
        return made
    raise failure(_wrong(declaration, _CLASS, found, expected))


def _held(held: Any, **settings: Any) -> Any:
    if settings:
        raise TypeError(f"an object takes no settings any more: {', '.join(settings)}")
    return held


def named_factory(
    declaration: Declaration,
    environment: Environment,
    expected: str,
    *kinds: type,
    methods: Collection[str] = (),
    takes: Collection[str] = (),
    failure: type[LorebindError] = UsageError,
    place: Place = _CLASS,
) -> Callable[..., Any]:
    """As `named_class`, or a function, see `is_factory`; what that makes is yet to be judged.

    Args:
        takes: the function has one of these parameters.
        place: where the declaration names it.
    """
    found = _imported(declaration, environment, place)
    if derives(found, *kinds) or has_method(found, methods) or is_factory(found, takes):
        made: Callable[..., Any] = found
        return made
    either = f"{expected}, or a function of the project folder or of an installed package"
    if takes:
        either += f" with a parameter {' or '.join(map(repr, takes))}"
    raise failure(_wrong(declaration, place, found, either))


def named_part(
    declaration: Declaration,
    environment: Environment,
    place: Place,
    failure: type[LorebindError] = UsageError,
) -> Callable[..., Any]:
    """The class or function that a declaration names to make an argument, see `is_factory`."""
    found = _imported(declaration, environment, place)
    if is_class_of_others(found) or is_factory(found):
        made: Callable[..., Any] = found
        return made
    expected = "a class or a function of the project folder or of an installed package"
    raise failure(_wrong(declaration, place, found, expected))


def named_object(
    declaration: Declaration,
    environment: Environment,
    place: Place,
    expected: str,
    *kinds: type,
    failure: type[LorebindError] = UsageError,
) -> Any:
    """The object of one of these classes that a declaration names, or function, see `is_factory`.

    Where the declaration holds an object instead, it is that.

    Args:
        declaration: what names it.
        environment: of the project.
        place: where the declaration names it.
        expected: what belongs there, for the message.
        kinds: the classes.
        failure: what is raised for anything else.

    Raises:
        UsageError: it cannot be imported.
    """
    given = getattr(declaration, str(place[0]))
    is_held = isinstance(given, LiveObject)
    found = given.object if is_held else _imported(declaration, environment, place)
    if derives(type(found), *kinds) or is_factory(found):
        return found
    if is_held:
        raise failure(f"{declaration.label}: got {described(found)}; expected {expected}")
    raise failure(_wrong(declaration, place, found, expected))


def _imported(declaration: Declaration, environment: Environment, place: Place) -> Any:
    try:
        return import_of_project(_path_at(declaration, place), environment.root)
    except UsageError as error:
        raise UsageError(f"{_subject(declaration, place)}: {error}") from error


def _wrong(declaration: Declaration, place: Place, found: object, expected: str) -> str:
    subject, path = _subject(declaration, place), _path_at(declaration, place)
    return f"{subject}: {path} is {described(found)}; expected {expected}"


def _subject(declaration: Declaration, place: Place) -> str:
    """What messages begin with: where the code is named, if in a file, and what names it."""
    at = declaration.position(*place)
    called = declaration.label
    if isinstance(name := getattr(declaration, "id", None), str):
        called += f" {name!r}"
    return f"{at}: {called}" if at.line else called


def _path_at(declaration: Declaration, place: Place) -> CodePath:
    return dict(code_named(declaration))[place]


def _paths(value: Any, place: Place) -> Iterator[tuple[Place, CodePath]]:
    if isinstance(value, CodePath):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*place, index))
