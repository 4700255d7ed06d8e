"""Load JSON and JSON Lines: each value with its path."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.loaders.base import (
    LoadedDocument,
    declared_title,
    joined,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.rows import add_record, values_of
from lorebind_knowledge.text.values import parsed_json

if TYPE_CHECKING:
    from lorebind_config.declarations.sources import SourceMetadata
    from lorebind_knowledge.loaders.marks import Record

_LONGEST_KEY = 200
"""In characters; a key is part of the paths of all values below it."""
_LONGEST_PATH = 2000
"""In characters; only the end of a longer path is written."""
_BLANK = object()
"""The value of a blank line, which is not null."""


def load_json(text: str, uri: str, declared: SourceMetadata | None = None) -> LoadedDocument:
    """Load JSON with one line per value: `servers[0].name: alpha`.

    The title is the `title` of the top-level object, or else the file name. The keys that are
    declared to be metadata are those of this object, or of each object in a top-level list.
    """
    value = parsed_json(text, uri)
    title = declared_title(value.get("title")) if isinstance(value, dict) else ""
    objects = _below("", value) if isinstance(value, list) and value else [("", value)]
    parts = ((_pairs(entry, path), entry) for path, entry in objects)
    return _document(parts, uri, title, "json", declared)


def load_json_lines(text: str, uri: str, declared: SourceMetadata | None = None) -> LoadedDocument:
    """Load JSON Lines: each line has all values of that line, so line numbers match the file.

    The keys that are declared to be metadata are those of the object in each line.
    """
    # Not splitlines: strings may contain other line separators, such as U+2028.
    parts = (
        _line(parsed_json(line, uri, number)) if line.strip() else ([""], _BLANK)
        for number, line in enumerate(text.split("\n"), 1)
    )
    return _document(parts, uri, "", "jsonl", declared)


def _line(value: Any) -> tuple[list[str], Any]:
    return [" | ".join(" ".join(pair.split()) for pair in _pairs(value))], value


def _document(
    parts: Iterable[tuple[Iterable[str], Any]],
    uri: str,
    title: str,
    form: str,
    declared: SourceMetadata | None,
) -> LoadedDocument:
    """Return the document of the lines of each part, with the metadata that its value has."""
    keys = declared.metadata_keys if declared is not None else []
    records: list[Record] = []

    def lines() -> Iterator[str]:
        at = 0
        for some, value in parts:
            if keys and value is not _BLANK:
                add_record(records, at, values_of(value, keys), uri)
            for line in some:
                usable = well_formed(line)
                at += len(usable) + 1
                yield usable

    text = joined(lines(), uri)
    return LoadedDocument(text, title or title_of(uri), format=form, records=tuple(records))


def _pairs(value: Any, path: str = "") -> Iterator[str]:
    """Yield `path: value` for each value without children, in file order."""
    levels = [iter([(path, value)])]
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
