"""A page's markup as tags and texts, in time that grows with its length alone."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.loaders.base import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# HTML 13.2.5. A quotation mark is one only behind an equals sign; elsewhere it is part of a name.
_NAME = r"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
_VALUE = r"""[ \t\n\f\r]*+(?:"[^"]*+"|'[^']*+'|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|(?=>|\Z))"""
_ATTRIBUTE = rf"{_NAME}(?:[ \t\n\f\r]*+={_VALUE})?+"
_TOKEN = re.compile(
    rf"<(/?)([a-zA-Z][^ \t\n\f\r/>]*+)((?:[ \t\n\f\r/]++|{_ATTRIBUTE})*+)>"
    r"|<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<(?:[!?]|/[^a-zA-Z])[^>]*+>?"  # a doctype, an instruction, or a comment gone wrong
    r"|(<)/?[a-zA-Z]",  # a tag without end
    re.DOTALL,
)
_READ_ATTRIBUTE = re.compile(rf"({_NAME})(?:[ \t\n\f\r]*+=({_VALUE}))?+")
_ATTRIBUTES = words("aria-hidden class hidden href id itemprop role start style")
"""The attributes that decide what is read."""

_RAW = words("script style iframe noembed noframes textarea title xmp")
"""Elements in which tags are text."""
_SCRIPT = re.compile(r"<!--|-->|<(/?)script(?=[ \t\n\f\r/>])", re.IGNORECASE)
_NONE: Mapping[str, str] = {}


class Tag(NamedTuple):
    """A tag, of the element's name in lower case."""

    name: str
    is_end: bool
    is_empty: bool
    """Whether it says that it ends itself: `<path/>`."""
    attributes: Mapping[str, str]
    """Those of them that somebody asks for, by their names in lower case."""


def tokens(markup: str) -> Iterator[Tag | str]:
    """Tags and texts in the order of the page, with entities as the characters they stand for."""
    position = 0
    while found := _TOKEN.search(markup, position):
        if found.start() > position:
            yield html.unescape(markup[position : found.start()])
        position = found.end()
        slash, name, rest, broken = found.groups()
        if broken:  # no parser reads on behind it
            return
        if not name:
            continue
        name = name.lower()
        attributes = _attributes(rest) if rest and not slash else _NONE
        yield Tag(name, bool(slash), rest[-1:] == "/", attributes)
        if name in _RAW and not slash:
            end = _end_of_raw(markup, name, position)
            content = markup[position:end]
            yield html.unescape(content) if name in ("title", "textarea") else content
            position = end
    if position < len(markup):
        yield html.unescape(markup[position:])


def _attributes(written: str) -> Mapping[str, str]:
    kept: dict[str, str] = {}
    for name, value in _READ_ATTRIBUTE.findall(written):
        name = name.lower()
        if name in _ATTRIBUTES and name not in kept:
            value = value.strip(" \t\n\f\r")
            kept[name] = html.unescape(value[1:-1] if value[:1] in ("'", '"') else value)
    return kept or _NONE


def _end_of_raw(markup: str, name: str, start: int) -> int:
    """Where the end tag stands, or the end of the page where there is none."""
    if name == "script":
        return _end_of_script(markup, start)
    found = _end_tag(name).search(markup, start)
    return found.start() if found else len(markup)


@lru_cache
def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE)


def _end_of_script(markup: str, start: int) -> int:
    """The same of a script: one that is in a comment may write scripts itself."""
    in_comment = in_script = False
    position = start
    while found := _SCRIPT.search(markup, position):
        position = found.end()
        if found[0] == "<!--":
            in_comment = True
            position -= 2  # `<!-->` is a whole comment
        elif found[0] == "-->":
            in_comment = in_script = False
        elif not found[1]:
            in_script = in_comment
        elif in_script:
            in_script = False
        else:
            return found.start()
    return len(markup)
