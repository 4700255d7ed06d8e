"""Reading the passages out of a prompt again: the inverse of `render`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_prompts.cleaning import clean_text
from lorebind_prompts.rendering.base import WEAK, Passage
from lorebind_prompts.rendering.bullets import Bullets
from lorebind_prompts.rendering.json_lines import JsonLines
from lorebind_prompts.rendering.markdown import Markdown
from lorebind_prompts.rendering.xml import Xml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OPENING = re.compile(r'<knowledge id=([0-9a-f]{8})(?: format=([a-z]+))?(?: label="[^"]*")?>')
_MARKER = re.compile(r"\[[0-9]+\]")
_CLOSING = re.compile(r"</knowledge id=([0-9a-f]{8})>")


def _read_template(lines: Sequence[str]) -> list[Passage]:
    """What can be told of passages that a template wrote: the indented text below each marker."""
    passages: list[tuple[str, list[str]]] = []
    for line in lines:
        marker = None if line.startswith("  ") else _MARKER.search(line)
        if marker and marker[0] not in (known for known, _ in passages):
            passages.append((marker[0], []))
        elif passages and (line.startswith("  ") or not line):
            passages[-1][1].append(line.removeprefix("  "))
    return [Passage(marker, "", clean_text("\n".join(text))) for marker, text in passages]


_READERS: dict[str, Callable[[Sequence[str]], list[Passage]]] = {
    "": Bullets().read,
    "json": JsonLines().read,
    "xml": Xml().read,
    "markdown": Markdown().read,
    "template": _read_template,
}


def parse(text: str) -> list[Passage]:
    """The passages of all blocks that a prompt contains.

    Of blocks that a template wrote, as much as can be told: the text below each marker.
    """
    return [
        replace(passage, weak=preamble.endswith(WEAK))
        for form, preamble, block in _split(text)[1]
        for passage in _READERS[form](block)
    ]


def without_blocks(text: str) -> str:
    """What a prompt says besides its blocks."""
    return "\n".join(_split(text)[0]).strip()


def _split(text: str) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """The lines outside of blocks; of each block its format, its preamble, and the lines below."""
    lines = text.split("\n")
    ends: dict[str, list[int]] = {}
    for index in reversed(range(len(lines))):
        if found := _CLOSING.fullmatch(lines[index]):
            ends.setdefault(found[1], []).append(index)
    outside, blocks, index = [], [], 0
    while index < len(lines):
        opening = _OPENING.fullmatch(lines[index])
        end = _next_after(index, ends.get(opening[1], [])) if opening else None
        if opening is None or end is None or (opening[2] or "") not in _READERS:
            outside.append(lines[index])
            index += 1
        else:
            blocks.append((opening[2] or "", lines[index + 1], lines[index + 2 : end]))
            index = end + 1
    return outside, blocks


def _next_after(index: int, descending: list[int]) -> int | None:
    while descending and descending[-1] <= index:
        descending.pop()
    return descending[-1] if descending else None
