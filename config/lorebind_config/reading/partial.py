"""Reads the valid parts of a file with problems, for the checks that need all files."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeVar, cast, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from lorebind_config.declarations.base import Declaration, Origin, Path, written_names
from lorebind_config.declarations.tasks import OneOrMore
from lorebind_config.declarations.values import CodePath
from lorebind_config.errors import nearest
from lorebind_config.reading.shapes import (
    annotation_of,
    declarations,
    fields_of,
    inner,
    keys,
    kind_meant,
    unwrapped,
)
from lorebind_config.reading.yaml_source import YamlSource
from lorebind_config.templates import ANYTHING

D = TypeVar("D", bound=Declaration)


def partial(kind: type[D], source: YamlSource, refused: Set[Path] = frozenset()) -> D:
    """Return a declaration with the valid data of a source; `refused` are the invalid paths.

    Declarations convert nothing, so valid data is used as it is. Invalid or missing data becomes
    ANYTHING. A list becomes its valid items and one more, of which nothing is known. An id stays
    as it was written, valid or not, so that references to it are not reported as unknown.
    """
    return cast("D", _Reader(source, refused).declaration([kind], source.data, ()))


class _Reader:
    """Walks the data along the declarations; neither needs to fit the other."""

    def __init__(self, source: YamlSource, refused: Set[Path]) -> None:
        self.source = source
        self.refused = refused | source.doubtful

    def declaration(self, choices: list[type[Declaration]], data: Any, path: Path) -> Declaration:
        written = data if isinstance(data, dict) else {}
        values: dict[str, Any] = {}
        kind = choices[0]
        if len(choices) > 1:
            meant, _ = kind_meant(choices, written)
            if meant is None:  # only the id of an unknown kind can be read
                written = {key: written[key] for key in ("id",) if key in written}
                values |= {kind.kind_key: ANYTHING} if kind.kind_key else {}
            kind = meant or kind
        options = keys(kind)
        misspelt = {nearest(str(key), options) for key in written if key not in options}
        for name, info in fields_of(kind).items():
            names = written_names(name, info)
            used = [key for key in names if key in written]
            if len(used) == 1:
                value = self._field(name, info, written[used[0]], (*path, used[0]))
            elif used or info.is_required() or misspelt.intersection(names):
                value = self._value(annotation_of(info), ANYTHING, path)
            else:
                continue
            if value is not ANYTHING or not _is_optional(info):
                values[name] = value
        result = kind.model_construct(set(values), **values)
        result._origin = Origin(self.source, path)
        return result

    def _field(self, name: str, info: FieldInfo, data: Any, path: Path) -> Any:
        if name == "id" and isinstance(data, str) and path not in self.source.doubtful:
            return data
        return self._value(annotation_of(info), data, path)

    def _value(self, annotation: Any, data: Any, path: Path) -> Any:
        expected, metadata = unwrapped(annotation)
        if choices := declarations(expected):
            left_out = data is None and path not in self.refused
            return None if left_out else self.declaration(choices, data, path)
        alone = not isinstance(data, list) and data is not ANYTHING and path not in self.refused
        if alone and any(isinstance(mark, OneOrMore) for mark in metadata):
            return [self._value(inner(expected), data, path)]
        if get_origin(expected) is list:
            items = data if isinstance(data, list) else _alone(data, expected)
            read = [self._value(inner(expected), item, (*path, i)) for i, item in enumerate(items)]
            whole = isinstance(data, list) and path not in self.refused
            return read if whole else [*read, self._value(inner(expected), ANYTHING, path)]
        if isinstance(data, dict) and path not in self.refused:
            item = inner(expected)
            return {key: self._value(item, value, (*path, key)) for key, value in data.items()}
        if isinstance(data, list) and path not in self.refused:
            return [self._value(None, value, (*path, i)) for i, value in enumerate(data)]
        if path in self.refused:
            return ANYTHING
        return CodePath(data) if isinstance(data, str) and _names_code(metadata) else data


def _names_code(metadata: tuple[Any, ...]) -> bool:
    """Return whether a field takes the path of code, which only its type shows."""
    return any(getattr(mark, "func", None) is CodePath for mark in metadata)


def _alone(data: Any, expected: Any) -> list[Any]:
    """Return a text as a list, if it may be an item of the expected list; empty otherwise."""
    try:
        return TypeAdapter(expected).validate_python([data]) if isinstance(data, str) else []
    except ValidationError:
        return []


def _is_optional(info: FieldInfo) -> bool:
    """Return whether an omitted field means a single value that no other declaration depends on.

    Other tasks depend on whether a task is `final`, for example.
    """
    return not info.is_required() and info.default_factory is None and info.annotation is not bool
