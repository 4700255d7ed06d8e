"""Load PDF with its tables: their cells are found by the lines around them.

PDFium reads the text of a page and knows no cells, so pdfplumber finds the tables. A table takes
the place of its text on the page, as a line for each row; all other text stays as it is.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from itertools import islice, pairwise
from typing import Any, NamedTuple

from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import LoadedDocument, well_formed
from lorebind_knowledge.loaders.marks import Table
from lorebind_knowledge.loaders.pdf import PageText, clean_text, load_pdf
from lorebind_knowledge.loaders.tables import header_rows

_MOST_PATHS = 3_000
"""Maximum number of lines and shapes of a page that is searched for tables: more are a drawing."""
_DEEPEST = 5
"""Nesting of forms in which lines are counted."""
_NEAR = 3.0
"""Distance of columns that are the same on two pages, in points."""
_MARGIN = 300
"""Number of characters before and after a table that can be the top and the foot of a page."""
_UNREADABLE = "(cid:"
"""How pdfplumber writes a character of a font that it cannot decode: `(cid:12)`."""


def load_pdf_with_tables(data: bytes, uri: str) -> LoadedDocument:
    """Load a PDF with a line for each row of its tables; see `load_pdf`.

    A table has lines around its cells, and at least two rows and columns. One that continues at the
    top of the next page, with the same columns, keeps its header there.

    Raises:
        SourceError: see `load_pdf`.
        MissingDependencyError: the extra `tables` is not installed.
    """
    pdfplumber = import_extra("pdfplumber", extra="tables", purpose="reading tables of PDF files")
    return load_pdf(data, uri, _PageReader(pdfplumber, data).read)


class _Grid(NamedTuple):
    """A table on a page, in PDF's coordinates."""

    rows: list[list[str]]
    columns: list[float]
    """The left border of each column."""
    left: float
    bottom: float
    right: float
    top: float

    @property
    def text(self) -> str:
        return "\n".join(" | ".join(row) for row in self.rows)

    def contains(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.bottom <= y <= self.top


class _PageReader:
    """Reads the pages of a document, in order."""

    def __init__(self, pdfplumber: Any, data: bytes) -> None:
        self._pdfplumber, self._data = pdfplumber, data
        self._pages: list[Any] | None = None
        self._last: _Grid | None = None
        """The table at the end of the previous page, with its header; None if there is none."""

    def read(self, number: int, page: Any, content: Any) -> PageText:
        """Return the text and the tables of a page of PDFium, numbered from 0."""
        before, self._last = self._last, None
        grids = self._grids(number) if _may_have_tables(page) else []
        if not grids:
            return PageText(clean_text(content.get_text_range()))
        blocks: list[str] = []
        tables: list[Table] = []
        continues = False
        at = 0
        for block, grid in _blocks(content, grids):
            if grid is not None:
                header = header_rows(grid.rows)
                rows = at + sum(len(line) + 1 for line in block.split("\n")[:header])
                if before and _continues(grid, before, header, at):
                    tables.append(Table(at, at, at + len(block)))
                    self._last, continues = before, True
                elif header:
                    tables.append(Table(at, rows, at + len(block)))
                    self._last = grid
                else:
                    self._last = None
                before = None
            blocks.append(block)
            at += len(block) + 2
        if tables and at - tables[-1].end > _MARGIN:
            self._last = None
        return PageText("\n\n".join(blocks), tuple(tables), continues)

    def _grids(self, number: int) -> list[_Grid]:
        try:
            if self._pages is None:
                self._pages = []  # if the library cannot open it, no page has tables
                self._pages = self._pdfplumber.open(io.BytesIO(self._data)).pages
            with closing(self._pages[number]) as page:
                tables = [] if page.rotation else page.find_tables()
                return [grid for table in tables if (grid := _grid(page.height, table))]
        except MemoryError:
            raise
        except Exception:  # what PDFium can read may be too broken for the library
            return []


def _may_have_tables(page: Any) -> bool:
    from pypdfium2 import raw

    paths = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=_DEEPEST)
    return 0 < sum(1 for _ in islice(paths, _MOST_PATHS + 1)) <= _MOST_PATHS


def _grid(height: float, table: Any) -> _Grid | None:
    """Return a table of the library, or None if it is only a frame, or cannot be read."""
    rows = [[" ".join((cell or "").split()) for cell in row] for row in table.extract()]
    rows = [[well_formed(cell) for cell in row] for row in rows if any(row)]
    if len(rows) < 2 or len(rows[0]) < 2 or any(_UNREADABLE in "".join(row) for row in rows):
        return None
    left, top, right, bottom = table.bbox
    columns = sorted({cell[0] for cell in table.cells})
    return _Grid(rows, columns, left, height - bottom, right, height - top)


def _continues(grid: _Grid, before: _Grid, header: int, at: int) -> bool:
    """Return whether a page's first table continues the last one of the page before.

    Args:
        grid, before: the two tables.
        header: the number of rows that could be a header of its own.
        at: the number of characters above it.
    """
    if len(grid.columns) != len(before.columns) or at > (0 if header else _MARGIN):
        return False
    pairs = zip(grid.columns, before.columns, strict=True)
    return grid.rows[0] != before.rows[0] and all(abs(a - b) < _NEAR for a, b in pairs)


def _blocks(content: Any, grids: list[_Grid]) -> Iterator[tuple[str, _Grid | None]]:
    """Yield the texts between the tables, and each table where its first character is."""
    places = list(_places(content, grids))
    starts = [0, *(at for at, (place, other) in enumerate(pairwise(places), 1) if place != other)]
    written: set[int] = set()
    text = ""
    for start, end in pairwise([*starts, len(places)]):
        place = places[start]
        if place < 0:
            text += content.get_text_range(start, end - start)
        elif place not in written:
            if block := clean_text(text):
                yield block, None
            text = ""
            written.add(place)
            yield grids[place].text, grids[place]
        else:
            text += "\n"
    if block := clean_text(text):
        yield block, None


def _places(content: Any, grids: list[_Grid]) -> Iterator[int]:
    """Yield for each character the index of the table that it is in, or -1.

    White space has no size, and belongs to what is before it.
    """
    from pypdfium2 import PdfiumError

    place = -1
    for index in range(content.count_chars()):
        try:
            left, bottom, right, top = content.get_charbox(index)
        except PdfiumError:
            left = right = bottom = top = 0.0
        if right > left and top > bottom:
            x, y = (left + right) / 2, (bottom + top) / 2
            place = next((at for at, grid in enumerate(grids) if grid.contains(x, y)), -1)
        yield place
