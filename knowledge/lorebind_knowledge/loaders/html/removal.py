"""Implement `preprocess.remove_html`: remove HTML from Markdown and text."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lorebind_knowledge.loaders.base import words
from lorebind_knowledge.text.markdown import InlineCode, outside_fences

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.base import LoadedDocument

_TAG = re.compile(
    r"<(/?)([A-Za-z][A-Za-z0-9-]*+)"
    r"(?:\s++[A-Za-z_:@][\w.:@-]*+(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^'<]*+'|\"[^\"<]*+\"))?+)*+\s*+(/?)>"
)
"""CommonMark 6.6, except that a `<` in quotes ends a tag, so no search goes far."""
_CLOSED = re.compile(r"</([A-Za-z][A-Za-z0-9-]*+)")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_MARK = re.compile(r"<!--|<(?=[A-Za-z/])|&|`+|\\[<&`]")

_MAY_HOLD_HTML = ("markdown", "text", "rst", "asciidoc")
_WITH_CONTENT = ("script", "style")
_INLINE = words(
    "a abbr b bdi bdo big cite code data del dfn em font i ins kbd mark nobr q s samp small span "
    "strike strong sub sup time tt u var wbr"
)
_KNOWN = _INLINE | words(
    "address area article aside audio base blockquote body br button canvas caption center col "
    "colgroup dd details dialog dir div dl dt embed fieldset figcaption figure footer form frame "
    "frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe img input label legend li link "
    "main map menu meta meter nav noscript object ol optgroup option output p param picture pre "
    "progress rp rt ruby script section select source style summary svg table tbody td template "
    "textarea tfoot th thead title tr track ul video"
)


def without_html(document: LoadedDocument) -> LoadedDocument:
    """Return the document without tags and comments, and with entities decoded.

    Scripts and styles are removed with their content. Code, in fences or backticks, stays as it is,
    and so does text that only looks like a tag: `List<String>`, `<your-name>`. Line breaks are
    kept, so line numbers stay the same. Documents of other formats are returned unchanged.
    """
    if document.format not in _MAY_HOLD_HTML:
        return document
    edited = document.edited(_edits(document.text, document.body_start))
    if edited is document:
        return document
    headings = tuple(
        heading._replace(title=" ".join(html.unescape(heading.title).split()))
        for heading in edited.headings
    )
    return dataclasses.replace(edited, headings=headings)


def _edits(text: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and replacement of each part to remove, in order."""
    closed = {name.lower() for name in _CLOSED.findall(text, start)}
    for first, last in outside_fences(text, start, len(text)):
        yield from _edits_between(text, first, last, closed)


def _edits_between(
    text: str, position: int, end: int, closed: set[str]
) -> Iterator[tuple[int, int, str]]:
    code = InlineCode(text, position, end)
    missing: set[str] = set()  # marks that do not occur up to the end: each is searched for once
    while mark := _MARK.search(text, position, end):
        position = mark.end()
        if mark[0][0] == "`":
            position = code.end(mark.start(), mark.end())
        elif mark[0] == "&":
            if entity := _ENTITY.match(text, mark.start(), end):
                position = entity.end()
                character = html.unescape(entity[0])
                if character != entity[0]:
                    yield mark.start(), position, " ".join(character.split()) or " "
        elif mark[0] == "<!--":
            after = _find("-->", text, position, end, missing)
            if after >= 0:
                position = after
                yield mark.start(), after, _line_breaks(text, mark.start(), after)
        elif mark[0] == "<" and (tag := _TAG.match(text, mark.start(), end)):
            name = tag[2].lower()
            if name not in _KNOWN and name not in closed and not tag[3]:
                continue
            position = tag.end()
            if name in _WITH_CONTENT and not tag[1]:
                after = _find(f"</{name}>", text, position, end, missing)
                position = after if after >= 0 else position
            yield mark.start(), position, _in_place_of(text, mark.start(), position, name)


def _in_place_of(text: str, start: int, end: int, name: str) -> str:
    """Return the replacement: its line breaks, or a space between words that a block separated."""
    breaks = _line_breaks(text, start, end)
    glues = start > 0 and not text[start - 1].isspace() and not text[end : end + 1].isspace()
    return breaks or (" " if glues and name not in _INLINE and end < len(text) else "")


def _line_breaks(text: str, start: int, end: int) -> str:
    return "\n" * text.count("\n", start, end)


def _find(mark: str, text: str, start: int, end: int, missing: set[str]) -> int:
    """Return the end of the mark, in any case, or -1; a missing mark is searched for only once."""
    if mark in missing:
        return -1
    match = re.compile(re.escape(mark), re.IGNORECASE).search(text, start, end)
    if match is None:
        missing.add(mark)
        return -1
    return match.end()
