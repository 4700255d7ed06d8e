"""The base of all declarations: strict validation, positions in files, and ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from lorebind_config.errors import Problem

Path: TypeAlias = tuple[str | int, ...]
"""The keys and list indices from the top of a file to a value."""


Wants: TypeAlias = Literal["run", "read", "send", "reach", "write", "use"]
"""The actions that need the user's trust: run code, read a variable or a file outside the project
folder, send variables to a host, reach the network, write a file outside the project folder, or
use one in any way."""

OUTSIDE = "a file outside the project folder"
"""The subject of `read`, `write` and `use` for a field whose value is a path."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file. Line and column start at 1; both are 0 if there is no file."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Located(Protocol):
    """Data that knows the position of each of its values."""

    @property
    def data(self) -> Any: ...

    def position(self, path: Path) -> Position:
        """Return the position of the value at a path, or of the nearest written parent."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """The source and path of a declaration. All origins compare equal, so that equal
    declarations from different files are equal."""

    source: Located | None = field(default=None, compare=False, repr=False)
    path: Path = field(default=(), compare=False)

    def position(self, path: Path = ()) -> Position:
        if self.source is None:
            return Position("<python>", 0, 0)
        return self.source.position(self.path + path)


NESTED = "lorebind_nested"
"""The key of the metadata that holds the declaration that a schema only names."""

_outermost: ContextVar[type[BaseModel] | None] = ContextVar("outermost", default=None)
"""The declaration whose validator is being built."""


class Declaration(BaseModel):
    """The base of all declarations: no unknown keys, no type conversions, immutable."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        populate_by_name=True,
        # A value may be a secret in the wrong field: pydantic must not repeat it.
        hide_input_in_errors=True,
        # Fields named `model` and `model_path` do not clash with pydantic's methods.
        protected_namespaces=(),
        # Validators are built at their first use, because most projects use few declarations. For
        # a faster start, too, modules with many fields do without annotations as strings (`from
        # __future__ import annotations`), which pydantic evaluates field by field.
        defer_build=True,
    )

    label: ClassVar[str] = "declaration"
    """The name of this kind of declaration in messages."""
    kind_key: ClassVar[str] = ""
    """The key that selects one of several kinds of declarations: `provider`, `type`."""
    marked_by: ClassVar[str] = ""
    """The key that identifies this kind of declaration where no `kind_key` selects it."""
    templated: ClassVar[tuple[str, ...]] = ()
    """The fields whose strings are templates; see `templates.fill`."""
    expressions: ClassVar[tuple[str, ...]] = ()
    """The fields whose strings are CEL expressions; see `conditions`."""

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build the validator, in which each nested declaration only names its own.

        So a validator is built when it has a value to read. With those of all nested declarations,
        that of a project would take as long to build as the rest of a start.
        """
        outermost = _outermost.set(cls)
        try:
            return super().model_rebuild(
                _parent_namespace_depth=_parent_namespace_depth + 1, **options
            )
        finally:
            _outermost.reset(outermost)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        if _outermost.get() is cls:
            return handler(source)
        return core_schema.no_info_plain_validator_function(
            cls.model_validate, ref=cls.schema_ref(), metadata={NESTED: cls}
        )

    @classmethod
    def schema_ref(cls) -> str:
        """Return the name under which a JSON Schema describes the declaration once."""
        return f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the declaration where a model that is none, such as a request, only names it."""
        if NESTED not in schema.get("metadata", {}):
            return handler(schema)
        cls.model_rebuild()
        return handler(cls.__pydantic_core_schema__)

    @model_serializer(mode="wrap")
    def _names_first(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Put the id and the kind first; keep the order of all other keys."""
        data: dict[str, Any] = handler(self)
        return {key: data[key] for key in ("id", self.kind_key) if key in data} | data

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        """Yield what the declaration may only do in a trusted project: field, action, subject.

        Named code, and the variables and hosts in templated fields, are found without this method.
        With the subject `OUTSIDE`, the value of the field is a path, which needs trust only where
        it leads out of the project folder. A subject that is a template names a variable that is
        read by default. `send` names the host of variables if no setting does.
        """
        yield from ()

    def written(self) -> dict[str, Any]:
        """Return the declared values as plain data: keys as in the YAML, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def title(self) -> str:
        """The declaration in messages: its label, with its id or name if that could be read."""
        name = getattr(self, "id", getattr(self, "name", None))
        return f"{self.label} {name!r}" if isinstance(name, str) else f"the {self.label}"

    def problem(self, path: Path, message: str, hint: str = "") -> Problem:
        """Return a problem with a field of the declaration, or with a path below it."""
        at = self.position(*path)
        return Problem(at.file, at.line, at.column, message, hint)

    def position(self, *path: str | int) -> Position:
        """Return where a field was written; the declaration's own position if it was omitted."""
        if path and isinstance(path[0], str) and path[0] in type(self).model_fields:
            for name in written_names(path[0], type(self).model_fields[path[0]]):
                place = self._origin.position((name, *path[1:]))
                if place != self._origin.position():
                    return place
        return self._origin.position(path)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the values in nested mappings and lists, each with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def empty_list() -> list[Any]:
    """Return a new list, as a default; pydantic takes 20 ms to read the signature of `list`."""
    return []


class Settings(Declaration):
    """A mapping inside a declaration, such as its `config`."""


def written_names(name: str, info: FieldInfo) -> list[str]:
    """Return the keys that YAML accepts for a field, the documented one first."""
    if isinstance(info.validation_alias, AliasChoices):
        return [choice for choice in info.validation_alias.choices if isinstance(choice, str)]
    return [info.alias or name]


def locate(model: Declaration, source: Located, path: Path = ()) -> None:
    """Store on a declaration, and on all declarations in it, where they were written."""
    for declaration, place in within(model, source.data, path):
        declaration._origin = Origin(source, place)


def within(value: Any, data: Any = None, path: Path = ()) -> Iterator[tuple[Declaration, Path]]:
    """Yield a declaration and all declarations in it, each with its path.

    Args:
        value: a declaration, or a list or mapping of them.
        data: the data that the value was read from. Paths use its spelling of the keys.
        path: the path of the value.
    """
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
"""The types that can contain declarations. Other values are skipped early, because projects are
traversed often."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem that a validator found, at a path below the validated value."""

    message: str
    hint: str = ""
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class RefusedError(ValueError):
    """Raised by validators, with all problems of one value."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(map(str, self.faults)))


def refused(message: str, hint: str = "", *path: str | int) -> RefusedError:
    """Return the error for one problem, at a path below the validated value."""
    return RefusedError([Fault(message, hint, path)])


class Matching:
    """In `Annotated[str, Matching(…)]`: the whole text matches a regular expression.

    In the message, `{!r}` stands for the text.
    """

    def __init__(self, regex: str, message: str, hint: str = "") -> None:
        self.regex, self.message, self.hint = regex, message, hint

    def check(self, value: str) -> str:
        if not re.fullmatch(self.regex, value):
            raise refused(self.message.format(value), self.hint)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "pattern": self.regex}


class OrForm:
    """In `Annotated[T, OrForm({…})]`: the JSON Schema accepts another form of the value too."""

    def __init__(self, form: dict[str, Any]) -> None:
        self.form = form

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        full = handler(schema)
        return {"anyOf": [self.form, *full.get("oneOf", [full])]}


ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
Id = Annotated[
    str,
    Matching(
        ID_PATTERN,
        "{!r} cannot be an id",
        "an id starts with a letter or digit, followed by letters, digits, '_', '.' or '-'",
    ),
]
"""An id, unique among declarations of the same kind."""
