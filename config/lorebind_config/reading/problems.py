"""Translates the errors of pydantic into problems with our messages and their positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lorebind_config.declarations.base import Declaration, Path, RefusedError, written_names
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.tasks import OneOrMore
from lorebind_config.errors import Problem, did_you_mean, nearest
from lorebind_config.reading.shapes import (
    annotation_of,
    declarations,
    fields_of,
    inner,
    keys,
    kind_meant,
    kinds,
    unwrapped,
)
from lorebind_config.reading.yaml_source import YamlSource, described_type, short
from lorebind_config.redaction import is_secret_path

_EXPECTED = {
    "string_type": "text",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS = ("greater_than_equal", "less_than_equal", "greater_than", "less_than")


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of an error, in the data and in the declarations."""

    path: Path
    value: Any
    """The value in the data; None if there is none."""
    declarations: list[type[Declaration]] = field(default_factory=list)
    """The declarations that are possible there; several if a key chooses one of them."""
    holder: type[Declaration] | None = None
    """The declaration that has the last key of the path, or lacks it."""
    metadata: tuple[Any, ...] = ()
    annotation: Any = None

    @property
    def name(self) -> str:
        """The name for messages: the key, with its indices in lists."""
        keys = [index for index, step in enumerate(self.path) if isinstance(step, str)]
        if not keys:
            return "the file"
        key, *indices = self.path[keys[-1] :]
        return f"{key}{''.join(f'[{index}]' for index in indices)}"

    @property
    def secret(self) -> bool:
        return is_secret_path(self.path)


Finding: TypeAlias = tuple[Path, Problem]
"""A problem, and the path of the data that it concerns."""


def findings(error: ValidationError, source: YamlSource, root: type[Declaration]) -> list[Finding]:
    """Return a problem for each error of pydantic, in the same order, with the path of its data.

    A misspelled key is reported once, not also as a missing key.

    Args:
        error: The error that validating the data raised.
        source: The data, with its positions.
        root: The declaration that the data was validated as.
    """
    placed = [
        (details, _follow(root, details["loc"], source.data))
        for details in _complaints(error, source.data, root)
    ]
    meant = {
        (*place.path[:-1], nearest(str(place.path[-1]), keys(place.holder)))
        for details, place in placed
        if details["type"] == "extra_forbidden"
    }
    return [
        finding
        for details, place in placed
        if details["type"] != "missing" or not meant.intersection(_spellings(place))
        for finding in _translated(details, place, source)
    ]


def _complaints(
    error: ValidationError, data: Any, root: type[Declaration], at: tuple[int | str, ...] = ()
) -> Iterator[ErrorDetails]:
    """Yield the errors of pydantic; for a misspelled kind, also those of the kind meant."""
    for details in error.errors(include_url=False):
        details["loc"] = (*at, *details["loc"])
        yield details
        if details["type"] != "union_tag_invalid":
            continue
        place = _follow(root, details["loc"], data)
        chosen, word = kind_meant(place.declarations, place.value)
        if chosen is not None:
            try:
                chosen.model_validate(place.value | {chosen.kind_key: word})
            except ValidationError as more:
                yield from _complaints(more, data, root, (*details["loc"], word))


def _spellings(place: _Place) -> Iterator[Path]:
    """Yield the paths that a missing key may have."""
    fields = place.holder.model_fields if place.holder else {}
    for name, info in fields.items():
        if place.path[-1] in (name, *written_names(name, info)):
            yield from ((*place.path[:-1], key) for key in written_names(name, info))


def _translated(error: ErrorDetails, place: _Place, source: YamlSource) -> Iterator[Finding]:
    kind = error["type"]
    if kind == "default_factory_not_called":  # another error of the declaration is the cause
        return
    refused = error.get("ctx", {}).get("error")
    if isinstance(refused, RefusedError):
        for fault in refused.faults:
            path = (*place.path, *fault.path)
            yield path, source.problem(path, fault.message, fault.hint)
        return
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path, words = _unknown_kind(place, source)
    else:
        path, words = place.path, _words(place, source, error)
    yield path, source.problem(path, *words)


def _unknown_kind(place: _Place, source: YamlSource) -> tuple[Path, tuple[str, str]]:
    """Return the problem of a `provider` or `type` that no possible declaration has."""
    choices, data = place.declarations, place.value
    key = choices[0].kind_key
    words = [word for choice in choices for word in kinds(choice)]
    if key not in data:
        return place.path, (f"missing key {key!r}", f"known: {', '.join(sorted(words))}")
    chosen = _Place((*place.path, key), data[key], holder=choices[0])
    return chosen.path, _unsupported(chosen, words, source)


