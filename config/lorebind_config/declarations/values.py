"""Types of free values: secrets, JSON, settings passed on to a class, file patterns, names."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

import bracex
from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema

from lorebind_config.dates import date_text
from lorebind_config.declarations.base import Fault, Matching, Path, RefusedError, leaves, refused
from lorebind_config.redaction import SECRET_NAMES, is_secret_name

_TEMPLATE = r"\{\{\s*\.(?:env|secrets)\.[A-Za-z_][A-Za-z0-9_]*\s*\}\}"
SECRET_PATTERN = f"^{_TEMPLATE}$"

SECRET_SETTINGS = {
    rf"(^|[^A-Za-z0-9]){SECRET_NAMES}$": {
        "type": ["string", "boolean", "null", "array", "object"],
        "pattern": _TEMPLATE,
    }
}
"""`literal_secrets` as JSON Schema, limited to lower-case names at the top of the settings."""


def literal_secrets(config: dict[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each literal secret in free settings, at any depth."""
    for path, value in leaves(config):
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        # Part of a value may be literal, as in a DSN; a value without a template is a secret.
        is_literal = not (value is None or isinstance(value, bool)) and is_secret_name(name)
        if is_literal and not re.search(_TEMPLATE, str(value)):
            yield _refusal(name, _variable(name), path)


def _refusal(name: str, variable: str, path: Path = ()) -> Fault:
    hint = (
        f'write {name}: "{{{{ .env.{variable} }}}}" and put the value into the environment or .env'
    )
    return Fault(f"{name} holds a literal value", hint, path)


def _variable(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).upper()


def _only_a_template(value: str, info: ValidationInfo) -> str:
    if not re.fullmatch(_TEMPLATE, value):
        name = info.field_name or "secret"
        provider = (info.data or {}).get("provider", "")
        owner = f"{provider}_" if provider and provider != "langchain" else ""
        raise RefusedError([_refusal(name, _variable(owner + name))])
    return value


Secret = Annotated[
    str,
    AfterValidator(_only_a_template),
    WithJsonSchema({"type": "string", "pattern": SECRET_PATTERN}),
]
"""A single template, `{{ .env.X }}` or `{{ .secrets.X }}`, without other text."""


def _not_json(values: Any) -> Iterator[Fault]:
    for path, value in leaves(values):
        if isinstance(value, float) and not math.isfinite(value):
            yield Fault("a number must be finite", path=path)
        elif not isinstance(value, str | int | float | bool | None):
            kind = type(value).__name__
            message = f"expected text, a number, a boolean, a list or a mapping, got a {kind}"
            yield Fault(message, "quote it to make it text", path)


def _json(value: Any) -> Any:
    if faults := list(_not_json(value)):
        raise RefusedError(faults)
    return value


def _config(value: dict[str, Any]) -> dict[str, Any]:
    if faults := [*_not_json(value), *literal_secrets(value)]:
        raise RefusedError(faults)
    return value


def _dates_as_text(value: Any) -> Any:
    """Return a value in which dates, which YAML reads without quotes, are texts in UTC."""
    match value:
        case dict():
            return {key: _dates_as_text(item) for key, item in value.items()}
        case list():
            return [_dates_as_text(item) for item in value]
        case datetime.date():
            try:
                return date_text(value)
            except OverflowError:  # refused later, as a value that is not JSON
                return value
    return value


DATES_AS_TEXT = BeforeValidator(_dates_as_text)

_FLAT = ["string", "number", "boolean", "null"]


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    nested = [
        Fault("metadata values are text, numbers, booleans, or lists of these", path=(key,))
        for key, item in value.items()
        if isinstance(item, dict)
        or (isinstance(item, list) and any(isinstance(part, dict | list) for part in item))
    ]
    if faults := [*_not_json(value), *nested]:
        raise RefusedError(faults)
    return value


_ABSOLUTE = r"[/\\~]|[A-Za-z]:"
_SEPARATORS = r"/\\{},|()"
FILE_PATTERN = rf"^(?!{_ABSOLUTE})(?!([\s\S]*[{_SEPARATORS}])?\.\.(?![^{_SEPARATORS}]))[\s\S]"
"""The pattern of the paths that `inside_project` accepts."""


def leaves_project(path: str) -> bool:
    """Check whether a path or pattern, as written, leads out of the folder it is relative to."""
    return bool(re.match(_ABSOLUTE, path)) or ".." in re.split(f"[{_SEPARATORS}]", path)


def inside_project(pattern: str) -> str:
    if not pattern:
        raise refused("a file pattern is empty", "write for example 'docs/**/*.md'")
    if leaves_project(pattern):
        hint = "write a path relative to the project folder, without '..'"
        raise refused(f"{_excerpt(pattern)} leaves the project folder", hint)
    return pattern


