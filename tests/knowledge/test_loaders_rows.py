"""Columns of CSV and XLSX and keys of JSON that a source declares to be text or metadata."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_config.declarations.sources import SourceMetadata
from lorebind_config.errors import ConfigurationError, SourceError
from lorebind_knowledge.loaders import rows
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.registry import load_document

from .documents import xlsx_bytes

FAQ = (
    "Question,Answer,Product,Since,2024\n"
    'How do I start?,"Press\nthe button.",Falcon,2024-03-01,007\n'
    "How do I stop?,Press again.,Falcon,2024-03-01,007\n"
    "\n"
    "Who made it?,A company.,Kite,,12\n"
)


def load(text: str, name: str = "faq.csv", **declared: list[str]) -> LoadedDocument:
    return load_document(text.encode(), name, declared=SourceMetadata(**declared))


def parts(document: LoadedDocument) -> list[tuple[str, dict[str, Any]]]:
    """Return the text of each part that is split alone, with its metadata."""
    return [
        (document.text[start:end].strip("\n"), dict(document.metadata_at(start)))
        for start, end in document.parts()
    ]


def test_columns() -> None:
    """Rows with different metadata are apart; the header is in no passage, and lines stay."""
    document = load(
        FAQ, text_columns=["Answer", "Question"], metadata_columns=["Product", "Since", "2024"]
    )
    falcon = {"Product": "Falcon", "Since": "2024-03-01", "2024": "007"}
    assert parts(document) == [
        (
            "Answer: Press the button. | Question: How do I start?\n\n"
            "Answer: Press again. | Question: How do I stop?",
            falcon,
        ),
        ("Answer: A company. | Question: Who made it?", {"Product": "Kite", "2024": 12}),
    ]
    last = document.text.index("Answer: A")
    assert document.span(last, len(document.text)).line_start == 6
    assert document.text.startswith("Answer | Question\n")


def test_all_columns_are_text() -> None:
    """Without names for the text, it is that of all columns, also of those that are metadata."""
    document = load(FAQ, metadata_columns=["Product"])
    assert document.text.splitlines()[1].endswith("Product: Falcon | Since: 2024-03-01 | 2024: 007")
    assert [metadata for _, metadata in parts(document)] == [
        {"Product": "Falcon"},
        {"Product": "Kite"},
    ]
    only_text = load(FAQ, text_columns=["Question"])
    assert only_text.records == ()
    assert only_text.text.splitlines()[:2] == ["Question", "Question: How do I start?"]
    uneven = load("a,b,,a\n1\n2,3,4,,6\n", metadata_columns=["b"])
    assert parts(uneven) == [
        ("a: 1", {}),
        ("a: 2 | b: 3 | column 3: 4 | column 5: 6", {"b": 3}),
    ]
    assert load("a,b\n1\n", text_columns=["b", "a"]).text == "b | a\na: 1"
    assert parts(load("a,b\n", metadata_columns=["b"])) == [("a | b", {})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FAQ, r"faq.csv: its first row has no column 'Produkt'; did you mean 'Product'"),
        ("Produkt,Produkt\n1,2\n", "faq.csv: its first row has 2 columns 'Produkt'; rename"),
    ],
)
def test_wrong_columns(text: str, message: str) -> None:
    """A file without a declared column fails, and the message names those it has."""
    with pytest.raises(SourceError, match=message):
        load(text, metadata_columns=["Produkt"])


COLUMNS: dict[str, Any] = {"text_columns": ["a"], "metadata_columns": ["b"]}
SHEETS: dict[str, Sequence[Sequence[Any]]] = {
    "One": [["A caption"], [], ["b", "a", "c"], [1, "first", 2], [1, "second"], [2], ["x", "last"]],
    "Notes": [["Only a note."]],
    "Other": [["c", "d"], ["e", "f"]],
    "Two": [["a", "b"], ["more", "x"], [None, 3]],
    "Three": [["a", "b"]],
    "Four": [["a", "b"], ["more", 0.5]],
}


def sheets(**rows: Sequence[Sequence[Any]]) -> LoadedDocument:
    data = xlsx_bytes(rows or SHEETS)
    return load_document(data, "a.xlsx", declared=SourceMetadata(**COLUMNS))


def test_sheets() -> None:
    """A sheet begins with its first record, and sheets without the columns are read as usual."""
    document = sheets()
    assert parts(document) == [
        ("One\nA caption\n\na\na: first\na: second", {"b": 1}),
        ("a: last", {"b": "x"}),
        ("Notes\nOnly a note.", {}),
        ("Other\nc | d\nc: e | d: f", {}),
        ("Two\na\na: more", {"b": "x"}),
        ("Three\na", {}),
        ("Four\na\na: more", {"b": "0.5"}),
    ]
    start = document.text.index("a: last")
    assert document.span(start, start + 7).locator == "sheet One, row 7"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"S": [["c", "aa"], [1, 2]]}, r"no sheet has a column 'a'; did you mean 'aa'"),
        ({"S": [["only text"]]}, r"no sheet has a column 'a'"),
        ({"S": [["c", "a"], [1, 2]]}, r"the header of its sheet 'S' has no column 'b'"),
    ],
)
def test_wrong_sheets(rows: dict[str, Any], message: str) -> None:
    """A workbook fails if a column is in none of its sheets, or only some are in a sheet."""
    with pytest.raises(SourceError, match=f"a.xlsx: {message}"):
        sheets(**rows)


VALUES = [
    {"name": "Falcon", "owner": {"team": "air"}, "tags": ["a", "b"]},
    {"name": "Kite", "owner": {"team": "air"}, "tags": ["a", "b"]},
    {"name": "Crane", "owner": None, "owner.team": "sea"},
    "text",
]
KEYS = ["owner.team", "tags"]
AIR = {"owner.team": "air", "tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (json.dumps(VALUES), "a.json", [AIR, {"owner.team": "sea"}, {}]),
        ("\n".join(map(json.dumps, VALUES)), "a.jsonl", [AIR, {"owner.team": "sea"}, {}]),
        ("\n\n".join(map(json.dumps, VALUES[:2])) + "\nnull\n", "a.jsonl", [AIR, {}]),
        (json.dumps(VALUES[0]), "a.json", [AIR]),
        ("[]", "a.json", [{}]),
        (json.dumps(["\ud83d", {"owner": {"team": "x"}}]), "a.json", [{}, {"owner.team": "x"}]),
    ],
)
def test_keys(text: str, name: str, expected: list[dict[str, Any]]) -> None:
    """They are those of the object, of each in a list, or of each line; the text has them too."""
    document = load(text, name, metadata_keys=KEYS)
    assert [metadata for _, metadata in parts(document)] == expected
    assert document.text == load_document(text.encode(), name).text
    starts = [record.start for record in document.records]
    assert all(start == 0 or document.text[start - 1] == "\n" for start in starts)


def test_edits_move_and_change_records() -> None:
    """A step also redacts the metadata of rows, which stay with their rows."""
    document = load(FAQ, metadata_columns=["Product"]).replaced("Falcon|button", "***")
    assert [metadata["Product"] for _, metadata in parts(document)] == ["***", "Kite"]
    assert "Falcon" not in repr(document)
    assert document.text[document.records[1].start :].startswith("Question: Who")


def test_other_formats_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns concern CSV and keys concern JSON; very many different values are refused."""
    declared = {"metadata_columns": ["a"], "metadata_keys": ["b"]}
    assert load("| a |\n|---|\n| 1 |", "a.md", **declared).records == ()
    assert load('{"a": 1}', "a.json", **declared).records[0].metadata == {}
    monkeypatch.setattr(rows, "MOST_RECORDS", 2)
    assert len(load("a\n1\n2\n2\n", metadata_columns=["a"]).records) == 2
    with pytest.raises(SourceError, match=r"faq\.csv: more than 2 of its rows"):
        load("a\n1\n2\n1\n", metadata_columns=["a"])


