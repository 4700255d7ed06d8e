"""Optional features: imported at first use, with a clear error if their extra is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lorebind_config.errors import MissingDependencyError


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module that belongs to an extra of Lorebind.

    Raises:
        MissingDependencyError: with the extra and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {error.name!r}; install it with: "
            f"pip install 'lorebind[{extra}]'"
        ) from error


def lazy_door(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` that imports the module of a public name at first use.

    This keeps the packages cheap to import: LangChain and LangGraph take half a second each.

    Args:
        package: the package's `__name__`.
        modules: for each module below the package, the public names it defines.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: N807  # the name under which the package binds it
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return __getattr__
