"""Write a page's content as lines of text: blocks, list items, table rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from lorebind_knowledge.loaders.base import LONGEST_TITLE, MOST_TABLES, check_length, words
from lorebind_knowledge.loaders.html.tree import Element
from lorebind_knowledge.loaders.marks import Heading, Table
from lorebind_knowledge.loaders.tables import header_rows

_HEADING = re.compile(r"h[1-6]")
_PARAGRAPHS = words(
    "p div section article main blockquote figure header hgroup dl fieldset details center body "
    "form footer aside ul ol menu table address td th caption"
)
_LINES = words("li dt dd tr figcaption summary legend")
_INSIDE_LAYOUT = {"table", "pre", "h1", "h2", "h3", "h4", "h5", "h6"}
_LONGEST_VALUE = 300
_BREAK = "\n"


class TextWriter:
    """A writer of elements, one after another; the results are `text`, `headings` and `tables`.

    Raises:
        SourceError: the text would be longer than `MAX_CHARACTERS`.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.headings: list[Heading] = []
        self.tables: list[Table] = []
        self._parts: list[str] = []
        self._length = 0
        self._inline: list[str] = []
        self._gap = 0
        """Number of line ends before the next text."""
        self._lists: list[int] = []
        """For each enclosing list, the number of its next item, or 0 if items are not numbered."""
        self._marker = ""

    @property
    def text(self) -> str:
        self._end_block(0)
        return "".join(self._parts)

    def write(self, element: Element) -> None:
        """Write an element with its content."""
        tag = element.tag
        if _HEADING.fullmatch(tag):
            self._heading(element, int(tag[1]))
        elif tag == "pre":
            self._preformatted(element)
        elif tag == "br":
            self._inline.append(_BREAK)
        elif tag == "hr":
            self._end_block(2)
        elif tag in ("ul", "ol", "menu"):
            self._list(element)
        elif tag == "li":
            self._item(element)
        elif tag == "table" and _is_data(element):
            self._table(element)
        elif tag in _PARAGRAPHS or tag in _LINES:
            gap = 1 if tag in _LINES else 2
            self._end_block(gap)
            self._children(element)
            self._end_block(gap)
        else:
            self._children(element)

    def _children(self, element: Element) -> None:
        for child in element.children:
            if isinstance(child, str):
                self._inline.append(re.sub(r"\s+", " ", child))
            else:
                self.write(child)

    def _heading(self, element: Element, level: int) -> None:
        self._end_block(2)
        title = _flat(element)
        if title:
            self._emit(title)
            if len(title) <= LONGEST_TITLE:
                self.headings.append(Heading(self._length - len(title), level, title))
        self._end_block(2)

    def _preformatted(self, element: Element) -> None:
        self._end_block(2)
        code = "".join(_raw(element)).replace("\r\n", "\n").replace("\r", "\n")
        lines = [line.rstrip() for line in code.split("\n")]
        if block := "\n".join(lines).strip("\n"):
            self._emit(block)
        self._end_block(2)

    def _list(self, element: Element) -> None:
        self._end_block(1 if self._lists else 2)
        self._lists.append(_first_number(element) if element.tag == "ol" else 0)
        self._children(element)
        self._lists.pop()
        self._end_block(1 if self._lists else 2)

    def _item(self, element: Element) -> None:
        self._end_block(1)
        self._marker = "- "
        if self._lists and self._lists[-1]:
            self._marker = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        self._children(element)
        self._end_block(1)
        self._marker = ""

    def _table(self, element: Element) -> None:
        self._end_block(2)
        rows = _rows(element)
        header = _header_rows(element, rows)
        starts: list[int] = []
        for _, cells in rows:
            filled = [cell for cell in cells if cell]
            starts.append(
                self._emit(filled[0] if len(filled) == 1 else " | ".join(cells).rstrip(" |"))
            )
            self._gap = 1
        if header and len(self.tables) < MOST_TABLES:
            self.tables.append(Table(starts[0], starts[header], self._length))
        self._end_block(2)

    def _end_block(self, gap: int) -> None:
        """Write the text collected so far; the next text follows after `gap` line ends."""
        lines = "".join(self._inline).split(_BREAK)
        self._inline.clear()
        if block := "\n".join(text for line in lines if (text := " ".join(line.split()))):
            self._emit(block)
        self._gap = max(self._gap, 1 if self._lists and gap else gap)

    def _emit(self, block: str) -> int:
        """Write a block and return its start."""
        indent = "  " * (len(self._lists) - 1)
        check_length(self._length + len(block) + block.count("\n") * len(indent), self._uri)
        if self._lists:
            hanging = indent if self._marker else f"{indent}  "
            block = hanging + self._marker + block.replace("\n", f"\n{indent}  ")
        self._marker = ""
        start = self._length + (self._gap if self._parts else 0)
        if self._parts:
            block = "\n" * self._gap + block
        self._gap = 0
        self._parts.append(block)
        self._length += len(block)
        return start


