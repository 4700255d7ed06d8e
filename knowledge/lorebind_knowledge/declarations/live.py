"""Objects that are there already, where a declaration names a class: only Python can give them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import WrapValidator

from lorebind_knowledge.declarations.values import ClassPath, FactoryPath

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler


class LiveObject(str):
    """Reads as the path of its class, and holds the object."""

    object: Any

    def __new__(cls, held: Any) -> LiveObject:
        kind = type(held)
        made = super().__new__(cls, f"{kind.__module__}:{kind.__name__}")
        made.object = held
        return made


def is_object(value: Any) -> bool:
    """Whether a value is an object that only Python can give."""
    # YAML makes objects of the standard library alone, as dates.
    return type(value).__module__.partition(".")[0] not in sys.stdlib_module_names


def _live_or(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return LiveObject(value) if is_object(value) else handler(value)


ClassOrObject = Annotated[ClassPath, WrapValidator(_live_or)]
"""A class, as 'package.module:Class'; from Python also an object of one."""
FactoryOrObject = Annotated[FactoryPath, WrapValidator(_live_or)]
"""A function, as 'package.module:function'; from Python also the object that is meant."""
NameOrObject = Annotated[str, WrapValidator(_live_or)]
"""A name; from Python also the object that is meant."""
