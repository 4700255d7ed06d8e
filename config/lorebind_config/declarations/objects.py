"""Python objects in declarations: existing ones, and arguments that are created from code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Annotated, Any

from pydantic import AfterValidator, ValidatorFunctionWrapHandler, WrapValidator

from lorebind_config.declarations.base import Path, RefusedError, refused
from lorebind_config.declarations.values import (
    CLASS_FORM,
    FACTORY_FORM,
    ClassPath,
    CodePath,
    ConfigMap,
    FactoryPath,
)
from lorebind_config.project_code import module_of


class LiveObject(str):
    """A string with the path of a function or of an object's class, which also holds it."""

    object: Any

    def __new__(cls, held: Any) -> LiveObject:
        kind = held if isinstance(held, FunctionType) else type(held)
        text = super().__new__(cls, f"{module_of(kind)}:{kind.__name__}")
        text.object = held
        return text


def is_object(value: Any) -> bool:
    """Check whether a value is an object that YAML cannot produce."""
    if isinstance(value, FunctionType):
        return True
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


_FORMS = {"class": CLASS_FORM, "factory": FACTORY_FORM}


def parts(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the arguments to create: the name of each, and the key that names its code."""
    for name, value in settings.items():
        if isinstance(value, dict) and value.keys() <= {"config", *_FORMS}:
            yield from ((name, key) for key in _FORMS if key in value)


def _marked(settings: dict[str, Any], at: Path = ()) -> dict[str, Any]:
    marked: dict[str, Any] = {}
    for name, key in parts(settings):
        if name in marked:
            raise refused("class and factory are both given", "keep one", *at, name)
        part = marked[name] = dict(settings[name])
        if not isinstance(part[key], str) or not isinstance(part.get("config", {}), dict):
            hint = f"write {{ {key}: 'package.module:Name', config: {{ … }} }}"
            raise refused(f"{name} cannot be created", hint, *at, name)
        try:
            part[key] = CodePath(_FORMS[key].check(part[key]))
        except RefusedError as error:
            raise refused(str(error), "", *at, name, key) from None
        if "config" in part:
            part["config"] = _marked(part["config"], (*at, name, "config"))
    return settings | marked


PartsMap = Annotated[ConfigMap, AfterValidator(_marked)]
"""Settings passed on unchanged, except for arguments that are created from code."""