def project_of(folder: Path, form: str = "csv", **metadata: Any) -> Project:
    rows = [*csv.reader(FAQ.splitlines(keepends=True))]
    data = FAQ.encode() if form == "csv" else xlsx_bytes({"Questions": rows})
    (folder / f"faq.{form}").write_bytes(data)
    source = {"type": "file_glob", "path": "faq.*", "metadata": metadata}
    kb = {"id": "faq", "embedder": "words", "sources": [source], "metadata": {"Since": "kb"}}
    declared = {
        "name": "rows",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [kb],
    }
    return Project.build(declared, root=folder)


@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_filters(tmp_path: Path, form: str) -> None:
    """A filter selects the rows; values of the row precede those of the source."""
    columns = {"text_columns": ["Question", "Answer"], "metadata_columns": ["Product", "Since"]}
    with project_of(tmp_path, form, **columns, static={"Product": "any", "team": "web"}) as project:
        project.ingest("faq")
        matches = project.query("faq", "How?", filters={"Product": "Kite"}).matches
        assert [match.text for match in matches] == ["Question: Who made it? | Answer: A company."]
        assert matches[0].metadata["team"] == "web"
        assert matches[0].metadata["Since"] == "kb"
        assert project.query("faq", "How?", filters={"Product": "any"}).matches == []
    types: dict[str, Any] = {"types": {"2024": "number"}}
    other = {**columns, "metadata_columns": ["Product", "2024"]}
    with project_of(tmp_path, form, **other, **types) as project:
        report = project.ingest("faq")
        assert report.texts_embedded == 0
        matches = project.query("faq", "How?", filters={"2024": {"$lt": 8}}).matches
        assert {match.metadata["Product"] for match in matches} == {"Falcon"}
        fields = {field.key: field for field in project.knowledge_base("faq").fields()}
        assert {entry.value: entry.count for entry in fields["Product"].values} == {
            "Falcon": 1,
            "Kite": 1,
        }
        assert fields["2024"].types == ["number"]


@pytest.mark.parametrize("name", ["title", "page", "uri"])
def test_reserved_names(tmp_path: Path, name: str) -> None:
    """Names that passages use themselves are refused before anything is read."""
    with pytest.raises(ConfigurationError, match=rf"metadata_columns: .*{name}"):
        project_of(tmp_path, metadata_columns=[name])
