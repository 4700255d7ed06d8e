"""Load Markdown: front matter, title and headings; the text is kept as written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    MOST_HEADINGS,
    Heading,
    LoadedDocument,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.front_matter import flat_values, read_front_matter
from lorebind_knowledge.text.markdown import LINE, outside_fences

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
    title = values.get("title")
    if not isinstance(title, str) or not 0 < len(title.strip()) <= LONGEST_TITLE:
        title = headings[0].title if headings else title_of(uri)
    return LoadedDocument(
        text,
        well_formed(title.strip()),
        headings,
        body_start,
        flat_values(values),
        format="markdown",
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
