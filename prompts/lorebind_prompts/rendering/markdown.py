"""Passages as Markdown:

    ### [1] docs/cors.md, lines 12-30: CORS

    > The text of the passage, every line of it quoted.

Every line of a passage begins with `>`, so it cannot write a heading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lorebind_prompts.cleaning import INVISIBLE, clean_line, clean_text
from lorebind_prompts.rendering.base import BLANK, LINE_START, NUMBER, Passage, delimited

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
