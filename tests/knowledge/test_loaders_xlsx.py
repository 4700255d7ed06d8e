"""XLSX: sheets and rows, headers, dates, blank rows, and workbooks that are refused."""

from __future__ import annotations

import datetime
import io
import sys
import zipfile

import pytest
from openpyxl.worksheet.formula import ArrayFormula

from lorebind_config.errors import MissingDependencyError, SourceError
from lorebind_knowledge.loaders.office import packages
from lorebind_knowledge.loaders.registry import load_document

from .documents import package, xlsx_bytes

PRICES = [
    ["Price list"],
    [],
    ["name", "price", "since"],
    ["front door", 12.0, datetime.datetime(2024, 5, 3)],
    ["gate", 0.1 + 0.2, None],
]


def test_sheets() -> None:
    """Rows are `column: value` pairs below the sheet's name; empty sheets are omitted."""
    data = xlsx_bytes({"Prices": PRICES, "Empty": [[], [None]], "More": [["a", "b"], [True, "x"]]})
    document = load_document(data, "a.xlsx")
    assert document.text == (
        "Prices\nPrice list\n\nname | price | since\n"
        "name: front door | price: 12 | since: 2024-05-03\nname: gate | price: 0.3\n\n"
        "More\na | b\na: True | b: x"
    )
    assert [(h.title, h.start) for h in document.headings] == [("Prices", 0), ("More", 114)]
    assert (document.title, document.format) == ("a", "xlsx")
    assert load_document(xlsx_bytes({"A": PRICES}, title="Ours"), "a.xlsx").title == "Ours"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("Prices", "list", "sheet Prices, row 1"),
        ("front", "gate", "sheet Prices, rows 4-5"),
        ("gate", "More", "sheet Prices, row 5 to sheet More, row 1"),
        ("Prices", "x", "sheet Prices, row 1 to sheet More, row 2"),
        ("a | b", "x", "sheet More, rows 1-2"),
    ],
)
def test_rows_of_a_passage(first: str, last: str, expected: str) -> None:
    """Rows count from the first row of their sheet."""
    document = load_document(xlsx_bytes({"Prices": PRICES, "More": [["a", "b"], [1, "x"]]}), "a")
    start = document.text.index(first)
    span = document.span(start, document.text.index(last, start) + len(last))
    assert span.locator == expected


def test_formulas() -> None:
    """A formula is read as its value, or as itself if no program calculated it."""
    several = ArrayFormula("D2:D3", "=SUM(B2:B3*C2:C3)")
    rows = [["a", "b", "c", "d"], ["x", "=1+1", "=B2&A9", "=A9"], ["y", "=2*3", several, None]]
    data = xlsx_bytes({"S": rows})
    empty = b'<c r="D2" t="str">'
    stored = {b"1+1</f><v></v>": b"1+1</f><v>2</v>", b'<c r="D2">': empty, b'<c r="D2" >': empty}
    document = load_document(_changed(data, stored), "a.xlsx")
    assert document.text == (
        "S\na | b | c | d\na: x | b: 2 | c: =B2&A9\na: y | b: =2*3 | c: =SUM(B2:B3*C2:C3)"
    )


def test_headers() -> None:
    """A table may start in any column, and its header may have years and gaps."""
    sheets = {
        "Moved": [[], [None, "item", "price"], [None, "gate", 3]],
        "Years": [[None, 2023, 2024.0], ["Peru", 10, 12]],
    }
    assert load_document(xlsx_bytes(sheets), "a.xlsx").text == (
        "Moved\n\nitem | price\nitem: gate | price: 3\n\n"
        "Years\n2023 | 2024\ncolumn 1: Peru | 2023: 10 | 2024: 12"
    )


def test_blank_rows() -> None:
    """Blank rows between others are kept; those at the end are omitted."""
    rows = [["a", "b"], *[[]] * 500, [1, 2], *[[None]] * 10]
    document = load_document(xlsx_bytes({"S": rows}), "a.xlsx")
    assert document.text == "S\na | b\n" + "\n" * 500 + "a: 1 | b: 2"
    assert (
        document.span(document.text.index("a: 1"), len(document.text)).locator == "sheet S, row 502"
    )


def test_wrong_dimensions() -> None:
    """A sheet is read completely, whatever dimensions it declares."""
    data = _changed(xlsx_bytes({"S": [["a", "b"], [1, 2]]}), {b'ref="A1:B2"': b'ref="A1"'})
    assert load_document(data, "a.xlsx").text == "S\na | b\na: 1 | b: 2"


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken, encrypted and huge workbooks are refused with the reason."""
    with pytest.raises(SourceError, match=r"a.xlsx: a broken Excel workbook"):
        load_document(package({"xl/workbook.xml": "x"}), "a.xlsx")
    with pytest.raises(SourceError, match=r"a.xlsx: is encrypted"):
        load_document(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.xlsx")
    monkeypatch.setattr(packages, "MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(SourceError, match=r"a.xlsx: unpacks to .* more than 1,000"):
        load_document(xlsx_bytes({"S": [["a"]]}), "a.xlsx")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """If openpyxl is not installed, the error names the extra."""
    data = xlsx_bytes({"S": [["a"]]})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependencyError, match=r"lorebind\[office\]"):
        load_document(data, "a.xlsx")


def _changed(data: bytes, changes: dict[bytes, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(packed, "w") as target:
        for part in source.namelist():
            content = source.read(part)
            for old, new in changes.items():
                content = content.replace(old, new)
            target.writestr(part, content)
    return packed.getvalue()