def _words(place: _Place, source: YamlSource, error: ErrorDetails) -> tuple[str, str]:
    """Return the message and the hint for one error."""
    kind = error["type"]
    last = place.path[-1] if place.path else ""
    if kind == "extra_forbidden":
        return f"unknown key {last!r}", did_you_mean(str(last), keys(place.holder))
    if kind == "missing":
        return f"missing key {last!r}", ""
    if kind == "literal_error":
        return _unsupported(place, get_args(place.annotation), source)
    if kind in _EXPECTED:
        return _wrong_type(_EXPECTED[kind], place, source)
    if kind in _LIMITS:
        value = "out of range" if place.secret else _written(place.value, source.raw(place.path))
        return f"{place.name} is {value}", f"expected {_limits(place.metadata)}"
    if kind == "too_short":
        return f"{place.name} is empty", "write at least one"
    if kind == "string_too_short":
        return f"{place.name} is empty", "write some text"
    # No known rule ends here; unlike most messages, pydantic's do not quote the value.
    return f"{place.name}: {error['msg'][:1].lower()}{error['msg'][1:]}", ""


def _unsupported(place: _Place, words: Iterable[str], source: YamlSource) -> tuple[str, str]:
    """Return the message and the hint for a word that is not one of the known ones."""
    if not isinstance(place.value, str):
        return _wrong_type("text", place, source)
    chooses = place.holder is not None and place.path[-1] == place.holder.kind_key
    what = f"{place.holder.label} {place.name}" if place.holder and chooses else place.name
    word = "" if place.secret else short(repr(place.value)) + " "
    return f"{what} {word}is not supported", did_you_mean(place.value, words)


def _wrong_type(expected: str, place: _Place, source: YamlSource) -> tuple[str, str]:
    value, raw = place.value, source.raw(place.path)
    if place.secret:
        return f"{place.name}: expected {expected}", 'write a template: "{{ .env.NAME }}"'
    message = f"{place.name}: expected {expected}, got {_described(value, raw)}"
    if value is None:
        return message, "write a value or remove the key"
    if expected == "text" and raw and not isinstance(value, str):
        return message, f'{_reading(value, raw)}quote it: "{short(raw)}"'
    if isinstance(value, str) and raw is None and _reads_as(value, expected):
        return message, "write it without quotes"
    return message, ""


def _reading(value: Any, raw: str) -> str:
    """Return the YAML value of an unquoted word, where it differs from what was written."""
    if raw == str(value):
        return ""
    if isinstance(value, bool):
        return f"YAML reads the unquoted word {raw} as a boolean; "
    number = isinstance(value, int | float)
    kind = f"the number {short(repr(value))}" if number else described_type(value)
    return f"YAML reads {short(raw)} as {kind}; "


def _reads_as(text: str, expected: str) -> bool:
    if expected == "true or false":
        return text in ("true", "false")
    if expected in ("an integer", "a number"):
        return text.isdecimal()
    return False


def _described(value: Any, raw: str | None) -> str:
    if isinstance(value, str):
        return f"the text {short(repr(value))}"
    if isinstance(value, bool | int | float):
        kind = described_type(value).removeprefix("a ")
        return f"the {kind} {_written(value, raw)}"
    return described_type(value)


def _written(value: Any, raw: str | None) -> str:
    return short(raw if raw is not None else repr(value))


def _limits(metadata: tuple[Any, ...]) -> str:
    low = next((item.ge for item in metadata if hasattr(item, "ge")), None)
    high = next((item.le for item in metadata if hasattr(item, "le")), None)
    above = next((item.gt for item in metadata if hasattr(item, "gt")), None)
    if above is not None:
        return f"more than {above:g}" + (f", at most {high:g}" if high is not None else "")
    if high is None:
        return f"at least {low:g}" if low is not None else "another value"
    return f"{low:g} to {high:g}" if low is not None else f"at most {high:g}"


def _follow(root: type[Declaration], loc: tuple[str | int, ...], data: Any) -> _Place:
    """Walk pydantic's path along the declarations and the data in parallel.

    The path also holds steps that are not in the data: the word that chose one of several
    declarations, and marks such as `[key]`. The declarations show which steps these are.
    """
    expected, metadata = unwrapped(root)
    path: Path = ()
    value = data
    holder: type[Declaration] | None = None
    for step in loc:
        choices = declarations(expected)
        if len(choices) > 1 or _has(metadata, KindRegistry):
            chosen = next((choice for choice in choices if step in kinds(choice)), None)
            if chosen is not None:
                expected, metadata = chosen, ()
                continue
        if step == "[key]":
            continue
        if not isinstance(value, list) and _has(metadata, OneOrMore):
            expected, metadata = unwrapped(inner(expected))
            continue
        if not isinstance(value, dict | list):  # the data ends here
            break
        if len(choices) == 1:
            holder = choices[0]
            step, annotation = _field(holder, step, value)
        else:
            holder = None
            annotation = inner(expected)
        expected, metadata = unwrapped(annotation)
        path = (*path, step)
        value = _below(value, step)
    return _Place(path, value, declarations(expected), holder, metadata, expected)


def _has(metadata: tuple[Any, ...], kind: type) -> bool:
    return any(isinstance(item, kind) for item in metadata)


def _below(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _field(holder: type[Declaration], step: str | int, value: Any) -> tuple[str | int, Any]:
    """Return the key that was used for a field, and the field's type."""
    for name, info in fields_of(holder).items():
        names = [*written_names(name, info), name]
        if step in names:
            written = value if isinstance(value, dict) else {}
            key = step if step in written else next((n for n in names if n in written), step)
            return key, annotation_of(info)
    return step, None
