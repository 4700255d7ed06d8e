"""Passages as XML:

    <passage marker="[1]" source="docs/cors.md, lines 12-30: CORS">
    The text of the passage, with &lt; and &amp; instead of markup.
    </passage>

A passage contains no tags of its own, so it cannot end its element.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

from lorebind_prompts.cleaning import INVISIBLE, clean_line, clean_text
from lorebind_prompts.rendering.base import NUMBER, SPACE, Passage, delimited, spelled

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
            Passage(found[1], unescape(found[2]), unescape(found[3]))
            for found in _PASSAGE.finditer("\n".join(lines))
        ]


def _escaped(text: str) -> str:
    return text.translate(_REFERENCES)
