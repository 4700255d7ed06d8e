"""Passages as JSON, one object per line:

    [
    {"marker": "[1]", "source": "docs/cors.md, lines 12-30: CORS", "text": "The text, …"},
    …
    ]

A line break in a passage is escaped as two characters, so it can neither end its object nor begin
another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lorebind_prompts.cleaning import clean_line, clean_text
from lorebind_prompts.rendering.base import NUMBER, SPACE, Passage, delimited, spelled


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
        found = [json.loads(one) for one in objects]
        return [Passage(one["marker"], one["source"], one["text"]) for one in found]
