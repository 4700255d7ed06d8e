"""Tables with one record per line, as `column: value` pairs; CSV and TSV are read here."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import LoadedDocument, joined, suffix_of, title_of
from lorebind_knowledge.loaders.rows import Columns, add_record

if TYPE_CHECKING:
    from lorebind_config.declarations.sources import SourceMetadata
    from lorebind_knowledge.loaders.marks import Record

_DELIMITERS = ",;\t|"
_YEAR = re.compile(r"(?:19|20)\d\d")

Marked: TypeAlias = "tuple[str, Mapping[str, Any] | None]"
"""A line, and the metadata of its row; None if it is not a row with metadata."""


def load_table(text: str, uri: str, declared: SourceMetadata | None = None) -> LoadedDocument:
    """Load CSV or TSV; line numbers match the file, with the header first.

    The delimiter is a tab in a `.tsv` file, and otherwise the one that occurs most often in the
    first line. The first row with text is the header, unless it has duplicates, only one name
    beside empty cells, or a number. A year counts as a name if there is no year below it. If there
    is no header, the columns are numbered, and so is a column without a name.

    If the source declares columns, the first row with text is the header in any case. The text has
    the columns that are declared to be text. If columns are declared to be metadata, each row is a
    record, and the indexed part begins below the header.

    Raises:
        SourceError: it is not CSV, or its header does not have a declared column.
    """
    delimiter = "\t" if suffix_of(uri) == ".tsv" else _delimiter(text)
    if declared is None or not (declared.text_columns or declared.metadata_columns):
        every = _lines(text, uri, delimiter, lambda rows: zip(records(rows, uri), repeat(None)))
        body = joined((line for line, _ in every), uri)
        return LoadedDocument(body, title_of(uri), format="csv")
    columns = Columns(declared.text_columns, declared.metadata_columns, f"{uri}: its first row")
    lines = _lines(text, uri, delimiter, lambda rows: selected(rows, columns, uri))
    marks: list[Record] = []
    body = joined(marked(lines, marks, 0, uri), uri)
    with_metadata = marks if declared.metadata_columns else []
    start = with_metadata[0].start if with_metadata else 0
    return LoadedDocument(
        body, title_of(uri), body_start=start, format="csv", records=tuple(with_metadata)
    )


def selected(rows: Iterable[list[str]], columns: Columns, uri: str) -> Iterator[Marked]:
    """Yield a line for each row, with only the text of the declared columns.

    Raises:
        SourceError: the header does not have a column, or a line would be too long.
    """
    for names, cells, metadata in columns.rows(map(cleaned, rows)):
        is_header = metadata is None
        line = " | ".join(filter(None, cells)) if is_header else _record(names, cells, uri)
        yield line, metadata


def marked(lines: Iterable[Marked], marks: list[Record], start: int, uri: str) -> Iterator[str]:
    """Yield the lines of a text that begins at `start`, and collect their metadata in `marks`.

    Raises:
        SourceError: the document has too many records.
    """
    for line, metadata in lines:
        if line and metadata is not None:
            add_record(marks, start, metadata, uri)
        start += len(line) + 1
        yield line


def _delimiter(text: str) -> str:
    first_line = text.lstrip().partition("\n")[0]
    try:
        return max(
            _DELIMITERS, key=lambda mark: len(next(csv.reader([first_line], delimiter=mark)))
        )
    except (csv.Error, StopIteration):
        return ","


def _lines(
    text: str, uri: str, delimiter: str, convert: Callable[[Iterable[list[str]]], Iterator[Marked]]
) -> Iterator[Marked]:
    """Yield each line: the further lines of quoted cells are empty.

    Args:
        text, uri, delimiter: the document.
        convert: yields a line for each row.
    """
    # newline="": the csv reader distinguishes line ends from those in quotes.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    ends: deque[int] = deque()  # of the rows that `records` has read ahead

    def rows() -> Iterator[list[str]]:
        for row in reader:
            ends.append(reader.line_num)
            yield row

    line = 0
    try:
        for record in convert(rows()):
            yield record
            end = ends.popleft()
            yield from (("", None) for _ in range(line + 1, end))
            line = end
    except csv.Error as error:
        raise SourceError(f"{uri}: line {reader.line_num}: not CSV: {error}") from error


def records(rows: Iterable[list[str]], uri: str) -> Iterator[str]:
    """Yield a line for each row: the names of the header, then `column: value` pairs.

    Raises:
        SourceError: a line would be longer than a document may be.
    """
    columns: list[str] | None = None
    for cells, below in pairwise(chain(map(cleaned, rows), [[]])):
        if columns is None and any(cells):
            columns = cells if _is_header(cells, below) else []
            yield " | ".join(filter(None, cells)) if columns else _record(columns, cells, uri)
        else:
            yield _record(columns or [], cells, uri)


def cleaned(row: Iterable[str]) -> list[str]:
    """Return the cells of a row without line ends and repeated spaces."""
    return [" ".join(cell.split()) for cell in row]


def header_rows(rows: Sequence[list[str]]) -> int:
    """Return how many of a table's first rows are its header; 0 if it seems to have none.

    It ends with the first row that has several cells with text, if these are names and rows follow;
    rows above it with only one are the table's caption.
    """
    for number, (cells, below) in enumerate(pairwise(rows), 1):
        if sum(map(bool, cells)) > 1:
            return number if _is_header(cells, below) else 0
    return 0


def _is_header(cells: list[str], below: list[str]) -> bool:
    names = [cell for cell in cells if cell]
    return (
        (len(names) > 1 or all(cells))
        and len(set(names)) == len(names)
        and not any(map(_is_value, cells, chain(below, repeat(""))))
    )


def _is_value(cell: str, below: str) -> bool:
    """Return whether a cell is a number, except a year as the name of a column."""
    if _YEAR.fullmatch(cell):
        return bool(_YEAR.fullmatch(below))
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _record(columns: list[str], cells: list[str], uri: str) -> str:
    """Return the cells that are not empty, each with its column's name."""
    named = zip(cells, chain(columns, repeat("")), strict=False)
    pairs = (
        f"{name or f'column {number}'}: {cell}"
        for number, (cell, name) in enumerate(named, 1)
        if cell
    )
    return joined(pairs, uri, separator=" | ")
