"""Load JSON and JSON Lines: each value with its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LoadedDocument,
    declared_title,
    joined,
    title_of,
    well_formed,
)

_LONGEST_KEY = 200
"""In characters; a key is part of the paths of all values below it."""
_LONGEST_PATH = 2000
"""In characters; only the end of a longer path is written."""


def load_json(text: str, uri: str) -> LoadedDocument:
    """Load JSON with one line per value: `servers[0].name: alpha`.

    The title is the `title` of the top-level object, or else the file name.
    """
    value = parsed_json(text, uri)
    title = declared_title(value.get("title")) if isinstance(value, dict) else ""
    lines = joined(_pairs(value), uri)
    return LoadedDocument(well_formed(lines), title or title_of(uri), format="json")


def load_json_lines(text: str, uri: str) -> LoadedDocument:
    """Load JSON Lines: each line has all values of that line, so line numbers match the file."""
    # Not splitlines: strings may contain other line separators, such as U+2028.
    lines = (
        " | ".join(" ".join(pair.split()) for pair in _pairs(parsed_json(line, uri, number)))
        if line.strip()
        else ""
        for number, line in enumerate(text.split("\n"), 1)
    )
    return LoadedDocument(well_formed(joined(lines, uri)), title_of(uri), format="jsonl")


def parsed_json(text: str, uri: str, number: int | None = None) -> Any:
    """Parse JSON.

    Args:
        text: the whole document, or one line of it.
        uri: the document, for messages.
        number: the line number, if it is one line.

    Raises:
        SourceError: it is not JSON, is nested too deeply, or has a number that is too long.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {number or error.lineno}, column {error.colno}"
        raise SourceError(f"{uri}: {place}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise SourceError(f"{uri}: is nested too deeply to be read as JSON") from error
    except ValueError as error:  # Python limits the digits of integers
        place = f"line {number}: " if number else ""
        raise SourceError(f"{uri}: {place}a number is too long") from error


def _pairs(value: Any) -> Iterator[str]:
    """Yield `path: value` for each value without children, in file order."""
    levels = [iter([("", value)])]
    while levels:
        for path, entry in levels[-1]:
            if isinstance(entry, (dict, list)) and entry:
                levels.append(_below(path, entry))
                break
            text = entry if isinstance(entry, str) else json.dumps(entry)
            yield f"{path}: {text}" if path else text
        else:
            levels.pop()


def _below(path: str, value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if len(path) > _LONGEST_PATH:
        path = f"…{path[-_LONGEST_PATH:]}"
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield f"{path}[{index}]", entry
    else:
        for key, entry in value.items():
            name = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…"
            yield f"{path}.{name}" if path else name, entry