_LONGEST_SHOWN = 60
_LONGEST_PATTERN = 4096
_MOST_BRACES = 64
"""Braces can be nested, and a recursive function reads them."""
_MOST_ALTERNATIVES = 256
"""Each alternative is a separate search through the folders."""
_MOST_DEEP = 4
"""Each `**` matches any number of folders, so it multiplies the ways in which a path matches."""


def _excerpt(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _LONGEST_SHOWN else f"{pattern[:_LONGEST_SHOWN]}...")


def _bounded(pattern: str) -> str:
    """Refuse a glob pattern whose search would take too long."""
    excerpt = _excerpt(pattern)
    if len(pattern) > _LONGEST_PATTERN:
        message = f"the pattern {excerpt} is longer than {_LONGEST_PATTERN} characters"
        raise refused(message, "write several patterns")
    if pattern.count("{") > _MOST_BRACES:
        message = f"{excerpt} contains '{{' more than {_MOST_BRACES} times"
        raise refused(message, "write several patterns")
    try:
        # Counted before they are created: `{a,b}` written 22 times expands to four million.
        alternatives = bracex.expand(pattern, keep_escapes=True, limit=_MOST_ALTERNATIVES)
    except bracex.ExpansionLimitException:
        message = f"the braces of {excerpt} expand to more than {_MOST_ALTERNATIVES} patterns"
        hint = "write '*' for a part that can be anything, or write several patterns"
        raise refused(message, hint) from None
    if any(len(re.findall(r"\*\*+", alternative)) > _MOST_DEEP for alternative in alternatives):
        message = f"{excerpt} contains '**' more than {_MOST_DEEP} times"
        raise refused(message, "name the folders, or write '*' for a single folder")
    return pattern


CLASS_PATH = "^[^:]+:[^:.]+$"
FACTORY_PATH = "^[^:]+:[^:]+$"


class CodePath(str):
    """The value of every field that names code. Named code is found by this type in any field."""

    __slots__ = ()


CLASS_FORM = Matching(CLASS_PATH, "{!r} is not of the form 'package.module:Class'")
FACTORY_FORM = Matching(
    FACTORY_PATH,
    "{!r} is not of the form 'package.module:function' or 'package.module:Class.method'",
)

WEB_ADDRESS = r"^(https?://[^\s/?#]\S*|(?:(?!\{\{).)*\{\{(?:(?!\}\}).)*\}\}.*)$"
"""The pattern of `WebAddress`. A template is checked when its value is known."""

JsonValue = Annotated[Any, AfterValidator(_json)]
"""Any JSON value."""
JsonMap = Annotated[dict[str, Any], AfterValidator(_json)]
"""A mapping of JSON values."""
ConfigMap = Annotated[
    dict[str, Any],
    AfterValidator(_config),
    WithJsonSchema({"type": "object", "patternProperties": SECRET_SETTINGS}),
]
"""Settings passed on unchanged. Keys such as `api_key` accept templates only."""
TextMap = Annotated[
    dict[str, str],
    AfterValidator(_config),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "patternProperties": SECRET_SETTINGS,
        }
    ),
]
"""A mapping of texts. Keys such as `api_key` accept templates only."""
MetadataMap = Annotated[
    dict[str, Any],
    DATES_AS_TEXT,
    AfterValidator(_metadata),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": [*_FLAT, "array"], "items": {"type": _FLAT}},
        }
    ),
]
"""A mapping of strings, numbers, booleans and dates, or lists of these. Dates become strings."""
GlobPattern = Annotated[str, AfterValidator(_bounded)]
"""A glob pattern for any kind of names."""
FilePattern = Annotated[
    str,
    AfterValidator(_bounded),
    AfterValidator(inside_project),
    WithJsonSchema({"type": "string", "pattern": FILE_PATTERN}),
]
"""A glob pattern for files inside the project folder."""
ClassPath = Annotated[str, CLASS_FORM, AfterValidator(CodePath)]
"""A class, as 'package.module:Class'."""
FactoryPath = Annotated[str, FACTORY_FORM, AfterValidator(CodePath)]
"""A factory, as 'package.module:function' or 'package.module:Class.method'."""
SqlName = Annotated[
    str,
    Matching(
        "^[A-Za-z_][A-Za-z0-9_]{0,54}$",
        "{!r} cannot be the name of a table or index",
        "it starts with a letter or '_', followed by letters, digits and '_', at most 55",
    ),
]
"""The name of a table or index: needs no quotes and leaves room for a suffix."""
WebAddress = Annotated[
    str,
    Matching(
        WEB_ADDRESS,
        "{!r} is not a web address",
        "write it in full, as in 'https://example.com/manual.pdf'",
    ),
]
"""An absolute http or https URL, or a template of one."""
