"""What all declarations share: strictness, where they stand in their file, and ids."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic.fields import FieldInfo

Path: TypeAlias = tuple[str | int, ...]
"""The keys and list indices that lead from the top of a file to a value."""


Wants: TypeAlias = Literal["run", "read", "reach", "write"]
"""What a project may want to do that needs its user's trust."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; line and column count from 1, and are 0 where there is no file."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Located(Protocol):
    """Data that knows where each of its values was written."""

    @property
    def data(self) -> Any: ...

    def position(self, path: Path) -> Position:
        """Where the value at the path stands, or the nearest thing around it that was written."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a declaration was read. All origins are equal: it is no part of what is declared."""

    source: Located | None = field(default=None, compare=False, repr=False)
    path: Path = field(default=(), compare=False)

    def position(self, path: Path = ()) -> Position:
        if self.source is None:
            return Position("<python>", 0, 0)
        return self.source.position(self.path + path)


class Declaration(BaseModel):
    """The base of everything that the YAML may say: nothing unknown, no conversions, no changes."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        populate_by_name=True,
        # What was written may be a secret in the wrong place: pydantic must not repeat it.
        hide_input_in_errors=True,
        # `model` and `model_path` are names of ours, and do not clash with pydantic's.
        protected_namespaces=(),
    )

    label: ClassVar[str] = "declaration"
    """What messages call it."""
    kind_key: ClassVar[str] = ""
    """The key that chooses among the declarations of one place: `provider`, `type`."""
    marked_by: ClassVar[str] = ""
    """The key by which it is told from the others of its place, where no key chooses."""
    templated: ClassVar[tuple[str, ...]] = ()
    """The fields whose texts are templates, see `templates.fill`."""
    expressions: ClassVar[tuple[str, ...]] = ()
    """The fields whose texts are CEL, see `conditions`."""

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @model_serializer(mode="wrap")
    def _names_first(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keys in their order, but first what names a declaration and what chooses its kind."""
        data: dict[str, Any] = handler(self)
        return {key: data[key] for key in ("id", self.kind_key) if key in data} | data

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        """What only a project that its user trusts may have, as field, wish and words for people.

        The code and the variables that a declaration names are found without it.
        """
        yield from ()

    def written(self) -> dict[str, Any]:
        """What was declared, as plain data with the keys of the YAML and without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def position(self, *path: str | int) -> Position:
        """Where a field was written, by its key; the declaration itself when it was not."""
        if path and isinstance(path[0], str) and path[0] in type(self).model_fields:
            for name in written_names(path[0], type(self).model_fields[path[0]]):
                place = self._origin.position((name, *path[1:]))
                if place != self._origin.position():
                    return place
        return self._origin.position(path)


class Settings(Declaration):
    """A mapping within a declaration, such as its `config`."""


def written_names(name: str, info: FieldInfo) -> list[str]:
    """The keys under which YAML may write a field, the documented one first."""
    if isinstance(info.validation_alias, AliasChoices):
        return [choice for choice in info.validation_alias.choices if isinstance(choice, str)]
    return [info.alias or name]


def locate(model: Declaration, source: Located, path: Path = ()) -> None:
    """Tell a declaration, and all within it, where in the source they were written."""
    for declaration, place in within(model, source.data, path):
        declaration._origin = Origin(source, place)


def within(value: Any, data: Any = None, path: Path = ()) -> Iterator[tuple[Declaration, Path]]:
    """A declaration and all that it holds, each with its path; `data` tells the keys as written."""
    if isinstance(value, Declaration):
        yield value, path
        written = data if isinstance(data, dict) else {}
        for name, info in type(value).model_fields.items():
            item = getattr(value, name)
            if isinstance(item, _HOLDING):
                names = written_names(name, info)
                key = next((key for key in [*names, name] if key in written), names[0])
                yield from within(item, written.get(key), (*path, key))
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, _HOLDING):
                inner = data.get(key) if isinstance(data, dict) else None
                yield from within(item, inner, (*path, key))
    elif isinstance(value, list) and isinstance(data, dict):  # written as its only item
        yield from within(value[0], data, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, _HOLDING):
                inner = data[index] if isinstance(data, list) and index < len(data) else None
                yield from within(item, inner, (*path, index))


_HOLDING = (Declaration, dict, list)
"""What declarations may be in; most values are others, and a project is gone through often."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a validator refuses, at a path below what it was given."""

    message: str
    hint: str = ""
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class RefusedError(ValueError):
    """Raised by validators: everything that is wrong with one value."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(map(str, self.faults)))


ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


def _check_id(value: str) -> str:
    if not re.fullmatch(ID_PATTERN, value):
        hint = "an id starts with a letter or digit and goes on with letters, digits, '_', '.', '-'"
        raise RefusedError([Fault(f"{value!r} cannot be an id", hint)])
    return value


Id = Annotated[
    str,
    AfterValidator(_check_id),
    WithJsonSchema({"type": "string", "pattern": ID_PATTERN}),
]
"""The name of a thing, unique among its kind."""
