"""MDX: Markdown without the lines and tags that are for a program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind_knowledge.loaders.front_matter import read_front_matter
from lorebind_knowledge.loaders.markdown import load_markdown
from lorebind_knowledge.loaders.markdown_code import InlineCode, outside_fences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.loaders.base import LoadedDocument

_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\}"
_FOR_PROGRAMS = re.compile(
    r"(?P<ticks>`++)"
    r"|^(?<![^\n]\n)"  # where a paragraph begins
    r"(?:import\s++(?:[\"'{*]|[^\n]*?\bfrom\s++[\"'])"
    r"|export\s++(?:(?:default|const|let|var|function|class|async)\b|[{*]))"
    r"[^\n]*+(?:\n[^\n]*\S[^\n]*+)*+"
    rf"|</?[A-Z][\w.]*+(?:[^<>\"'{{}}]|\"[^\"]*+\"|'[^']*+'|{_BRACES})*+>"
    r"|</?>|\{/\*(?:(?!\{/\*).)*?\*/\}",
    re.MULTILINE | re.DOTALL,
)
"""A component's name begins with a capital."""


def load_mdx(text: str, uri: str) -> LoadedDocument:
    """Imports, exports, comments and the tags of components are left out; lines count as before."""
    _, start = read_front_matter(text)
    pieces = [text[:start]]
    for first, last in outside_fences(text, start):
        pieces += [text[start:first], *_without_programs(text[first:last])]
        start = last
    return load_markdown("".join([*pieces, text[start:]]), uri)


def _without_programs(text: str) -> Iterator[str]:
    code = InlineCode(text, 0, len(text))
    position = 0
    while found := _FOR_PROGRAMS.search(text, position):
        yield text[position : found.start()]
        position = found.end()
        if found["ticks"]:
            position = code.end(found.start(), position)
            yield text[found.start() : position]
        else:
            yield "\n" * found[0].count("\n")
    yield text[position:]