def _rows(table: Element) -> list[tuple[Element, list[str]]]:
    """Return the caption and the rows that have text, each with the text of its cells."""
    rows = []
    for row in table.elements():
        if row.tag in ("tr", "caption"):
            parts = [row] if row.tag == "caption" else row.children
            cells = [_flat(cell) for cell in parts if isinstance(cell, Element)]
            if any(cells):
                rows.append((row, cells))
    return rows


def _header_rows(table: Element, rows: list[tuple[Element, list[str]]]) -> int:
    """Return how many of the first rows are the header, with the caption; 0 if there is none.

    If the page marks no cells as a header, the first row can look like one.
    """
    heads = [element for element in table.elements() if element.tag in ("thead", "th")]
    if not heads:
        return header_rows([cells for _, cells in rows])
    marked = {id(row) for head in heads for row in head.elements() if head.tag == "thead"}
    header = [
        len(cells) > 1 or row.tag == "caption" or id(row) in marked
        for row, cells in itertools.takewhile(lambda row: _is_head(row[0], marked), rows)
    ]
    while header and not header[-1]:  # the first of several titles between the rows
        header.pop()
    return len(header) if len(header) < len(rows) else 0


def _is_head(row: Element, marked: set[int]) -> bool:
    cells = (cell for cell in row.children if isinstance(cell, Element) and cell.letters)
    return row.tag == "caption" or id(row) in marked or all(cell.tag == "th" for cell in cells)


def _is_data(table: Element) -> bool:
    """Return whether a table contains data, rather than arranging the page."""
    if table.attributes.get("role") in ("presentation", "none"):
        return False
    if any(element.tag in _INSIDE_LAYOUT for element in table.elements()):
        return False  # without nested tables, each cell belongs to this table
    return not any(element.tag == "td" and _is_long(element) for element in table.elements())


def _is_long(cell: Element) -> bool:
    """Return whether a cell contains several paragraphs rather than a value."""
    blocks = sum(element.tag in ("p", "li", "div", "dt") for element in cell.elements())
    return blocks > 1 and len(_flat(cell)) > _LONGEST_VALUE


def _flat(element: Element) -> str:
    """Return an element's text in one line, with spaces between blocks."""
    return " ".join("".join(_spaced(element)).split())


def _spaced(element: Element) -> Iterator[str]:
    apart = element.tag in _PARAGRAPHS or element.tag in _LINES or element.tag == "br"
    if apart:
        yield " "
    for child in element.children:
        if isinstance(child, str):
            yield child
        else:
            yield from _spaced(child)
    if apart:
        yield " "


def _raw(element: Element) -> Iterable[str]:
    for child in element.children:
        if isinstance(child, str):
            yield child
        elif child.tag == "br":
            yield "\n"
        else:
            yield from _raw(child)


def _first_number(element: Element) -> int:
    start = element.attributes.get("start", "1")
    return int(start) if start.isascii() and start.isdigit() and 0 < len(start) < 7 else 1
