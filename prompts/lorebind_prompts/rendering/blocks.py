"""Write passages as blocks, read blocks back, and disarm text that only reads like one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError, did_you_mean
from lorebind_prompts.cleaning import INVISIBLE, clean_text
from lorebind_prompts.rendering.base import SPACE, WEAK, Passage, spelled
from lorebind_prompts.rendering.formats import Bullets, JsonLines, Markdown, Xml

if TYPE_CHECKING:
    from lorebind_prompts.rendering.base import Renderer

BUILT_IN: dict[str, Renderer] = {
    "bullets": Bullets(),
    "json": JsonLines(),
    "xml": Xml(),
    "markdown": Markdown(),
}


def renderer_for(name: str) -> Renderer:
    """Return the renderer of that name, or one for a template.

    Raises:
        UsageError: no renderer has that name (the message lists the known ones), or the template
            is invalid.
    """
    if "{{" in name:
        from lorebind_prompts.rendering.template import TemplateRenderer  # loads the declarations

        return TemplateRenderer(name)
    if name not in BUILT_IN:
        raise UsageError(f"no renderer {name!r}; {did_you_mean(name, BUILT_IN)}")
    return BUILT_IN[name]


def render(
    passages: Sequence[Passage], *, renderer: str = "bullets", label: str | None = None
) -> str:
    """Return all passages as one block; an empty string if there are none.

    All kinds of line breaks become `\\n`. Invisible characters and blank lines around a passage are
    removed. Each source is put on one line. `label` names the block.
    """
    if not passages:
        return ""
    chosen = renderer_for(renderer)
    return chosen.block([chosen.entry(passage) for passage in passages], label)


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
    for end in _CLOSING.finditer(text):
        ends.setdefault(end[1], []).append(end)
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


_NAME = rf"(?=[{INVISIBLE}]*+(?:/{SPACE})?+{spelled('knowledge')}(?:[\s/>{INVISIBLE}]|\Z))"
_DELIMITER = rf"<{_NAME}|(?<!\w)<(?i:{_NAME})"
"""In any case, but a type parameter such as `List<Knowledge>` stays."""


def without_imitations(pieces: Sequence[tuple[str, bool]], templates: Sequence[str] = ()) -> str:
    """Join the pieces of a text, without what reads like a block of passages.

    Args:
        pieces: each with whether it is foreign, such as a model's answer. The others are not
            changed, unless a foreign one completes them.
        templates: the templates that write passages in the same prompt.
    """
    foreign, at = [], 0
    for piece, is_foreign in pieces:
        if is_foreign and piece:
            foreign.append((at, at + len(piece)))
        at += len(piece)
    if not foreign:
        return "".join(piece for piece, _ in pieces)

    def broken(match: re.Match[str]) -> str:
        start, end = match.start(), match.end() + 1  # with the first character of the number
        if not any(start < stop and begin < end for begin, stop in foreign):
            return match[0]
        return "< " if match["delimiter"] else f"{match[0]}\\"

    return _imitations(tuple(templates)).sub(broken, "".join(piece for piece, _ in pieces))


@lru_cache(maxsize=64)
def _imitations(templates: tuple[str, ...]) -> re.Pattern[str]:
    renderers = [*BUILT_IN.values(), *map(renderer_for, templates)]
    entries = "|".join(f"(?:{renderer.imitation})" for renderer in renderers)
    return re.compile(rf"{entries}|(?P<delimiter>{_DELIMITER})")
