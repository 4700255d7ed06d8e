"""Split a Markdown passage into units that can be quoted: sentences, list items, rows, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lorebind_knowledge.text.markdown import code_spans, end_of_cut_code, fences
from lorebind_knowledge.text.splitting import split_sentences

_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*)")
_ITEM = re.compile(r"\s*(?:[*+-]|\d{1,3}[.)])\s+(.*)")
_ROW = re.compile(r"\s*\|(.+)\|\s*")
_RULE = re.compile(r"[|:\s=*_-]{2,}")
# Admonition fences, include directives, template tags, images on a line of their own.
_FURNITURE = re.compile(
    r"\s*(?:/{3,}|:{3,}|(?:!!!|\?\?\?\+?)\s|\{[*!{%].*|!\[[^\]]*\]\([^)]*\)\s*$)"
)

# Languages of diagrams, which are meant to be drawn rather than read.
_DIAGRAMS = {"mermaid", "dot", "plantuml"}

_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--.{0,1000}?-->")
_LINK = re.compile(r"!?\[([^\[\]]+)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+\"[^\"]*\")?\)")
_ATTRIBUTES = re.compile(r"(?<!\s)\s*+\{\s*[.#:][^{}]*\}")


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest part of a passage that can be quoted."""

    kind: Literal["sentence", "item", "row", "code"]
    text: str
    """The text without markup that means nothing elsewhere: tags, link targets, list bullets."""
    heading: str = ""
    """The heading above it, if the passage contains one."""
    language: str = ""
    """The language of code, as its fence names it."""


def split_units(text: str) -> list[Unit]:
    """Return the quotable units of a passage in order, without headings and page furniture."""
    units: list[Unit] = []
    heading, paragraph, in_item = "", list[str](), False

    def close() -> None:
        nonlocal in_item
        body = _plain(" ".join(paragraph))
        if in_item and body:
            units.append(Unit("item", body, heading))
        else:
            units.extend(Unit("sentence", part, heading) for part in split_sentences(body))
        paragraph.clear()
        in_item = False

    for kind, content, language in _blocks(text):
        if kind == "line":
            paragraph.append(content)
            continue
        close()
        if kind == "heading":
            heading = _plain(content)
        elif kind == "item":
            paragraph.append(content)
            in_item = True
        elif kind == "row" and (row := _plain(content)):
            units.append(Unit("row", row, heading))
        elif kind == "code" and content.strip() and language not in _DIAGRAMS:
            units.append(Unit("code", content, heading, language))
    close()
    return units


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield lines with their kinds; a fenced block is one item, even if its start or end is cut."""
    at = end_of_cut_code(text)
    for fence in fences(text, at, len(text)):
        yield from _lines(text[at : fence.start])
        yield "code", fence.code(text), fence.language
        at = fence.end
    yield from _lines(text[at:])


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    table: list[str] = []
    for line in text.split("\n"):
        row = _ROW.fullmatch(line)
        if row and not _RULE.fullmatch(line):
            table.append(" | ".join(cell.strip() for cell in row[1].split("|")))
            continue
        if row and table:
            table.pop()  # the line above a rule holds the column names
        else:
            yield from (("row", content, "") for content in table)
            table = []
        yield _line(line)
    yield from (("row", content, "") for content in table)


def _line(line: str) -> tuple[str, str, str]:
    if heading := _HEADING.match(line):
        return "heading", heading[1], ""
    if not line.strip() or _RULE.fullmatch(line) or _FURNITURE.match(line):
        return "break", "", ""
    if "<" in line and not _TAG.sub("", line).strip():
        return "break", "", ""
    if item := _ITEM.match(line):
        return "item", item[1], ""
    return "line", line.strip().removeprefix(">").strip(), ""


def _plain(text: str) -> str:
    """Remove tags, link targets and attribute lists from Markdown; code spans do not change."""
    pieces, at = [], 0
    text = _LINK.sub(r"\1", text)
    for start, end in code_spans(text, 0, len(text)):
        pieces += [_untagged(text[at:start]), text[start:end]]
        at = end
    pieces.append(_untagged(text[at:]))
    return re.sub(r"\s+", " ", "".join(pieces)).strip()


def _untagged(text: str) -> str:
    return _ATTRIBUTES.sub("", _TAG.sub("", text))
