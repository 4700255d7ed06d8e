"""Versions of the code that declarations name: digests of the bytes that run."""

from __future__ import annotations

import inspect
import marshal
from pathlib import Path
from types import FunctionType
from typing import Any

from lorebind_config.namespace import digest
from lorebind_config.project_code import modules_of_project
from lorebind_config.project_modules import loaded_modules


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
