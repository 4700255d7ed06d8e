"""Passages as bullets:

    - [1] docs/cors.md, lines 12-30: CORS > Use CORSMiddleware
      The text of the passage, every line of it indented.

No text of a passage is at the start of a line, so it cannot begin an entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lorebind_prompts.cleaning import clean_line, clean_text
from lorebind_prompts.rendering.base import BLANK, LINE_START, NUMBER, Passage, delimited

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
