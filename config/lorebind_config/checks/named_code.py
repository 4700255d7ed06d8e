"""Classes and factories that declarations name, checked before they are called.

Validation imports nothing. It refuses names that no project may use, whatever is installed: the
standard library, programs, and paths that lead out of the project folder. The object behind a name
is checked when the part is created, after its import and before its first call.
"""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from lorebind_config.declarations.base import Declaration, leaves, within
from lorebind_config.declarations.base import Path as Place
from lorebind_config.declarations.objects import LiveObject
from lorebind_config.declarations.values import CodePath
from lorebind_config.errors import LorebindError, Problem, UsageError
from lorebind_config.namespace import digest
from lorebind_config.project_code import (
    derives,
    described,
    files_of_project,
    has_method,
    import_of_project,
    is_class_of_others,
    is_factory,
    modules_of_project,
)
from lorebind_config.project_modules import RefusedCodeError, loaded_modules
from lorebind_config.templates import Environment

_CLASS: Place = ("class_path",)


def code_named(declaration: Declaration) -> Iterator[tuple[Place, CodePath]]:
    """Yield the location and path of the code a declaration names, without nested declarations."""
    for field in type(declaration).model_fields:
        for place, value in leaves(getattr(declaration, field), (field,)):
            if isinstance(value, CodePath):
                yield place, value


def code_problems(declaration: Declaration, root: Path) -> Iterator[Problem]:
    """Find the problems of the code that a declaration names, without importing it."""
    for inner, _ in within(declaration):
        for place, path in code_named(inner):
            try:
                files_of_project(path, root)
            except RefusedCodeError as error:
                yield inner.problem(place, error.message, error.hint)


def named_class(
    declaration: Declaration,
    environment: Environment,
    expected: str,
    *kinds: type,
    methods: Collection[str] = (),
    failure: type[LorebindError] = UsageError,
) -> Callable[..., Any]:
    """Return the class that a declaration names, which is safe to call.

    If the declaration holds an object instead, return a function that returns this object; see
    `live`.

    Args:
        declaration: A declaration with a field `class_path`.
        environment: Environment of the project.
        expected: Description of a valid class for the message: `a class derived from …`.
        kinds: Classes that the class may derive from.
        methods: Methods, one of which is enough for a class that derives from none of these.
        failure: Exception to raise for any other class.

    Raises:
        UsageError: The class cannot be imported.
    """
    held: Any = getattr(declaration, str(_CLASS[0]))
    if isinstance(held, LiveObject):
        if isinstance(held.object, kinds) or has_method(type(held.object), methods):
            return partial(_held, held.object)
        code = type(held.object)
        raise failure(f"{declaration.label}: got {described(code)}; expected {expected}")
    code = _imported(declaration, environment, _CLASS)
    if derives(code, *kinds) or has_method(code, methods):
        return cast("Callable[..., Any]", code)
    raise failure(_wrong(declaration, _CLASS, code, expected))


def _held(held: Any, **settings: Any) -> Any:
    if settings:
        raise TypeError(f"an object that already exists accepts no settings: {', '.join(settings)}")
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
    """Return a class as `named_class` does, or a function; see `is_factory`.

    The result of the function is not checked here.

    Args:
        takes: Names of parameters, one of which the function must have.
        place: Field that names the class or function.
    """
    code = _imported(declaration, environment, place)
    if derives(code, *kinds) or has_method(code, methods) or is_factory(code, takes):
        return cast("Callable[..., Any]", code)
    either = f"{expected}, or a function from the project folder or an installed package"
    if takes:
        either += f" with a parameter {' or '.join(map(repr, takes))}"
    raise failure(_wrong(declaration, place, code, either))


def named_part(
    declaration: Declaration,
    environment: Environment,
    place: Place,
    failure: type[LorebindError] = UsageError,
) -> Callable[..., Any]:
    """Return the class or function that a declaration names to create an argument."""
    code = _imported(declaration, environment, place)
    if is_class_of_others(code) or is_factory(code):
        return cast("Callable[..., Any]", code)
    expected = "a class or a function from the project folder or an installed package"
    raise failure(_wrong(declaration, place, code, expected))


def named_object(
    declaration: Declaration,
    environment: Environment,
    place: Place,
    expected: str,
    *kinds: type,
    failure: type[LorebindError] = UsageError,
) -> Any:
    """Return the instance of one of these classes that a declaration names, or a function.

    See `is_factory` for the functions. If the declaration holds an object instead, it is returned.

    Args:
        declaration: Declaration with the field at `place`.
        environment: Environment of the project.
        place: Field that names the object.
        expected: Description of a valid object for the message.
        kinds: The classes.
        failure: Exception to raise for anything else.

    Raises:
        UsageError: The object cannot be imported.
    """
    value = getattr(declaration, str(place[0]))
    is_held = isinstance(value, LiveObject)
    code = value.object if is_held else _imported(declaration, environment, place)
    if derives(type(code), *kinds) or is_factory(code):
        return code
    if is_held:
        raise failure(f"{declaration.label}: got {described(code)}; expected {expected}")
    raise failure(_wrong(declaration, place, code, expected))


def _imported(declaration: Declaration, environment: Environment, place: Place) -> Any:
    try:
        return import_of_project(_path_at(declaration, place), environment.root)
    except UsageError as error:
        raise UsageError(f"{_subject(declaration, place)}: {error}") from error


def _wrong(declaration: Declaration, place: Place, code: object, expected: str) -> str:
    subject, path = _subject(declaration, place), _path_at(declaration, place)
    return f"{subject}: {path} is {described(code)}; expected {expected}"


def _subject(declaration: Declaration, place: Place) -> str:
    """Return the start of a message: the position, if in a file, and the declaration's name."""
    at = declaration.position(*place)
    called = declaration.label
    if isinstance(name := getattr(declaration, "id", None), str):
        called += f" {name!r}"
    return f"{at}: {called}" if at.line else called


def _path_at(declaration: Declaration, place: Place) -> CodePath:
    return dict(code_named(declaration))[place]


def code_version(path: str, function: FunctionType, root: Path) -> str:
    """Return the version of a function that was imported from a path, as `module:function`.

    For a module of the project, it is a digest of this module and of those that it imports
    relatively: of the bytes that were imported, even if the files have changed since. For an
    installed package, it is a digest of the module that defines the function.

    Args:
        path: the path, as declared.
        function: the imported function.
        root: the project folder.

    Raises:
        UsageError: a file of the project cannot be read.
    """
    root = root.resolve()
    if modules := modules_of_project(path, root, loaded_modules(root)):
        digests = (digest(name, module.source) for name, module in sorted(modules.items()))
        return digest(*digests)
    module: Any = inspect.getmodule(function)
    for code in filter(None, (module, function)):
        try:
            return digest(inspect.getsource(code))
        except (OSError, TypeError):  # defined in a notebook or a shell
            continue
    return digest(marshal.dumps(function.__code__, 2))  # later formats depend on references to it
