"""Code that a project names: where it is found, and what it must be.

A path is `package.module:Name`, or `package.module:Class.method` for what makes a part.

A module is looked for in the project's folder, then among what is installed; never in the current
folder, nor in Python's standard library, whose functions run commands and none of whose classes is
a part of Lorebind. What a name stands for is judged before it is called.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import inspect
import os
import sys
import types
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_PROJECTS = "_lorebind_project_"
"""The packages that stand for project folders begin so, and end with a mark of the folder."""

_MOST_NAMES = 2
"""After the colon: a class and its method."""
_OURS = frozenset({"lorebind", "lorebind_bindings", "lorebind_knowledge", "lorebind_prompts"})

# What a metaclass says of its classes may be anything; these are what Python itself goes by.
_bases_of = type.__dict__["__mro__"].__get__
_names_in = type.__dict__["__dict__"].__get__
_name_of = type.__dict__["__name__"].__get__


class RefusedCodeError(UsageError):
    """A path that cannot name code of a project, whatever is installed."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}; {hint}" if hint else message)


def files_of_project(path: str, root: Path) -> list[Path]:
    """The files below a project folder that importing a path runs first: packages, then the module.

    Nothing is imported. The list is empty where the folder has no such module, and an installed
    package has to.

    Raises:
        RefusedCodeError: the path has another form, leads out of the folder, or is a program's or
            of the standard library.
    """
    module, _, attribute = path.partition(":")
    steps, names = module.split("."), attribute.split(".")
    well_formed = len(names) <= _MOST_NAMES and all(map(str.isidentifier, [*steps, *names]))
    if not well_formed or module.startswith(_PROJECTS):
        raise RefusedCodeError(
            f"{path!r} is not of the form 'package.module:Class' or 'package.module:Class.method'"
        )
    if "__main__" in steps[1:]:
        raise RefusedCodeError(f"{path!r} is a program, which importing it would run")
    inside = root.resolve()
    packages = [inside.joinpath(*steps[:depth], "__init__.py") for depth in range(1, len(steps))]
    own = inside.joinpath(*steps)
    last = next((one for one in (own.with_suffix(".py"), own / "__init__.py") if _there(one)), None)
    if last is None:
        if steps[0] in sys.stdlib_module_names:
            raise RefusedCodeError(
                f"{path!r} is in Python's standard library, which is not allowed here",
                "write a class or function in the project folder that uses it",
            )
        return []
    files = [*filter(_there, packages), last]
    for file in files:
        if not file.resolve().is_relative_to(inside):
            raise RefusedCodeError(f"{path!r} leads out of the project folder, to {file.resolve()}")
    return files


def import_of_project(path: str, root: Path) -> Any:
    """The object that `package.module:Name` names, in a project's folder or else installed.

    `package.module:Class.method` names a class method or a static method.

    A module of the project is known under a name of its own, so that two projects may each have
    one of the same name and neither hides a library. It imports its neighbours relatively:
    `from .helpers import …`.

    Raises:
        UsageError: as for `files_of_project`, or the module or the name is not there; a file of
            the project that fails is named.
    """
    files = files_of_project(path, root)
    module_name, _, attribute = path.partition(":")
    own = _package_of(root.resolve()) if files else ""
    if not files:
        _refuse_current_folder(path)
    try:
        module = importlib.import_module(f"{own}.{module_name}" if own else module_name)
    except (Exception, SystemExit) as error:  # whatever a module raises when it is imported
        missing = isinstance(error, ModuleNotFoundError) and not files
        where = f" from {files[-1].relative_to(root.resolve())}" if files else ""
        said = str(error) if missing else f"{type(error).__name__}: {error}"
        hint = f"; put {_file_name(module_name)} into the project folder, or install its package"
        raise UsageError(
            f"{path!r} cannot be imported{where}: {said}{hint if missing else ''}"
        ) from error
    name, _, method = attribute.partition(".")
    try:
        found = getattr(module, name)
    except AttributeError as error:
        known = [one for one in vars(module) if not one.startswith("_")]
        hint = f"; {did_you_mean(name, known)}" if files else ""
        raise UsageError(f"module {module_name!r} has no {name!r}{hint}") from error
    except Exception as error:  # whatever a module does that makes its names when asked for them
        raise UsageError(f"{path!r} cannot be imported: {type(error).__name__}: {error}") from error
    return _method_of(found, method, path) if method else found


