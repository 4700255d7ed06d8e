"""Whether a page can be parsed in reasonable time, told before it is.

The HTML standard has a parser look through the open elements at most start tags, and compare each
attribute with those before it. On pages made for it, that takes quadratic time: four mebibytes of
`<div>` would keep a processor busy for half an hour.
"""

from __future__ import annotations

import re

from lorebind_knowledge.loaders.base import words

MAX_STEPS = 200_000_000
"""Of comparing open elements or attributes; a few seconds."""

_SMALL = 30_000
"""Neither tags below this number nor characters of one tag can reach the limit."""

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)((?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+)>")
_NEXT = re.compile(r"<(?:!--|/?[a-zA-Z])")
_ATTRIBUTE = re.compile(r"[^\s/>=]++(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>]*+))?+")

_RAW = {"script", "style", "textarea", "title", "iframe", "xmp", "noembed", "noframes"}
_NOT_NESTED = words(
    "area base br col embed hr img input link meta param source track wbr "
    "p li dt dd tr td th tbody thead tfoot colgroup option html head body"
)
"""Void elements, and those that end by themselves."""
_FORMATTING = words("a b big code em font i nobr s small strike strong tt u")
"""Closing one opens again what was opened inside it."""
_BOUNDARIES = {
    "table",
    "object",
    "marquee",
    "applet",
    "template",
    "button",
    "select",
    "svg",
    "math",
}
"""No end tag reaches beyond them."""
_REACH = 8
"""How many open elements an end tag is taken to close at most."""


def too_costly(markup: str) -> bool:
    """Whether parsing would take more than `MAX_STEPS`, in time that grows with the length."""
    if markup.count("<") < _SMALL and len(markup) < _SMALL:
        return False
    steps = 0
    open_names: list[str] = []
    position = 0
    while found := _NEXT.search(markup, position):
        if found[0] == "<!--":
            position = markup.find("-->", found.end()) + 3
            if position < 3:
                break
            continue
        tag = _TAG.match(markup, found.start())
        if tag is None:  # a tag without end: a parser drops the rest
            return steps > MAX_STEPS
        position = tag.end()
        name = tag[2].lower()
        steps += len(open_names)
        if tag[1]:
            _close(open_names, name)
            continue
        if len(tag[3]) > 100:
            steps += sum(1 for _ in _ATTRIBUTE.finditer(tag[3])) ** 2
        if steps > MAX_STEPS:
            return True
        if name in _RAW:
            position = _end_of_raw(markup, name, position)
        elif name not in _NOT_NESTED and not tag[3].endswith("/"):
            open_names.append(name)
    return steps > MAX_STEPS


def _close(open_names: list[str], name: str) -> None:
    for index in range(len(open_names) - 1, max(-1, len(open_names) - 1 - _REACH), -1):
        if open_names[index] == name:
            del open_names[index : index + 1 if name in _FORMATTING else None]
            return
        if open_names[index] in _BOUNDARIES:
            return


def _end_of_raw(markup: str, name: str, start: int) -> int:
    found = re.compile(f"</{name}", re.IGNORECASE).search(markup, start)
    return found.start() if found else len(markup)
