"""JSON and JSON Lines: every value beside the path that leads to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    LoadedDocument,
    joined,
    title_of,
    well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_KEY = 200
"""A key stands in the path of all that is below it."""
_LONGEST_PATH = 2000
"""Of a longer path only the end is said."""


def load_json(text: str, uri: str) -> LoadedDocument:
    """One `path: value` line for each value: `servers[0].name: alpha`.

    The title is the top object's `title`, else the file's name.
    """
    value = parsed_json(text, uri)
    title = value.get("title") if isinstance(value, dict) else None
    if not isinstance(title, str) or not 0 < len(title.strip()) <= LONGEST_TITLE:
        title = title_of(uri)
    lines = joined(_pairs(value), uri)
    return LoadedDocument(well_formed(lines), well_formed(title.strip()), format="json")


def load_json_lines(text: str, uri: str) -> LoadedDocument:
    """The pairs of each line's value side by side, so that lines are those of the file."""
    # Not splitlines: strings may hold other line separators, such as U+2028.
    lines = (
        " | ".join(" ".join(pair.split()) for pair in _pairs(parsed_json(line, uri, number)))
        if line.strip()
        else ""
        for number, line in enumerate(text.split("\n"), 1)
    )
    return LoadedDocument(well_formed(joined(lines, uri)), title_of(uri), format="jsonl")


def parsed_json(text: str, uri: str, number: int | None = None) -> Any:
    """The value of a text.

    Args:
        text: the whole document or one line of it.
        uri: the document, for messages.
        number: of the line.

    Raises:
        SourceError: when it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {number or error.lineno}, column {error.colno}"
        raise SourceError(f"{uri}: {place}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise SourceError(f"{uri}: nested too deeply to be read as JSON") from error
    except ValueError as error:  # an integer of more digits than Python converts
        place = f"line {number}: " if number else ""
        raise SourceError(f"{uri}: {place}a number is too long") from error


def _pairs(value: Any) -> Iterator[str]:
    """`path: value` of every value that holds no others, in the order of the file."""
    levels = [iter([("", value)])]
    while levels:
        for path, entry in levels[-1]:
            if isinstance(entry, (dict, list)) and entry:
                levels.append(_below(path, entry))
                break
            said = entry if isinstance(entry, str) else json.dumps(entry)
            yield f"{path}: {said}" if path else said
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
