"""Reading the passages out of a prompt again: the inverse of `render`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind_prompts.rendering.bullets import Bullets
from lorebind_prompts.rendering.json_lines import JsonLines
from lorebind_prompts.rendering.markdown import Markdown
from lorebind_prompts.rendering.template import read_template
from lorebind_prompts.rendering.xml import Xml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lorebind_prompts.rendering.base import Passage

_OPENING = re.compile(r'<knowledge id=([0-9a-f]{8})(?: format=([a-z]+))?(?: label="[^"]*")?>')
_CLOSING = re.compile(r"</knowledge id=([0-9a-f]{8})>")

_READERS: dict[str, Callable[[Sequence[str]], list[Passage]]] = {
    "": Bullets().read,
    "json": JsonLines().read,
    "xml": Xml().read,
    "markdown": Markdown().read,
    "template": read_template,
}


def parse(text: str) -> list[Passage]:
    """The passages of all blocks that a prompt contains.

    Of blocks that a template wrote, as much as can be told: the text below each marker.
    """
    return [passage for form, block in _split(text)[1] for passage in _READERS[form](block)]


def without_blocks(text: str) -> str:
    """What a prompt says besides its blocks."""
    return "\n".join(_split(text)[0]).strip()


def _split(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The lines outside of blocks; of each block its format, and its lines below the preamble."""
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
            blocks.append((opening[2] or "", lines[index + 2 : end]))
            index = end + 1
    return outside, blocks


def _next_after(index: int, descending: list[int]) -> int | None:
    while descending and descending[-1] <= index:
        descending.pop()
    return descending[-1] if descending else None
