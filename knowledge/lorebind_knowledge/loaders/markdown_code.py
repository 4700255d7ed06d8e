"""Find code in Markdown, where tags do not count: fenced blocks and backticks."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


def outside_fences(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of the text outside of fenced code blocks."""
    fence = ""
    for mark in _FENCE.finditer(text, start):
        if fence:
            if mark[1].startswith(fence) and not mark[2].strip():
                fence, start = "", mark.end()
        elif not (mark[1][0] == "`" and "`" in mark[2]):
            yield start, mark.start()
            fence = mark[1]
    if not fence:
        yield start, len(text)


class InlineCode:
    """Inline code: from a run of backticks to the next equal run in the same paragraph."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._runs: dict[int, list[int]] = defaultdict(list)
        for run in _TICKS.finditer(text, start, end):
            self._runs[len(run[0])].append(run.start())
        self._blank_lines = [blank.start() for blank in _BLANK_LINE.finditer(text, start, end)]

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
