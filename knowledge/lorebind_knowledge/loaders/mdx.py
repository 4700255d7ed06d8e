"""MDX: Markdown without the lines and tags that are for a program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind_knowledge.loaders.front_matter import read_front_matter
from lorebind_knowledge.loaders.html_removal import outside_fences
from lorebind_knowledge.loaders.markdown import load_markdown

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.base import LoadedDocument

_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\}"
_FOR_PROGRAMS = re.compile(
    r"(?P<code>(`++)[^`]++\2(?!`))"
    r"|^(?<![^\n]\n)"  # where a paragraph begins
    r"(?:import\s++(?:[\"'{*]|[^\n]*?\bfrom\s++[\"'])"
    r"|export\s++(?:(?:default|const|let|var|function|class|async)\b|[{*]))"
    r"[^\n]*+(?:\n[^\n]*\S[^\n]*+)*+"
    rf"|</?[A-Z][\w.]*+(?:[^<>\"'{{}}]|\"[^\"]*+\"|'[^']*+'|{_BRACES})*+>"
    r"|</?>|\{/\*(?:(?!\{/\*).)*?\*/\}",
    re.MULTILINE | re.DOTALL,
)
"""Inline code first, which is kept. A component's name begins with a capital."""


def load_mdx(text: str, uri: str) -> LoadedDocument:
    """Imports, exports, comments and the tags of components are left out; lines count as before."""
    _, start = read_front_matter(text)
    pieces = [text[:start]]
    for first, last in outside_fences(text, start):
        pieces += [text[start:first], _FOR_PROGRAMS.sub(_line_breaks, text[first:last])]
        start = last
    return load_markdown("".join([*pieces, text[start:]]), uri)


def _line_breaks(found: re.Match[str]) -> str:
    return found["code"] or "\n" * found[0].count("\n")
