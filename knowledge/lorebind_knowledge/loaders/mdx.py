"""Load MDX: Markdown without code and component tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lorebind_knowledge.loaders.markdown import load_markdown, read_front_matter
from lorebind_knowledge.text.markdown import InlineCode, outside_fences

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.base import LoadedDocument

_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\}"
_NAMES = r"(?:[\w$]++|\{[^{}]*+\}|\*[ \t]*+as[ \t]++[\w$]++)"
_IMPORT = (
    rf"import\b[ \t]*+(?:{_NAMES}(?:[ \t]*+,[ \t]*+{_NAMES})?[ \t]*+from\b[ \t]*+)?"
    r"(?:\"[^\"\n]++\"|'[^'\n]++')[ \t]*+;?[ \t]*+(?://[^\n]*+)?\r?(?:\n|\Z)"
)
_EXPORT = (
    r"export[ \t]++(?:(?:const|let|var)[ \t]++(?:[\w$]++|[{\[][^\n=]*+)[ \t]*+="
    r"|(?:default[ \t]++)?(?:async[ \t]++)?function\b[ \t]*+\*?[ \t]*+[\w$]*+[ \t]*+\("
    r"|(?:default[ \t]++)?class\b[ \t\w$.]*+\{"
    r"|default[ \t]++(?:[\w$.]++[ \t]*+;?[ \t\r]*+$|[\w$.]*+[(\[{])"
    r"|[{*])"
    rf"(?:[^\n{{]++|{_BRACES}|\{{|\n(?![ \t\r]*+(?:\n|\Z)))*+"
)
_FOR_PROGRAMS = re.compile(
    r"(?P<ticks>`++)"
    r"|^(?<![^\n]\n)(?=import|export)"  # where a paragraph begins
    rf"(?:{_IMPORT})*+(?:{_EXPORT}|(?=[ \t\r]*+(?:\n|\Z)))"
    rf"|<[A-Z][\w.]*+(?P<attributes>(?:[^<>\"'{{}}]|\"[^\"]*+\"|'[^']*+'|{_BRACES})*+)>"
    r"|</[A-Z][\w.]*+\s*+>|</?>|\{/\*(?:(?!\{/\*).)*?\*/\}",
    re.MULTILINE | re.DOTALL,
)
"""The code in MDX.

A component's name begins with a capital letter. A paragraph is code only if all of it is.
"""
_FIRST_IMPORTS = re.compile(rf"(?:{_IMPORT}|[ \t\r]*+\n)*+")
_SAID = re.compile(
    r"(?<![\w-])(?:alt|answer|caption|description|header|heading|label|question|subtitle|summary"
    r"|text|tip|title)\s*+=\s*+\{?\s*+([\"'`])(.*?)\1",
    re.DOTALL,
)
"""Attributes whose values readers of the page see."""


def load_mdx(text: str, uri: str) -> LoadedDocument:
    """Load MDX without imports, exports, comments and component tags; line numbers stay the same.

    Text that a tag shows, such as its title, is kept, and so is a paragraph that only looks like an
    import.
    """
    _, body = read_front_matter(text)
    imports = _FIRST_IMPORTS.match(text, body)
    start = imports.end() if imports else body
    pieces = [text[:body], _line_breaks(text[body:start])]
    for first, last in outside_fences(text, start, len(text)):
        pieces += [text[start:first], *_without_programs(text[first:last])]
        start = last
    return load_markdown("".join([*pieces, text[start:]]), uri)


def _without_programs(text: str) -> Iterator[str]:
    code = InlineCode(text, 0, len(text))
    position = 0
    while code_match := _FOR_PROGRAMS.search(text, position):
        yield text[position : code_match.start()]
        position = code_match.end()
        if code_match["ticks"]:
            position = code.end(code_match.start(), position)
            yield text[code_match.start() : position]
            continue
        for attribute in _SAID.finditer(code_match["attributes"] or ""):
            if value := " ".join(attribute[2].split()):
                yield f" {value} "
        yield _line_breaks(code_match[0])
    yield text[position:]


def _line_breaks(text: str) -> str:
    return "\n" * text.count("\n")
