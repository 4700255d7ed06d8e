"""Code in Markdown, where other marks mean nothing: fenced blocks and runs of backticks.

As in CommonMark 4.5 and 6.1, and in any container: a fence may be indented, quoted, and the first
line of a list item.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

LINE = re.compile(r"[^\n]*\n|[^\n]+")
TABLE_DASHES = re.compile(
    r"^[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-*+:?[ \t]*+)*+\r?$", re.MULTILINE
)
"""The line below the header of a pipe table; a line of dashes alone can be one too."""
BLANK_LINE = re.compile(r"\n[ \t\r>]*+\n")
"""The end of a paragraph, also in a quotation."""
_FENCE = re.compile(
    r"^([ \t>]*+(?P<bullet>(?:[-*+]|\d{1,9}[.)])[ \t]++)?+)(`{3,}|~{3,})[ \t]*+([^\n]*)",
    re.MULTILINE,
)
_TICKS = re.compile(r"`+")


class Fence(NamedTuple):
    """A fenced block, whose offsets include the lines of its fences."""

    start: int
    end: int
    """Before the line break after the closing fence; the end of the text if that is missing."""
    language: str
    """The first word after the opening fence."""
    inside: tuple[int, int]
    """Start and end of the lines between the fences."""
    container: int
    """The column in which the fence begins."""

    def code(self, text: str) -> str:
        """Return the code, without the indentation and the marks of its container."""
        code = text[slice(*self.inside)]
        return re.sub(rf"^[ \t>]{{0,{self.container}}}", "", code, flags=re.MULTILINE)


def fences(text: str, start: int, end: int) -> Iterator[Fence]:
    """Yield the fenced blocks of a part, which begins with a line; an unclosed one ends with it."""
    if all(text.find(mark, start, end) < 0 for mark in ("```", "~~~")):
        return
    opening: re.Match[str] | None = None
    for mark in _FENCE.finditer(text, start, end):
        if opening is None:
            opening = mark if _opens(mark) else None
        elif _closes(mark, opening):
            yield _fence(opening, mark.start() - 1, mark.end())
            opening = None
    if opening:
        yield _fence(opening, end, end)


def outside_fences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the parts before, between and after fenced blocks, in order."""
    for fence in fences(text, start, end):
        yield start, fence.start
        start = fence.end
    yield start, end


def is_fence(text: str, at: int, end: int) -> bool:
    """Return whether a fenced block opens in the line that begins at this position."""
    mark = _FENCE.match(text, at, end)
    return mark is not None and _opens(mark)


def end_of_cut_code(text: str) -> int:
    """Return where the rest of a fenced block ends that began before the text; 0 if none did.

    A closing fence names no language; the fence after it opens a block and mostly names one.
    """
    marks = _FENCE.finditer(text)
    first, second = next(marks, None), next(marks, None)
    is_cut = first and not first[4].strip() and (second is None or second[4].strip())
    return first.end() if first and is_cut else 0


def _opens(mark: re.Match[str]) -> bool:
    return mark[3][0] == "~" or "`" not in mark[4]


def _closes(mark: re.Match[str], opening: re.Match[str]) -> bool:
    """Check for a fence as long as the opening one, without a bullet, and hardly more indented."""
    is_last = mark[3].startswith(opening[3]) and not mark[4].strip() and not mark["bullet"]
    return is_last and _width(mark) <= _width(opening) + 3


def _width(mark: re.Match[str]) -> int:
    return len(mark[1].expandtabs(4))


def _fence(opening: re.Match[str], last: int, end: int) -> Fence:
    language = opening[4].strip().split(" ")[0].strip("{}.")
    first = min(opening.end() + 1, end)
    return Fence(opening.start(), end, language, (first, max(first, last)), _width(opening))


class InlineCode:
    """Inline code: from a run of backticks to the next equal run in the same paragraph."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._runs: dict[int, list[int]] = defaultdict(list)
        for run in _TICKS.finditer(text, start, end):
            self._runs[len(run[0])].append(run.start())
        self._blank_lines = [blank.start() for blank in BLANK_LINE.finditer(text, start, end)]

    def end(self, start: int, after: int) -> int:
        """Return the end of the code that a run of backticks opens, or else of the run."""
        runs = self._runs[after - start]
        following = bisect.bisect_right(runs, start)
        blank = bisect.bisect_left(self._blank_lines, after)
        if following == len(runs) or (
            blank < len(self._blank_lines) and self._blank_lines[blank] < runs[following]
        ):
            return after
        return runs[following] + (after - start)


def code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of inline code, with its backticks, in a part without fences."""
    if text.find("`", start, end) < 0:
        return
    code = InlineCode(text, start, end)
    while run := _TICKS.search(text, start, end):
        opening = run.start() + is_escaped(text, run.start())
        start = code.end(opening, run.end())
        if start > run.end():
            yield opening, start


def is_escaped(text: str, at: int) -> bool:
    """Return whether an odd number of backslashes is before this position."""
    start = at
    while start and text[start - 1] == "\\":
        start -= 1
    return (at - start) % 2 == 1
