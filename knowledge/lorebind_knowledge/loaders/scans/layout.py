"""The reading order of the lines that OCR finds: column by column, and rows from left to right.

A page is cut at gaps, first between columns, then between paragraphs, and so on for each part (the
recursive X-Y cut of Nagy and Seth, 1984).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple, TypeAlias

_LEAST_LINES = 3
"""Number of lines on each side of a gap between columns."""
_LONG_LINE = 8.0
"""Lines of columns are that many times as long as high; shorter ones are cells of a table."""
_GUTTER = 0.2
"""Width of the gap between columns, in heights of a line."""
_PARAGRAPH_GAP = 0.8
"""Height of the gap between paragraphs, in heights of a line."""
_SAME_ROW = 0.5
"""Share of its height by which a line overlaps another one of the same row."""


Box: TypeAlias = Sequence[Sequence[float]]
"""The corners of a rectangle that may be slanted: from the upper left, clockwise."""


class Line(NamedTuple):
    """A line of text and the rectangle that contains it, in pixels."""

    left: float
    top: float
    right: float
    bottom: float
    text: str
    corners: Box = ()
    """Where it is on the page, also if the page is turned."""

    @classmethod
    def of(cls, corners: Box, text: str) -> Line:
        """Return the line in a box whose corners begin at the upper left, clockwise.

        On a skewed page, the right end of a line can be as high as the middle of the next one, so
        the true height of the box and its middle tell the rows apart.
        """
        (_, top_left), (_, top_right), (_, low_right), (_, low_left) = corners
        height = (low_left - top_left + low_right - top_right) / 2
        middle = (top_left + top_right + low_right + low_left) / 4
        left, right = (choose(x for x, _ in corners) for choose in (min, max))
        return cls(left, middle - height / 2, right, middle + height / 2, " ".join(text.split()))

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1.0)


Block: TypeAlias = list[list[Line]]
"""The rows of a paragraph, each with its lines from left to right."""


def slope_of(boxes: Sequence[Box]) -> float:
    """Return the angle at which a page was scanned, as the rise of its lines for their length."""
    slopes = [
        (right[1] - left[1]) / (right[0] - left[0])
        for left, right, _, low_left in boxes
        if right[0] - left[0] > _LONG_LINE * abs(low_left[1] - left[1])
    ]
    return median(slopes) if slopes else 0.0


def turned(boxes: Sequence[Box], slope: float) -> list[Box]:
    """Return boxes turned back by an angle.

    Otherwise the lines of a column reach over the gap to the next column further down.
    """
    return [[(x + slope * y, y - slope * x) for x, y in box] for box in boxes]


def in_reading_order(lines: Iterable[Line]) -> list[Block]:
    filled = [line for line in lines if line.text]
    return _blocks(filled) if filled else []


def text_of(blocks: Iterable[Block]) -> str:
    """Return the text of blocks: a line for each row, and a blank line between paragraphs."""
    return "\n\n".join(
        "\n".join(" ".join(line.text for line in row) for row in rows) for rows in blocks
    )


def _blocks(lines: Sequence[Line]) -> list[Block]:
    height = median(line.height for line in lines)
    for columns in (_split_columns, _split_paragraphs):
        parts = columns(lines, height)
        if len(parts) > 1:
            return [block for part in parts for block in _blocks(part)]
    return [_rows(lines)]


def _split_columns(lines: Sequence[Line], height: float) -> list[list[Line]]:
    """Return the lines of columns of running text, from left to right."""
    parts = _cut(lines, _GUTTER * height, lambda line: (line.left, line.right))
    are_columns = all(
        len(part) >= _LEAST_LINES
        and median(line.right - line.left for line in part) >= _LONG_LINE * height
        for part in parts
    )
    return parts if are_columns else [[*lines]]


def _split_paragraphs(lines: Sequence[Line], height: float) -> list[list[Line]]:
    return _cut(lines, _PARAGRAPH_GAP * height, lambda line: (line.top, line.bottom))


def _cut(
    lines: Sequence[Line], gap: float, ends: Callable[[Line], tuple[float, float]]
) -> list[list[Line]]:
    """Split lines wherever none is over a distance of more than `gap`."""
    parts: list[list[Line]] = []
    reach = float("-inf")
    for line in sorted(lines, key=ends):
        begin, end = ends(line)
        if not parts or begin > reach + gap:
            parts.append([])
        parts[-1].append(line)
        reach = max(reach, end)
    return parts


def _rows(lines: Sequence[Line]) -> Block:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.top + line.bottom):
        last = rows[-1][-1] if rows else None
        overlap = min(line.bottom, last.bottom) - max(line.top, last.top) if last else 0
        if last and overlap > _SAME_ROW * min(line.height, last.height):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [*map(sorted, rows)]
