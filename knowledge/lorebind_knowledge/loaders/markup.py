"""Load reStructuredText, AsciiDoc and LaTeX: title and headings; the text is kept as written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from lorebind_knowledge.loaders.base import LONGEST_TITLE, MOST_HEADINGS, LoadedDocument, title_of
from lorebind_knowledge.loaders.marks import Heading
from lorebind_knowledge.text.markdown import LINE

_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1*+\s*+$")
_ASCIIDOC_HEADING = re.compile(r"(={1,6})[ \t]++(\S.*)")
_ASCIIDOC_BLOCK = re.compile(r"(-{4,}|\.{4,}|/{4,}|\+{4,}|={4,}|`{3,})\s*+$")
_TEX_HEADING = re.compile(
    r"\\[\\%]|%[^\n]*+"  # skip line breaks, percent signs and comments
    r"|(?:^[ \t]++)?+\\(part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|title)\*?"
    r"(?:\[[^\[\]\n]*+\])?+\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+)\}",
    re.MULTILINE,
)
_TEX_LEVELS = {
    "part": 1,
    "chapter": 2,
    "section": 3,
    "subsection": 4,
    "subsubsection": 5,
    "paragraph": 6,
    "subparagraph": 7,
}
_TEX_MARKUP = re.compile(r"\\[a-zA-Z]++\*?|[{}~\\]")


def load_rst(text: str, uri: str) -> LoadedDocument:
    """Load reStructuredText; the levels of heading styles follow from their first use."""
    return _titled(text, uri, "rst", _rst_headings(text))


def load_asciidoc(text: str, uri: str) -> LoadedDocument:
    """Load AsciiDoc; headings are lines that begin with `=`, outside of delimited blocks."""
    return _titled(text, uri, "asciidoc", _asciidoc_headings(text))


def load_tex(text: str, uri: str) -> LoadedDocument:
    """Load LaTeX; the title is that of `\\title`, the first heading, or the file name."""
    marks = (mark for mark in _TEX_HEADING.finditer(text) if mark[1])
    commands = [(mark.start(), mark[1], _plain_tex(mark[2])) for mark in marks]
    named = [title for _, command, title in commands if command == "title" and title]
    headings = (
        Heading(start, _TEX_LEVELS[command], title)
        for start, command, title in commands
        if command != "title" and title
    )
    return _titled(text, uri, "latex", headings, *named[:1])


def _titled(
    text: str, uri: str, form: str, every: Iterable[Heading], *named: str
) -> LoadedDocument:
    first = islice(every, MOST_HEADINGS)
    headings = tuple(heading for heading in first if len(heading.title) <= LONGEST_TITLE)
    titles = [*(title for title in named if len(title) <= LONGEST_TITLE)]
    titles += [headings[0].title] if headings else [title_of(uri)]
    return LoadedDocument(text, titles[0], headings, format=form)


def _rst_headings(text: str) -> Iterator[Heading]:
    styles: list[tuple[str, bool]] = []
    before = above = ""  # the two previous lines
    start = 0
    for line in LINE.finditer(text):
        title = above.strip()
        underlined = _UNDERLINE.match(line[0]) and not _UNDERLINE.match(above)
        if underlined and title and len(line[0].rstrip()) >= min(len(title), 4):
            over = before.rstrip() == line[0].rstrip()
            if over or (not before.strip() and not above[0].isspace()):
                style = line[0][0], over
                if style not in styles:
                    styles.append(style)
                yield Heading(start, min(styles.index(style) + 1, 9), " ".join(title.split()))
        before, above, start = above, line[0], line.start()


def _asciidoc_headings(text: str) -> Iterator[Heading]:
    block = ""
    for line in LINE.finditer(text):
        mark = _ASCIIDOC_BLOCK.match(line[0])
        if mark and mark[1][0] != "=":  # example blocks (`====`) may contain headings
            block = "" if block == mark[1] else block or mark[1]
        elif not block and (heading := _ASCIIDOC_HEADING.match(line[0])):
            yield Heading(line.start(), len(heading[1]), " ".join(heading[2].split()))


def _plain_tex(title: str) -> str:
    return " ".join(_TEX_MARKUP.sub(" ", title).split())
