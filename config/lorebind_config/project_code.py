"""Code that a project names: where Lorebind looks for it, and what it accepts.

A path is `package.module:Name`, or `package.module:Class.method` for a factory.

Modules are looked up in the project folder, then among installed packages. They are never looked up
in the current folder, nor in Python's standard library: some of its functions run commands, and
none of its classes fits into Lorebind. The named object is checked before it is called.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import inspect
import os
import sys
import types
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.project_modules import (
    PACKAGES,
    Module,
    RefusedCodeError,
    is_allowed,
    locate,
    package_of,
    read_modules,
)

_MOST_NAMES = 2
"""The names after the colon: a class and its method."""
_OURS = frozenset(
    {"lorebind", "lorebind_bindings", "lorebind_config", "lorebind_knowledge", "lorebind_prompts"}
)

# A metaclass can override what its classes report; these descriptors are what Python itself uses.
_bases_of = type.__dict__["__mro__"].__get__
_names_in = type.__dict__["__dict__"].__get__
_name_of = type.__dict__["__name__"].__get__


def files_of_project(path: str, root: Path) -> list[Path]:
    """Return the files of a project that importing a path runs: packages first, then the module.

    Nothing is imported. The list is empty if the folder has no such module; then an installed
    package must have it.

    Raises:
        RefusedCodeError: the path is malformed, leads out of the folder, or names a program or a
            module of the standard library.
    """
    module, _, attribute = path.partition(":")
    steps, names = module.split("."), attribute.split(".")
    well_formed = len(names) <= _MOST_NAMES and all(map(str.isidentifier, [*steps, *names]))
    if not well_formed or module.startswith(PACKAGES):
        raise RefusedCodeError(
            f"{path!r} is not of the form 'package.module:Class' or 'package.module:Class.method'"
        )
    if "__main__" in steps[1:]:
        raise RefusedCodeError(f"{path!r} is a program, and importing it would run it")
    inside = root.resolve()
    *packages, last = [
        locate(inside, ".".join(steps[:depth]), path) for depth in range(1, len(steps) + 1)
    ]
    if last is None:
        if steps[0] in sys.stdlib_module_names:
            raise RefusedCodeError(
                f"{path!r} is in Python's standard library, which is not allowed here",
                "write a class or function in the project folder that uses it",
            )
        return []
    return [file for file in (*packages, last) if file is not None]


def modules_of_project(path: str, root: Path, modules: dict[str, Module]) -> dict[str, Module]:
    """Return the modules of a project that importing a path runs, by name; see `read_modules`.

    Raises:
        UsageError: as for `files_of_project`, or a file cannot be read.
    """
    if not files_of_project(path, root):
        return {}
    return read_modules(root.resolve(), path.partition(":")[0], modules)


def import_of_project(path: str, root: Path) -> Any:
    """Return the object of `package.module:Name`, from the project folder or an installed package.

    `package.module:Class.method` names a class method or a static method.

    A module of the project is imported under its own internal name. Two projects can therefore
    have modules with the same name, and neither hides a library. Such a module imports the modules
    next to it relatively: `from .helpers import …`.

    Raises:
        UsageError: as for `files_of_project`, or the module or the name does not exist. If a file
            of the project fails, the message names it.
    """
    files = files_of_project(path, root)
    module_name, _, attribute = path.partition(":")
    package = package_of(root.resolve()) if files or is_allowed(root.resolve(), module_name) else ""
    if not package:
        _refuse_current_folder(path)
    try:
        module = importlib.import_module(f"{package}.{module_name}" if package else module_name)
    except (Exception, SystemExit) as error:  # a module can raise anything when it is imported
        missing = isinstance(error, ModuleNotFoundError) and not package
        where = f" from {files[-1].relative_to(root.resolve())}" if files else ""
        reason = str(error) if missing else f"{type(error).__name__}: {error}"
        file = f"{module_name.replace('.', '/')}.py"
        hint = f"; put {file} into the project folder, or install its package"
        raise UsageError(
            f"{path!r} cannot be imported{where}: {reason}{hint if missing else ''}"
        ) from error
    name, _, method = attribute.partition(".")
    try:
        code = getattr(module, name)
    except AttributeError as error:
        names = [var for var in vars(module) if not var.startswith("_")]
        hint = f"; {did_you_mean(name, names)}" if files else ""
        raise UsageError(f"module {module_name!r} has no {name!r}{hint}") from error
    except Exception as error:  # a module with `__getattr__` can raise anything
        raise UsageError(f"{path!r} cannot be imported: {type(error).__name__}: {error}") from error
    return _method_of(code, method, path) if method else code


def derives(code: object, *kinds: type) -> bool:
    """Check whether an object is a class derived from one of these; run no code of the class."""
    return _is_class(code) and any(base is kind for base in _bases_of(code) for kind in kinds)


def has_method(code: object, names: Collection[str]) -> bool:
    """Check whether an object is a class that defines or inherits one of these methods."""
    return _is_class(code) and any(
        name in _names_in(base) for base in _bases_of(code) for name in names
    )


def is_factory(code: object, takes: Collection[str] = ()) -> bool:
    """Check whether an object is a function, or a method of a class, that can be a factory.

    Its result is known only after a call. It must therefore be written in Python, outside the
    standard library and Lorebind. With `takes`, it must have one of these parameters.
    """
    function = _function_of(code)
    if type(function) is not types.FunctionType or not _is_of_others(function.__module__):
        return False
    return not takes or any(name in inspect.signature(function).parameters for name in takes)


def is_class_of_others(code: object) -> bool:
    """Check whether an object is a class defined outside the standard library and Lorebind."""
    return _is_class(code) and _is_of_others(_names_in(code).get("__module__"))


def module_of(defined: Any) -> str:
    """Return the module of a class or function, relative to its project if a project has it.

    The name of a project's package depends on the path of the folder, which is no identity: a
    project can be moved, and each worker can have its own copy.
    """
    package, _, module = str(defined.__module__).partition(".")
    return module if package.startswith(PACKAGES) else str(defined.__module__)


def described(code: object) -> str:
    """Describe an object for messages: `a builtin_function_or_method`, `the class Path`."""
    if _is_class(code):
        return f"the class {_name_of(code)}"
    if isinstance(function := _function_of(code), types.FunctionType):
        return f"a function of {module_of(function)}"
    return f"a {_name_of(type(code))}"


def _method_of(code: object, name: str, path: str) -> object:
    """Return a class method or static method without running any code of the class.

    Raises:
        UsageError: there is no such method.
    """
    bases = _bases_of(code) if _is_class(code) else ()
    method = next((_names_in(base)[name] for base in bases if name in _names_in(base)), None)
    if type(method) is classmethod:
        return types.MethodType(method.__func__, code)
    if type(method) is staticmethod:
        return method.__func__
    raise UsageError(
        f"{path!r} cannot be imported: {described(code)} has no class method or static method "
        f"{name!r}"
    )


def _function_of(code: object) -> object:
    """Return the function of a class method; return any other object unchanged."""
    if type(code) is types.MethodType and _is_class(code.__self__):
        return code.__func__
    return code


def _is_of_others(module: object) -> bool:
    """Check whether a module belongs neither to the standard library nor to Lorebind."""
    home = str(module).partition(".")[0]
    return home not in sys.stdlib_module_names and home not in _OURS


def _is_class(code: object) -> bool:
    return issubclass(type(code), type)  # isinstance would trust `__class__`


def _refuse_current_folder(path: str) -> None:
    """Refuse a module that Python finds only because the current folder is on its path.

    The current folder is on the path with `python -c`, in notebooks, and with an empty entry in
    PYTHONPATH. The same project would then import different code depending on where it is loaded.
    Modules that the program has already imported are allowed.

    Raises:
        UsageError: the module is in the current folder.
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
        f"{path!r} would be imported from the current folder, where Lorebind does not look for "
        "code; put it into the project folder, or install its package"
    )
