"""Load Markdown: front matter in YAML, title and headings; the text is kept as written."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import yaml

from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    MOST_HEADINGS,
    MOST_TABLES,
    LoadedDocument,
    declared_title,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.marks import Heading, Table
from lorebind_knowledge.loaders.properties import as_date
from lorebind_knowledge.records import Span
from lorebind_knowledge.text.markdown import LINE, TABLE_DASHES, outside_fences

_LONGEST_BLOCK = 2**16
"""In characters; longer blocks count as text."""

_BLOCK = re.compile(
    rf"\A---[ \t]*+\r?\n(.{{0,{_LONGEST_BLOCK}}}?)^---[ \t]*+(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)

_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*+(?::[0-5]?[0-9])++(?:\.[0-9_]*+)?\Z")

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
    """Return the values that are scalars or lists of scalars, as JSON values; dates in UTC.

    Omits nested values, empty lists, numbers that JSON does not have, and names that the metadata
    of passages uses for something else.
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(name, str) or name in _RESERVED:
            continue
        if isinstance(value, list):
            scalars = [_scalar(entry) for entry in value]
            if scalars and None not in scalars:
                flat[well_formed(name)] = scalars
        elif (scalar := _scalar(value)) is not None:
            flat[well_formed(name)] = scalar
    return flat


def _scalar(value: object) -> str | int | float | None:
    match value:
        case str():
            return well_formed(value)
        case int() if -(2**63) <= value < 2**63:  # includes bool
            return value
        case float() if math.isfinite(value):
            return value
        case datetime.date():  # includes datetime
            return as_date(value) or None
    return None


# CommonMark 4.2 (ATX) and 4.3 (setext headings).
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|(?<=[ \t]))#+$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NOT_A_PARAGRAPH = re.compile(r" {0,3}([-*+>|#]|\d+[.)] )|    |\t|$")
_ATTRIBUTES = re.compile(r"\s*\{[^{}]*\}\s*$")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKUP = re.compile(r"(`++)(.+?)(?<!`)\1(?!`)|[*`]+|</?[A-Za-z][^<>]*>")


def load_markdown(text: str, uri: str) -> LoadedDocument:
    """Load Markdown; the title is that of the front matter, the first heading, or the file name."""
    values, body_start = read_front_matter(text)
    headings = tuple(islice(headings_of(text, body_start), MOST_HEADINGS))
    title = declared_title(values.get("title"))
    title = title or well_formed(headings[0].title if headings else title_of(uri))
    metadata = flat_values(values)
    tables = tuple(islice(tables_of(text, body_start), MOST_TABLES))
    return LoadedDocument(
        text, title, headings, body_start, metadata, format="markdown", tables=tables
    )


def headings_of(text: str, start: int) -> Iterator[Heading]:
    for first, last in outside_fences(text, start, len(text)):
        yield from _headings_between(text, first, last)


def _headings_between(text: str, start: int, end: int) -> Iterator[Heading]:
    above: int | None = None  # start of the paragraph that an underline would make a heading
    for line in LINE.finditer(text, start, end):
        content = line[0].rstrip("\r\n")
        if heading := _ATX.match(content):
            above = None
            if title := _plain(_CLOSING_HASHES.sub("", (heading[2] or "").rstrip(" \t"))):
                yield Heading(line.start(), len(heading[1]), title)
        elif above is not None and (underline := _SETEXT.match(content)):
            if title := _plain(text[above : line.start()]):
                yield Heading(above, 1 if underline[1][0] == "=" else 2, title)
            above = None
        elif _NOT_A_PARAGRAPH.match(content):
            above = None
        elif above is None:
            above = line.start()


def tables_of(text: str, start: int) -> Iterator[Table]:
    """Yield the pipe tables, whose header is the line above the row of dashes."""
    if "|" not in text or not TABLE_DASHES.search(text, start):
        return  # most texts, which need no search for fences
    for first, last in outside_fences(text, start, len(text)):
        position = first
        while dashes := TABLE_DASHES.search(text, position, last):
            position = dashes.end()
            above = text.rfind("\n", first, max(first, dashes.start() - 1)) + 1 or first
            if "|" in dashes[0] and "|" in text[above : dashes.start()]:
                for line in LINE.finditer(text, dashes.end() + 1, last):
                    if "|" not in line[0]:
                        break
                    position = line.end()
                yield Table(above, dashes.start(), position)


def _plain(title: str) -> str:
    """Return a heading without its attribute list (`{ #anchor }`) and inline markup.

    Returns an empty string if it is too long for a title, which also limits the time.
    """
    if len(title) > LONGEST_TITLE:
        return ""
    title = _ATTRIBUTES.sub("", " ".join(title.split()))
    title = _LINK.sub(
        r"\1", _LINK.sub(r"\1", title)
    )  # twice, because the text of a link may be an image
    return _MARKUP.sub(lambda match: match[2] or "", title).strip()
