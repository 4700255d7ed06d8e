"""Optional parts: imported where they are first used, and named when they are not there."""

from __future__ import annotations

import hashlib
import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_PROJECTS = "_lorebind_project_"
"""The packages that stand for project folders begin so, and end with a mark of the folder."""


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module that an extra of Lorebind brings.

    Raises:
        MissingDependencyError: naming the extra and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {error.name!r}; install it with: "
            f"pip install 'lorebind[{extra}]'"
        ) from error


def import_object(path: str) -> Any:
    """The object that `package.module:Name` names.

    Raises:
        UsageError: when the path has another form, or the module or the name is not there.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{path!r} is not of the form 'package.module:Name'")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        raise UsageError(f"{path!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise UsageError(f"module {module_name!r} has no {attribute!r}") from error


def import_of_project(path: str, root: Path) -> Any:
    """The object that `package.module:Name` names, in a project's folder or else installed.

    A module of the project is known under a name of its own, so that two projects may each have
    one of the same name and neither hides a library. It imports its neighbours relatively:
    `from .helpers import …`.

    Raises:
        UsageError: as for `import_object`; a file of the project that fails is named.
    """
    module_name, _, attribute = path.partition(":")
    steps = module_name.split(".")
    file = root.joinpath(*steps)
    if not attribute or not all(map(str.isidentifier, steps)):
        raise UsageError(f"{path!r} is not of the form 'package.module:Name'")
    inside = root.resolve()
    candidates = (file.with_suffix(".py"), file / "__init__.py")
    found = next((one.resolve() for one in candidates if one.is_file()), None)
    if found is None:
        return import_object(path)
    if not found.is_relative_to(inside):
        raise UsageError(f"{path!r} leads out of the project folder, to {found}")
    own = f"{_PROJECTS}{hashlib.sha256(str(inside).encode()).hexdigest()[:16]}"
    if own not in sys.modules:
        package = types.ModuleType(own)
        package.__path__ = [str(inside)]
        sys.modules.setdefault(own, package)
    try:
        module = importlib.import_module(f"{own}.{module_name}")
    except Exception as error:  # whatever a module of the project raises when it is imported
        relative = found.relative_to(inside)
        raise UsageError(
            f"{path!r} cannot be imported from {relative}: {type(error).__name__}: {error}"
        ) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise UsageError(f"module {module_name!r} has no {attribute!r}") from error


def lazy_door(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A package's `__getattr__` that imports a public name's home when it is first asked for.

    Doors stay cheap to import that way: LangChain and LangGraph cost half a second each.

    Args:
        package: the package's `__name__`.
        modules: for each module below the package, the public names it defines.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: N807  # it is what the package will call it
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return __getattr__
