"""Patterns such as `docs/{team}/{year}/*.md`, which read metadata from the path of a document."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorebind_config.declarations.base import refused

RESERVED_NAMES = (
    *("uri", "kb_id", "heading", "start", "end", "line_start", "line_end"),
    *("page", "page_end", "scanned", "locator", "time_start", "time_end"),
)
"""Names in the metadata of passages whose values are the place of the passage."""

_EXAMPLE = "write for example 'docs/{team}/{year}/*.md'"
_LONGEST = 1_000
_MOST_FIELDS = 32
_TOKEN = re.compile(
    r"(?P<template>\{\{[^{}]*\}\})|\{(?P<name>[^{}]*)\}|(?P<folders>(?<![^/])\*\*/)"
    r"|(?P<rest>\*\*)|(?P<star>\*)|(?P<one>\?)|(?P<brace>[{}])|(?P<text>[^{}*?]+)"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def path_expression(pattern: str) -> str:
    """Return a pattern as a regular expression with a named group for each field.

    `{name}` and `*` match within one part of a path, `**` any number of parts.

    Raises:
        RefusedError: the pattern has no field, or one whose name cannot be used.
    """
    if len(pattern) > _LONGEST:
        raise refused(f"the pattern is longer than {_LONGEST} characters", _EXAMPLE)
    seen: set[str] = set()
    expression = "".join(_expressions(pattern, seen))
    if not seen:
        raise refused(f"{pattern!r} has no field in braces", _EXAMPLE)
    return expression


def _expressions(pattern: str, seen: set[str]) -> Iterator[str]:
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "name":
                yield f"(?P<{_checked(token['name'], seen)}>[^/]+)"
            case "folders":
                yield "(?:[^/]+/)*"
            case "rest":
                yield ".*"
            case "star":
                yield "[^/]*"
            case "one":
                yield "[^/]"
            case "brace":
                raise refused(f"{pattern!r} has a brace without the other", _EXAMPLE)
            case _:
                yield re.escape(token[0])


def _checked(name: str, seen: set[str]) -> str:
    if "," in name:
        raise refused(f"{{{name}}} lists alternatives", "write '*' for a part that varies")
    if not _NAME.fullmatch(name):
        hint = "a name starts with a letter or '_', followed by letters, digits and '_'"
        raise refused(f"{name!r} cannot be the name of a field", hint)
    refuse_reserved(name)
    if name in seen:
        raise refused(f"the pattern has the field {name!r} twice", "use another name, or '*'")
    seen.add(name)
    if len(seen) > _MOST_FIELDS:
        raise refused(f"the pattern has more than {_MOST_FIELDS} fields", _EXAMPLE)
    return name


def refuse_reserved(name: str, *path: str) -> None:
    """Raise `RefusedError` if passages use the name for their place, at a path below the value."""
    if name in RESERVED_NAMES:
        message = f"passages have their own {name!r}, which citations use"
        raise refused(message, "use another name", *path)


def checked_pattern(pattern: str) -> str:
    path_expression(pattern)
    return pattern
