"""Read the YAML front matter of a Markdown file."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from lorebind_knowledge.loaders.base import well_formed
from lorebind_knowledge.records import Span

_LONGEST_BLOCK = 2**16
"""In characters; longer blocks count as text."""

_BLOCK = re.compile(
    rf"\A---[ \t]*+\r?\n(.{{0,{_LONGEST_BLOCK}}}?)^---[ \t]*+(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)

_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*+(?::[0-5]?[0-9])++(?:\.[0-9_]*+)?\Z")

LONGEST_VALUE = 2_000
_MOST_ENTRIES = 200
"""Maximum length of a list; metadata is repeated with each passage."""

_RESERVED = {"title", "encoding", *Span.__slots__}
"""Names that passages' metadata uses for what a loader found."""


class _Loader(yaml.SafeLoader):
    """A YAML loader without merge keys, because their expansion can grow exponentially.

    It reads `12:30` and `1:30:00` as text, as YAML 1.2 does, instead of 750 and 5400.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        pass


_Loader.yaml_implicit_resolvers = {
    first: [("tag:yaml.org,2002:str", _SEXAGESIMAL), *others]
    for first, others in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_front_matter(text: str) -> tuple[dict[Any, Any], int]:
    """Return the values and the offset after the block.

    A block that is not a YAML mapping is part of the text.
    """
    block = _BLOCK.match(text)
    if not block:
        return {}, 0
    try:
        values = yaml.load(block[1], _Loader)
    except Exception:  # PyYAML can raise more than YAMLError for wrong tags or deep nesting
        return {}, 0
    return (values, block.end()) if isinstance(values, dict) else ({}, 0)


def flat_values(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values that are scalars or lists of scalars, as JSON values; dates in ISO 8601.

    Omits nested values, strings over 2,000 characters, lists over 200 entries, numbers that JSON
    does not have, and names that the metadata of passages uses for something else.
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(name, str) or name in _RESERVED or len(name) > LONGEST_VALUE:
            continue
        if isinstance(value, list):
            scalars = [_scalar(entry) for entry in value[: _MOST_ENTRIES + 1]]
            if None not in scalars and 0 < len(scalars) <= _MOST_ENTRIES:
                flat[well_formed(name)] = scalars
        elif (scalar := _scalar(value)) is not None:
            flat[well_formed(name)] = scalar
    return flat


def _scalar(value: object) -> str | int | float | None:
    match value:
        case str() if len(value) <= LONGEST_VALUE:
            return well_formed(value)
        case int() if -(2**63) <= value < 2**63:  # includes bool
            return value
        case float() if math.isfinite(value):
            return value
        case datetime.date():  # includes datetime
            return value.isoformat()
    return None
