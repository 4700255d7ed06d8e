"""CSV and TSV: one record per line, with the names of its columns."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders import base
from lorebind_knowledge.loaders.registry import load_document


def table(text: str, name: str = "people.csv") -> list[str]:
    return load_document(text.encode(), name).text.split("\n")


def test_records() -> None:
    """The header comes first; each record names its columns, except empty ones."""
    assert table('name,age,city\nAda,36,\n"Li, Bo",,Rome\n') == [
        "name | age | city",
        "name: Ada | age: 36",
        "name: Li, Bo | city: Rome",
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    """The delimiter is the one used in the header."""
    text = f'"a,b;c\t|"{delimiter}x{delimiter}y\n1{delimiter}2{delimiter}3'
    assert table(text) == ["a,b;c | | x | y", "a,b;c |: 1 | x: 2 | y: 3"]


def test_tsv_is_parted_by_tabs() -> None:
    """A `.tsv` file is separated by tabs, whatever its first line contains."""
    assert table("a,b,c\td\n1\t2", "x.tsv") == ["a,b,c | d", "a,b,c: 1 | d: 2"]


@pytest.mark.parametrize("first", ["1,2", "a,", "a,a", "a,1.5", ",a"])
def test_without_header(first: str) -> None:
    """A first row with numbers, duplicates, or a single name beside a gap is a record."""
    lines = table(f"{first}\nx,y")
    assert lines[0].startswith("column ")
    assert lines[1] == "column 1: x | column 2: y"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (",a,b\n0,x,y", ["a | b", "column 1: 0 | a: x | b: y"]),
        ("a,b,\nx,y,\nz,,9", ["a | b", "a: x | b: y", "a: z | column 3: 9"]),
        ("land,2023,2024\nPeru,10,12", ["land | 2023 | 2024", "land: Peru | 2023: 10 | 2024: 12"]),
        ("\n,1999\n\nx,5", ["", "column 2: 1999", "", "column 1: x | column 2: 5"]),
    ],
)
def test_gaps_and_years_in_the_header(text: str, lines: list[str]) -> None:
    """A header may have years, and columns without a name, which are numbered."""
    assert table(text) == lines


def test_a_column_of_years() -> None:
    """A year that has another year below it is no name of a column."""
    assert table("Alien,1979\nAliens,1986") == [
        "column 1: Alien | column 2: 1979",
        "column 1: Aliens | column 2: 1986",
    ]


def test_rows_of_other_lengths() -> None:
    """Cells beyond the header are numbered, and missing ones omitted."""
    assert table("a,b\n1\n1,2,3\n\n4,5") == [
        "a | b",
        "a: 1",
        "a: 1 | b: 2 | column 3: 3",
        "",
        "a: 4 | b: 5",
    ]


@given(
    st.lists(
        st.lists(st.text(st.sampled_from('ab ,;\n"é'), max_size=5), min_size=2, max_size=3),
        max_size=8,
    )
)
def test_lines_are_those_of_the_file(rows: list[list[str]]) -> None:
    """However cells are quoted, a record is on the line where the file begins it."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL)
    starts = []
    writer.writerow(["first", "second", "third"])
    for row in rows:
        starts.append(written.getvalue().count("\n"))
        writer.writerow(row)
    lines = table(written.getvalue())
    for row, start in zip(rows, starts, strict=True):
        joined = " | ".join(
            f"{name}: {' '.join(cell.split())}"
            for name, cell in zip(("first", "second", "third"), row, strict=False)
            if cell.strip()
        )
        assert lines[start] == joined


def test_an_endless_quote() -> None:
    """A cell that is too long for the csv module is refused with its line."""
    with pytest.raises(SourceError, match=r"x.csv: line \d+: not CSV: field larger"):
        load_document(b'a,b\n1,"' + b"x" * 200_000, "x.csv")


def test_multiplied_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long header over many records is refused instead of being repeated for each."""
    monkeypatch.setattr(base, "MAX_CHARACTERS", 100_000)
    text = f"{'h' * 1000},b\n" + "1,2\n" * 1000
    with pytest.raises(SourceError, match=r"longer than 100,000 characters"):
        load_document(text.encode(), "x.csv")
