"""Tables with one record per line, as `column: value` pairs; CSV and TSV are read here."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders.base import LoadedDocument, joined, name_of, title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DELIMITERS = ",;\t|"


def load_table(text: str, uri: str) -> LoadedDocument:
    """Load CSV or TSV; line numbers match the file, with the header first.

    The delimiter is a tab in a `.tsv` file, and otherwise the one that occurs most often in the
    first line. The first row is the header, unless a cell in it is empty, a number or a duplicate;
    then the columns are numbered.
    """
    delimiter = "\t" if name_of(uri).suffix.lower() == ".tsv" else _delimiter(text)
    return LoadedDocument(joined(_lines(text, uri, delimiter), uri), title_of(uri), format="csv")


def _delimiter(text: str) -> str:
    first_line = text.lstrip().partition("\n")[0]
    try:
        return max(
            _DELIMITERS, key=lambda mark: len(next(csv.reader([first_line], delimiter=mark)))
        )
    except (csv.Error, StopIteration):
        return ","


def _lines(text: str, uri: str, delimiter: str) -> Iterator[str]:
    # newline="": the csv reader distinguishes line ends from those in quotes.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    line = 0
    try:
        for record in records(reader, uri):
            yield record
            line += 1
            for _ in range(line, reader.line_num):  # the further lines of a quoted cell
                yield ""
            line = reader.line_num
    except csv.Error as error:
        raise SourceError(f"{uri}: line {reader.line_num}: not CSV: {error}") from error


def records(rows: Iterable[list[str]], uri: str) -> Iterator[str]:
    """Yield a line for each row: the cells of the header, then `column: value` pairs.

    Raises:
        SourceError: a line would be longer than a document may be.
    """
    columns: list[str] | None = None
    for row in rows:
        cells = [" ".join(cell.split()) for cell in row]
        if columns is None and any(cells):
            columns = cells if _is_header(cells) else []
            yield " | ".join(cells) if columns else _record(columns, cells, uri)
        else:
            yield _record(columns or [], cells, uri)


def _is_header(cells: list[str]) -> bool:
    return all(cells) and len(set(cells)) == len(cells) and not any(map(_is_number, cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _record(columns: list[str], cells: list[str], uri: str) -> str:
    """Return the cells that are not empty, each with its column's name."""
    pairs = (
        f"{columns[index] if index < len(columns) else f'column {index + 1}'}: {cell}"
        for index, cell in enumerate(cells)
        if cell
    )
    return joined(pairs, uri, separator=" | ")
