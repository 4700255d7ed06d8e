"""What a file with problems still declares, so that it counts in what all files together tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, get_origin

from pydantic import TypeAdapter, ValidationError

from lorebind_knowledge.configuration.shapes import (
    annotation_of,
    declarations,
    inner,
    keys,
    kind_meant,
    unwrapped,
)
from lorebind_knowledge.configuration.templates import ANYTHING
from lorebind_knowledge.declarations.base import Declaration, Origin, Path, written_names
from lorebind_knowledge.declarations.values import CodePath, class_path, factory_path
from lorebind_knowledge.declarations.workflows.one_or_more import OneOrMore
from lorebind_knowledge.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Set

    from pydantic.fields import FieldInfo

    from lorebind_knowledge.configuration.yaml_source import YamlSource

D = TypeVar("D", bound=Declaration)


def partial(kind: type[D], source: YamlSource, refused: Set[Path] = frozenset()) -> D:
    """A declaration of what is valid in the data of a source; `refused` are the paths that are not.

    Declarations convert nothing, so what is valid is the data as it stands. In the place of what
    is not, or is missing, stands ANYTHING; for a list it is one item of which nothing is known,
    beside the items that are. An id stays as it was written, valid or not: what refers to it does
    not refer to nothing.
    """
    return cast("D", _Reader(source, refused).declaration([kind], source.data, ()))


class _Reader:
    """Walks the data along the declarations, and trusts neither."""

    def __init__(self, source: YamlSource, refused: Set[Path]) -> None:
        self.source = source
        self.refused = refused | source.doubtful

    def declaration(self, choices: list[type[Declaration]], data: Any, path: Path) -> Declaration:
        written = data if isinstance(data, dict) else {}
        values: dict[str, Any] = {}
        kind = choices[0]
        if len(choices) > 1:
            meant, _ = kind_meant(choices, written)
            if meant is None:  # of an unknown kind nothing can be told but its id
                written = {key: written[key] for key in ("id",) if key in written}
                values |= {kind.kind_key: ANYTHING} if kind.kind_key else {}
            kind = meant or kind
        known = keys(kind)
        misspelt = {nearest(str(key), known) for key in written if key not in known}
        for name, info in kind.model_fields.items():
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
        found = kind.model_construct(set(values), **values)
        found._origin = Origin(self.source, path)
        return found

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
        if alone and any(isinstance(one, OneOrMore) for one in metadata):
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
    """Whether a text there is the path of code: its type tells, see `named_code`."""
    return any(getattr(one, "func", None) in (class_path, factory_path) for one in metadata)


def _alone(data: Any, expected: Any) -> list[Any]:
    """A text that stands where a list of texts is expected, when it may be one of them."""
    try:
        return TypeAdapter(expected).validate_python([data]) if isinstance(data, str) else []
    except ValidationError:
        return []


def _is_optional(info: FieldInfo) -> bool:
    """Whether a field left out is one value or none, and not what others may name parts of.

    Whether a task is `final` is asked of others than the task itself.
    """
    return not info.is_required() and info.default_factory is None and info.annotation is not bool
