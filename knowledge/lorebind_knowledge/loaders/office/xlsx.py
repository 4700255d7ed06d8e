"""Load XLSX: Excel's sheets, each row a line of `column: value` pairs; headings are sheet names."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from zipfile import ZipFile

from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import (
    Anchor,
    Heading,
    LoadedDocument,
    as_title,
    joined,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.builder import DocumentBuilder
from lorebind_knowledge.loaders.office.packages import core_properties, reading_package
from lorebind_knowledge.loaders.tables import records

_NOT_CALCULATED = re.compile(
    rb"</?(?:\w+:)?f\b[^<>]*+>\s*+(?:<(?:\w+:)?v\s*+(?:/>|></(?:\w+:)?v>)\s*+)?</(?:\w+:)?c>"
)
"""The end of a cell that has a formula but no value."""
_AT_ONCE = 2**20
_MEDIA = "xl/media/"


def load_xlsx(data: bytes, uri: str) -> LoadedDocument:
    """Load a workbook, including hidden sheets; sheets without values are omitted.

    A formula is read as the last calculated value, or as the formula itself if none is stored. The
    first row with more than one cell is the header, if it qualifies; rows above it are read as they
    are.

    Raises:
        SourceError: it is broken, encrypted, or too large when unpacked.
        MissingDependencyError: the extra is not installed.
    """
    openpyxl = import_extra("openpyxl", extra="office", purpose="reading .xlsx files")
    builder = DocumentBuilder(uri)
    with reading_package(data, uri, "Excel workbook") as archive:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = map(_values, book.worksheets)
        if _lacks_values(archive):
            formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
            sheets = map(_values_or_formulas, book.worksheets, formulas.worksheets)
        for sheet, values in zip(book.worksheets, sheets, strict=True):
            rows = _records(([_as_text(value) for value in row] for row in values), uri)
            text = well_formed(joined(_without_last_blanks(rows), uri))
            if not text:
                builder.omitted["sheet"] += 1
                continue
            name = well_formed(" ".join(str(sheet.title).split()))
            builder.headings.append(Heading(builder.at, 1, name))
            builder.anchors.append(Anchor(builder.at, "sheet", name))
            builder.add(f"{name}\n{text}")
        builder.omitted["image"] = sum(name.startswith(_MEDIA) for name in archive.namelist())
        title = as_title(str(book.properties.title or ""))
        properties = core_properties(book.properties)
    return builder.document("xlsx", title or title_of(uri), properties)


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


def _records(rows: Iterator[list[str]], uri: str) -> Iterator[str]:
    """Yield a line for each row; empty for an empty row."""
    for row in rows:
        if sum(map(bool, row)) > 1:
            yield from records(chain([row], rows), uri)
        else:
            yield " ".join("".join(row).split())


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
