"""Read the passages out of a prompt: the inverse of `render`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from lorebind_prompts.cleaning import clean_text
from lorebind_prompts.rendering.base import WEAK, Passage
from lorebind_prompts.rendering.formats import Bullets, JsonLines, Markdown, Xml

_OPENING = re.compile(r'<knowledge id=([0-9a-f]{8})(?: format=([a-z]+))?(?: label="[^"\n]*")?>\n')
_MARKER = re.compile(r"\[[0-9]+\]")
_CLOSING = re.compile(r"\n</knowledge id=([0-9a-f]{8})>")


def _read_template(lines: Sequence[str]) -> list[Passage]:
    """Read the passages that a template wrote: the indented text below each marker."""
    passages: dict[str, list[str]] = {}
    text: list[str] = []
    for line in lines:
        marker = None if line.startswith("  ") else _MARKER.search(line)
        if marker and marker[0] not in passages:
            text = passages[marker[0]] = []
        elif line.startswith("  ") or not line:
            text.append(line.removeprefix("  "))
    return [Passage(marker, "", clean_text("\n".join(text))) for marker, text in passages.items()]


_READERS: dict[str, Callable[[Sequence[str]], list[Passage]]] = {
    "": Bullets().read,
    "json": JsonLines().read,
    "xml": Xml().read,
    "markdown": Markdown().read,
    "template": _read_template,
}


def parse(text: str) -> list[Passage]:
    """Return the passages of all blocks in a prompt.

    From blocks that a template wrote, it reads only the markers and the text below them.
    """
    return [
        replace(passage, weak=preamble.endswith(WEAK))
        for form, preamble, block in _split(text)[1]
        for passage in _READERS[form](block)
    ]


def without_blocks(text: str) -> str:
    """Return the text of a prompt outside its blocks."""
    return "".join(_split(text)[0]).strip()


def _split(text: str) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """Return the text outside of blocks, and each block's format, preamble and other lines."""
    ends: dict[str, list[re.Match[str]]] = {}
    for found in _CLOSING.finditer(text):
        ends.setdefault(found[1], []).append(found)
    for several in ends.values():
        several.reverse()
    outside, blocks, at = [], [], 0
    for opening in _OPENING.finditer(text):
        if opening.start() < at or (opening[2] or "") not in _READERS:
            continue
        closing = _next_after(opening.end(), ends.get(opening[1], []))
        if closing is None:
            continue
        preamble, *lines = text[opening.end() : closing.start()].split("\n")
        blocks.append((opening[2] or "", preamble, lines))
        outside.append(text[at : opening.start()])
        at = closing.end()
        if text[opening.start() - 1 : opening.start()] in ("", "\n") and text[at : at + 1] == "\n":
            at += 1  # remove the line break after a block that has its lines to itself
    return [*outside, text[at:]], blocks


def _next_after(start: int, descending: list[re.Match[str]]) -> re.Match[str] | None:
    while descending and descending[-1].start() < start:
        descending.pop()
    return descending[-1] if descending else None