def derives(found: object, *kinds: type) -> bool:
    """Whether an object is a class, and derived from one of these. Runs nothing of the class."""
    return _is_class(found) and any(base is kind for base in _bases_of(found) for kind in kinds)


def has_method(found: object, names: Collection[str]) -> bool:
    """Whether an object is a class that defines or inherits one of these methods."""
    return _is_class(found) and any(
        name in _names_in(base) for base in _bases_of(found) for name in names
    )


def is_factory(found: object, takes: Collection[str] = ()) -> bool:
    """Whether an object is a function, or a method of a class, that may make a part.

    What it makes is known only when it was called. So it is one that was written for a project or
    a package, in Python and outside of the standard library and of Lorebind; and where `takes`
    says how it will be called, it has one of these parameters.
    """
    function = _function_of(found)
    if type(function) is not types.FunctionType or not _is_of_others(function.__module__):
        return False
    return not takes or any(name in inspect.signature(function).parameters for name in takes)


def is_class_of_others(found: object) -> bool:
    """Whether an object is a class from outside of the standard library and of Lorebind."""
    return _is_class(found) and _is_of_others(_names_in(found).get("__module__"))


def described(found: object) -> str:
    """What an object is, for messages: `a builtin_function_or_method`, `the class Path`."""
    if _is_class(found):
        return f"the class {_name_of(found)}"
    if isinstance(function := _function_of(found), types.FunctionType):
        return f"a function of {function.__module__}"
    return f"a {_name_of(type(found))}"


def _method_of(found: object, name: str, path: str) -> object:
    """A class method or static method, looked up without running anything of the class.

    Raises:
        UsageError: it is neither.
    """
    bases = _bases_of(found) if _is_class(found) else ()
    method = next((_names_in(base)[name] for base in bases if name in _names_in(base)), None)
    if type(method) is classmethod:
        return types.MethodType(method.__func__, found)
    if type(method) is staticmethod:
        return method.__func__
    raise UsageError(
        f"{path!r} cannot be imported: {described(found)} has no class method or static method "
        f"{name!r}"
    )


def _function_of(found: object) -> object:
    """The function of a class method, and any other object as it is."""
    if type(found) is types.MethodType and _is_class(found.__self__):
        return found.__func__
    return found


def _is_of_others(module: object) -> bool:
    """Whether a module is neither of the standard library nor of Lorebind."""
    home = str(module).partition(".")[0]
    return home not in sys.stdlib_module_names and home not in _OURS


def _is_class(found: object) -> bool:
    return issubclass(type(found), type)  # isinstance would believe what `__class__` says


def _there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # the name is longer than any file's
        return False


def _package_of(folder: Path) -> str:
    """The package that stands for a project folder."""
    name = f"{_PROJECTS}{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules.setdefault(name, package)
    return name


def _refuse_current_folder(path: str) -> None:
    """Refuse what Python would find only because it looks into the current folder.

    `python -c`, notebooks and an empty part of PYTHONPATH have it do so; then the same project
    would name other code wherever it is loaded. What the program has imported itself is known.

    Raises:
        UsageError: the module is there.
    """
    name = path.partition(":")[0].partition(".")[0]
    relative = [entry for entry in sys.path if not os.path.isabs(entry)]
    if name in sys.modules or not relative:
        return
    find = importlib.machinery.PathFinder.find_spec
    here = find(name, relative)
    elsewhere = find(name, [entry for entry in sys.path if os.path.isabs(entry)])
    if here is None or (here.origin is None and elsewhere is not None):
        return
    raise UsageError(
        f"{path!r} would be imported from the current folder, which is not where code of a project "
        "is looked for; put it into the project folder, or install its package"
    )


def _file_name(module: str) -> str:
    return f"{module.replace('.', '/')}.py"
