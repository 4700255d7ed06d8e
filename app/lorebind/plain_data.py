"""Convert results to plain data, as in JSON and YAML, and back."""

from __future__ import annotations

import collections.abc
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel


def as_data(value: Any) -> Any:
    """Convert dataclasses and declarations to mappings, also within mappings and lists.

    An object with a method `as_data` converts itself.
    """
    if hasattr(value, "as_data"):
        return value.as_data()
    if is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in fields(value) if field.repr)
        return {name: as_data(getattr(value, name)) for name in names}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    return value


def from_data(kind: Any, data: Any) -> Any:
    """Create a value of this kind from plain data: the reverse of `as_data`.

    Args:
        kind: a dataclass, a declaration, or a list or mapping of them; other data is returned
            unchanged.
        data: the plain data of a value; unknown keys are ignored.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the data is not of this kind.
    """
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        kinds = [argument for argument in arguments if argument is not NoneType]
        return data if data is None or len(kinds) > 1 else from_data(kinds[0], data)
    if hasattr(kind, "from_data"):
        return kind.from_data(data)
    if is_dataclass(kind):
        return _of_fields(kind, data)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_validate_json(json.dumps(data))
    if origin in (list, tuple, collections.abc.Sequence):
        return (tuple if origin is tuple else list)(from_data(arguments[0], item) for item in data)
    if origin in (dict, Mapping):
        return {key: from_data(arguments[1], item) for key, item in data.items()}
    return data


def _of_fields(kind: Any, data: Any) -> Any:
    present = {name: part for name, part in _parts(kind).items() if name in data}
    return kind(**{name: from_data(part, data[name]) for name, part in present.items()})


@cache
def _parts(kind: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with their types."""
    types = get_type_hints(kind, localns=_OF_TYPE_CHECKERS)
    return {field.name: types[field.name] for field in fields(kind)}


_OF_TYPE_CHECKERS = {**vars(collections.abc), "BaseChatModel": Any}
"""Names that modules with result classes import only for type checkers."""
