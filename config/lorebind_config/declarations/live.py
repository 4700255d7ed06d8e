"""Existing Python objects in place of a class path; only Python code can pass them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import WrapValidator

from lorebind_config.declarations.values import ClassPath, FactoryPath
from lorebind_config.project_code import module_of

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler


class LiveObject(str):
    """A string with the path of an object's class, which also holds the object."""

    object: Any

    def __new__(cls, held: Any) -> LiveObject:
        kind = type(held)
        made = super().__new__(cls, f"{module_of(kind)}:{kind.__name__}")
        made.object = held
        return made


def is_object(value: Any) -> bool:
    """Check whether a value is an object that YAML cannot produce."""
    # Objects that YAML produces are of the standard library, such as dates.
    return type(value).__module__.partition(".")[0] not in sys.stdlib_module_names


def _live_or(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return LiveObject(value) if is_object(value) else handler(value)


ClassOrObject = Annotated[ClassPath, WrapValidator(_live_or)]
"""A class, as 'package.module:Class'; in Python also an instance of it."""
FactoryOrObject = Annotated[FactoryPath, WrapValidator(_live_or)]
"""A function, as 'package.module:function'; in Python also the function or object itself."""
NameOrObject = Annotated[str, WrapValidator(_live_or)]
"""A name; in Python also the object itself."""
