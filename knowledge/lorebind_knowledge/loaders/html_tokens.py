"""Split a page's markup into tags and texts, in linear time."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from lorebind_knowledge.loaders.base import words

# HTML 13.2.5. A quotation mark only quotes after an equals sign; elsewhere it is part of a name.
_NAME = r"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
_VALUE = r"""[ \t\n\f\r]*+(?:"[^"]*+"|'[^']*+'|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|(?=>|\Z))"""
_ATTRIBUTE = rf"{_NAME}(?:[ \t\n\f\r]*+={_VALUE})?+"
_TOKEN = re.compile(
    rf"<(/?)([a-zA-Z][^ \t\n\f\r/>]*+)((?:[ \t\n\f\r/]++|{_ATTRIBUTE})*+)>"
    r"|<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<(?:[!?]|/[^a-zA-Z])[^>]*+>?"  # a doctype, an instruction, or a malformed comment
    r"|(<)/?[a-zA-Z]",  # an unclosed tag
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
    """A tag, with the element's name in lower case."""

    name: str
    is_end: bool
    is_empty: bool
    """Whether it is an empty-element tag: `<path/>`."""
    attributes: Mapping[str, str]
    """The attributes that are used, by lower-case name."""


def tokens(markup: str) -> Iterator[Tag | str]:
    """Yield tags and texts in page order, with entities decoded."""
    position = 0
    while found := _TOKEN.search(markup, position):
        if found.start() > position:
            yield html.unescape(markup[position : found.start()])
        position = found.end()
        slash, name, rest, broken = found.groups()
        if broken:  # no parser continues after it
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
    """Return the start of the end tag, or the end of the page if there is none."""
    if name == "script":
        return _end_of_script(markup, start)
    found = _end_tag(name).search(markup, start)
    return found.start() if found else len(markup)


@lru_cache
def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE)


def _end_of_script(markup: str, start: int) -> int:
    """Return the same for a script; in a comment, a script may contain script tags."""
    in_comment = in_script = False
    position = start
    while found := _SCRIPT.search(markup, position):
        position = found.end()
        if found[0] == "<!--":
            in_comment = True
            position -= 2  # `<!-->` is a complete comment
        elif found[0] == "-->":
            in_comment = in_script = False
        elif not found[1]:
            in_script = in_comment
        elif in_script:
            in_script = False
        else:
            return found.start()
    return len(markup)
