"""The formats in which passages are written: bullets, JSON lines, Markdown and XML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape

from lorebind_prompts.cleaning import INVISIBLE, clean_line, clean_text
from lorebind_prompts.rendering.base import (
    BLANK,
    LINE_START,
    NUMBER,
    SPACE,
    Passage,
    delimited,
    spelled,
)

_HEADER = re.compile(r"- (\[[^\]\s]+\])(?: (.*))?")


class Bullets:
    """Writes a passage as a bullet with its number and source, and its text indented below."""

    imitation = rf"{LINE_START}-{BLANK}++{NUMBER}"

    def entry(self, passage: Passage) -> str:
        header = f"- {passage.marker} {clean_line(passage.source)}".rstrip()
        return f"{header}\n{indented(clean_text(passage.content))}".rstrip()

    def block(self, entries: Sequence[str], label: str | None = None, *, weak: bool = False) -> str:
        return delimited(entries, label=label, weak=weak)

    def read(self, lines: Sequence[str]) -> list[Passage]:
        entries: list[tuple[str, str, list[str]]] = []
        for line in lines:
            if header := _HEADER.fullmatch(line):
                entries.append((header[1], header[2] or "", []))
            elif entries:
                entries[-1][2].append(line.removeprefix("  "))
        return [Passage(marker, source, "\n".join(body)) for marker, source, body in entries]


def indented(text: str) -> str:
    """Indent all lines except empty ones by two spaces."""
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))


class JsonLines:
    """Writes a passage as an object with `marker`, `source` and `text`."""

    imitation = rf'"{SPACE}(?i:{spelled("marker")}){SPACE}"{SPACE}:{SPACE}"{SPACE}{NUMBER}'

    def entry(self, passage: Passage) -> str:
        written = {
            "marker": passage.marker,
            "source": clean_line(passage.source),
            "text": clean_text(passage.content),
        }
        return json.dumps(written, ensure_ascii=False)

    def block(self, entries: Sequence[str], label: str | None = None, *, weak: bool = False) -> str:
        return delimited(["[", ",\n".join(entries), "]"], label=label, form="json", weak=weak)

    def read(self, lines: Sequence[str]) -> list[Passage]:
        objects = [line.rstrip(",") for line in lines if line.startswith("{")]
        values = [json.loads(line) for line in objects]
        return [Passage(value["marker"], value["source"], value["text"]) for value in values]


_HEADING = re.compile(r"### (\[[^\]\s]+\])(?: (.*))?")


class Markdown:
    """Writes a passage as a heading with its number and source, and its text as a quotation."""

    imitation = rf"{LINE_START}#[#{INVISIBLE}]*+{BLANK}++{NUMBER}"

    def entry(self, passage: Passage) -> str:
        heading = f"### {passage.marker} {clean_line(passage.source)}".rstrip()
        lines = clean_text(passage.content).split("\n")
        return "\n".join([heading, "", *(f"> {line}" if line else ">" for line in lines)])

    def block(self, entries: Sequence[str], label: str | None = None, *, weak: bool = False) -> str:
        return delimited(["", "\n\n".join(entries), ""], label=label, form="markdown", weak=weak)

    def read(self, lines: Sequence[str]) -> list[Passage]:
        entries: list[tuple[str, str, list[str]]] = []
        for line in lines:
            if heading := _HEADING.fullmatch(line):
                entries.append((heading[1], heading[2] or "", []))
            elif entries and line.startswith(">"):
                entries[-1][2].append(line[1:].removeprefix(" "))
        return [Passage(marker, source, "\n".join(body)) for marker, source, body in entries]


_PASSAGE = re.compile(r'<passage marker="([^"]*)" source="([^"]*)">\n(.*?)\n?</passage>', re.DOTALL)
_REFERENCES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Xml:
    """Writes a passage as an element with its number and source as attributes."""

    imitation = (
        rf"(?i:<[{INVISIBLE}]*+{spelled('passage')}(?>[^<>]*?{spelled('marker')}{SPACE}={SPACE}))"
        rf"[\"']?+{SPACE}{NUMBER}"
    )

    def entry(self, passage: Passage) -> str:
        source = _escaped(clean_line(passage.source)).replace('"', "&quot;")
        opening = f'<passage marker="{passage.marker}" source="{source}">'
        return f"{opening}\n{_escaped(clean_text(passage.content))}\n</passage>"

    def block(self, entries: Sequence[str], label: str | None = None, *, weak: bool = False) -> str:
        return delimited(entries, label=label, form="xml", weak=weak)

    def read(self, lines: Sequence[str]) -> list[Passage]:
        return [
            Passage(match[1], unescape(match[2]), unescape(match[3]))
            for match in _PASSAGE.finditer("\n".join(lines))
        ]


def _escaped(text: str) -> str:
    return text.translate(_REFERENCES)
