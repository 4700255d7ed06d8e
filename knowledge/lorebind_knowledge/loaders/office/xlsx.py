"""Load XLSX: Excel's sheets, each row a line of `column: value` pairs; headings are sheet names."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any
from zipfile import ZipFile

from lorebind_config.errors import SourceError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import LoadedDocument, as_title, joined, title_of, well_formed
from lorebind_knowledge.loaders.builder import DocumentBuilder
from lorebind_knowledge.loaders.marks import Anchor, Heading, Record
from lorebind_knowledge.loaders.office.packages import core_properties, reading_package
from lorebind_knowledge.loaders.rows import Columns, add_record, hint
from lorebind_knowledge.loaders.tables import Marked, cleaned, marked, records, selected

_NOT_CALCULATED = re.compile(
    rb"</?(?:\w+:)?f\b[^<>]*+>\s*+(?:<(?:\w+:)?v\s*+(?:/>|></(?:\w+:)?v>)\s*+)?</(?:\w+:)?c>"
)
"""The end of a cell that has a formula but no value."""
_AT_ONCE = 2**20
_MEDIA = "xl/media/"


def load_xlsx(
    data: bytes,
    uri: str,
    text_columns: Sequence[str] = (),
    metadata_columns: Sequence[str] = (),
) -> LoadedDocument:
    """Load a workbook, including hidden sheets; sheets without values are omitted.

    A formula is read as the last calculated value, or as the formula itself if none is stored. The
    first row with more than one cell is the header, if it qualifies; rows above it are read as they
    are.

    If columns are declared, see `SourceMetadata`, a row with only the name of one of them is a
    header too. The sheet's name and the rows down to the header belong to its first record. Sheets
    whose header has none of the names are read as if no columns were declared.

    Raises:
        SourceError: it is broken, encrypted, or too large when unpacked; or no sheet has the
            declared columns, or a sheet has only some of them.
        MissingDependencyError: the extra is not installed.
    """
    openpyxl = import_extra("openpyxl", extra="office", purpose="reading .xlsx files")
    builder = DocumentBuilder(uri)
    with_metadata: list[Record] = []
    others: list[str] = []  # the headers of sheets without declared columns
    has_columns = not (text_columns or metadata_columns)
    with reading_package(data, uri, "Excel workbook") as archive:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = map(_values, book.worksheets)
        if _lacks_values(archive):
            formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
            sheets = map(_values_or_formulas, book.worksheets, formulas.worksheets)
        for sheet, values in zip(book.worksheets, sheets, strict=True):
            name = well_formed(" ".join(str(sheet.title).split()))
            header = f"{uri}: the header of its sheet {name!r}"
            columns = Columns(text_columns, metadata_columns, header)
            rows = ([_as_text(value) for value in row] for row in values)
            marks: list[Record] = []
            start = builder.at + len(name) + 1
            lines = marked(_lines(rows, columns, others, uri), marks, start, uri)
            text = well_formed(joined(_without_last_blanks(lines), uri))
            if not text:
                builder.omitted["sheet"] += 1
                continue
            has_columns = has_columns or bool(columns.header)
            marks[:1] = [Record(builder.at, marks[0].metadata if marks else {})]
            for mark in marks if metadata_columns else ():
                add_record(with_metadata, mark.start, mark.metadata, uri)
            builder.headings.append(Heading(builder.at, 1, name))
            builder.anchors.append(Anchor(builder.at, "sheet", name))
            builder.add(f"{name}\n{text}")
        if builder.at and not has_columns:
            name = [*text_columns, *metadata_columns][0]
            raise SourceError(f"{uri}: no sheet has a column {name!r}; {hint(name, others)}")
        builder.omitted["image"] = sum(name.startswith(_MEDIA) for name in archive.namelist())
        title = as_title(str(book.properties.title or ""))
        properties = core_properties(book.properties)
    document = builder.document("xlsx", title or title_of(uri), properties)
    return replace(document, records=tuple(with_metadata))


def _values(sheet: Any) -> Iterator[Iterable[Any]]:
    sheet.reset_dimensions()  # some programs write wrong dimensions
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(values_only=True)
    return rows


def _values_or_formulas(sheet: Any, formulas: Any) -> Iterator[Iterable[Any]]:
    sheet.reset_dimensions()
    for cells, written in zip(sheet.iter_rows(), _values(formulas), strict=True):
        yield [
            # A calculated text (`str`) may be empty.
            cell.value if cell.value is not None or cell.data_type == "str" else formula
            for cell, formula in zip(cells, written, strict=True)
        ]


def _lacks_values(archive: ZipFile) -> bool:
    """Return whether there are formulas without values; only Excel calculates when saving."""
    for name in archive.namelist():
        if name.endswith(".xml"):
            with archive.open(name) as part:
                end = b""
                while content := part.read(_AT_ONCE):
                    if _NOT_CALCULATED.search(end + content):
                        return True
                    end = content[-200:]
    return False


def _lines(
    rows: Iterator[list[str]], columns: Columns, others: list[str], uri: str
) -> Iterator[Marked]:
    """Yield a line for each row; empty for an empty row.

    Args:
        rows: the rows of a sheet.
        columns: the declared columns.
        others: collects the cells of a header that has none of these.
        uri: the document's.
    """
    for row in rows:
        below = chain([row], rows)
        if columns.are_in(cells := cleaned(row)):
            yield from selected(below, columns, uri)
        elif sum(map(bool, row)) > 1:
            others += cells
            yield from zip(records(below, uri), repeat(None))
        else:
            yield " ".join(filter(None, cells)), None


def _without_last_blanks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without the blank ones at the end, which come from formatted cells."""
    blanks = 0
    for line in lines:
        if not line:
            blanks += 1
            continue
        yield from ("" for _ in range(blanks))
        blanks = 0
        yield line


def _as_text(value: Any) -> str:
    """Return a value roughly as Excel shows it; dates in ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        is_date = value.time() == datetime.time.min
        return value.date().isoformat() if is_date else value.isoformat(" ", "minutes")
    return str(getattr(value, "text", value))  # formulas of several cells are objects
