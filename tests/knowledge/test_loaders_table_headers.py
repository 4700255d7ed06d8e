"""Headers of tables: found in every format, and embedded with the passages below them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_knowledge.loaders.base import LONGEST_HEADER, MOST_TABLES, LoadedDocument
from lorebind_knowledge.loaders.html.removal import without_html
from lorebind_knowledge.loaders.registry import load_document

from .documents import Rows, docx_tables, epub_bytes, html_tables, markdown_tables, pptx_tables

PRICES: Rows = [["Tool", "Price"], *([f"Tool {number}", str(number)] for number in range(3))]


def sections(rows: Rows) -> dict[str, Rows]:
    """Return a table between headings."""
    return {"Tools": rows, "The end.": []}


def page(rows: Rows, header: str = "td") -> bytes:
    return html_tables(sections(rows), header=header)


def notebook(rows: Rows) -> bytes:
    cells = [{"cell_type": "code", "source": "1"}]
    cells += [{"cell_type": "markdown", "source": markdown_tables(sections(rows)).decode()}]
    return json.dumps({"cells": cells}).encode()


WRITERS: dict[str, Callable[[Rows], bytes]] = {
    "tools.md": lambda rows: markdown_tables(sections(rows)),
    "tools.html": page,
    "tools.docx": lambda rows: docx_tables(sections(rows)),
    "tools.pptx": lambda rows: pptx_tables(sections(rows)),
    "tools.epub": lambda rows: epub_bytes(
        {"1.xhtml": page([["a"]]).decode(), "2.xhtml": page(rows).decode()}
    ),
    "tools.ipynb": notebook,
}


def headers(document: LoadedDocument) -> list[str]:
    """Return the header for each line of the text."""
    starts = [0, *(at + 1 for at, character in enumerate(document.text) if character == "\n")]
    return [document.header_above(start) for start in starts]


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_has_a_header(name: str) -> None:
    """Its rows have the header, and neither the header itself nor the text around it has."""
    document = load_document(WRITERS[name](PRICES), name)
    (table,) = document.tables
    lines = document.text.split("\n")
    rows = [line for line in lines if line.strip("| ").startswith("Tool ") and "Price" not in line]
    expected = ["Tool | Price" if line in rows or "---" in line else "" for line in lines]
    assert len(rows) == 3
    assert headers(document) == expected
    assert document.text[table.start : table.rows].strip("| \n") == "Tool | Price"
    assert document.text[: table.end].rstrip().endswith(rows[-1])


@pytest.mark.parametrize(
    ("content", "header"),
    [
        (page(PRICES, "th"), "Tool | Price"),
        (page([["Tool", "2"], ["a", "3"]]), ""),  # a number is no name
        (page([["Tool", "2"], ["a", "3"]], "th"), "Tool | 2"),  # unless it is marked as one
        (page([["Tool", "Tool"], ["a", "3"]]), ""),
        (page([["Tool", "Price"]]), ""),  # nothing below it
        (page([["", "Price"], ["a", "3"]], "th"), "Price"),
        (page([["Tools"], ["a"]]), ""),  # one column says what it is
        (
            b"<html><table><caption>In euros</caption><thead><tr><th>Tool<th colspan=2>Price"
            b"<tr><td><td>shop<td>dealers</thead><tr><td>a<td>3<td>2</table>",
            "In euros\nTool | Price\nshop | dealers",
        ),
        (b"<html><table><tr><th>Name<td>Falcon<tr><th>Color<td>red</table>", ""),
        (b"<html><table><tr><th colspan=2>Inside<tr><td>a<td>b<tr><td>c<td>d</table>", ""),
        (
            b"<html><table><tr><td>x<table><tr><th>a<th>b<tr><td>c<td>d</table></table>",
            "a | b",
        ),
        (b"<html><ul><li>x<table><tr><th>a<th>b<tr><td>c<td>d</table></ul>", "a | b"),
    ],
)
def test_headers_of_pages(content: bytes, header: str) -> None:
    """Marked cells are the header, else the first row if its cells look like names."""
    document = load_document(content, "a.html")
    assert [*filter(None, dict.fromkeys(headers(document)))] == [*filter(None, [header])]


@pytest.mark.parametrize(
    ("content", "name", "header"),
    [
        (docx_tables({"a": [["Tool", "2"], ["a", "b"]]}, repeated=1), "a.docx", "Tool | 2"),
        (docx_tables({"a": [["Tool", "2"], ["a", "b"]]}, repeated=2), "a.docx", ""),
        (docx_tables({"a": [["All", ""], *PRICES]}), "a.docx", "All\nTool | Price"),
        (pptx_tables({"a": PRICES}, first_row=False), "a.pptx", ""),
    ],
)  # fmt: skip
def test_headers_of_office_documents(content: bytes, name: str, header: str) -> None:
    """The document says which rows are the header; titles above the columns belong to it."""
    document = load_document(content, name)
    assert [*filter(None, dict.fromkeys(headers(document)))] == [*filter(None, [header])]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("a | b\n--|--\n1 | 2\n", ["a | b"]),
        ("> | a | b |\n> |---|---|\n> | 1 | 2 |", []),  # quotations are read as text
        ("```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\n", []),
        ("| a | b |\n---\n| 1 | 2 |", []),
        ("text\n\n|---|---|\n| 1 | 2 |", []),
        ("|---|---|\n| 1 | 2 |", []),
        ("| a | b |\r\n|---|---|\r\n| 1 | 2 |\r\n\r\n| c | d |\r\n|---|---|\r\n| 3 | 4 |\r\n",
         ["a | b", "c | d"]),
    ],
)  # fmt: skip
def test_pipe_tables(text: str, tables: list[str]) -> None:
    """A row of dashes with a row above it begins a table, also with Windows line ends."""
    document = load_document(text.encode(), "a.md")
    assert [document.header_above(table.rows) for table in document.tables] == tables


def test_tables_without_html() -> None:
    """Offsets of tables stay right when tags are removed before them and in them."""
    text = "<p>Some <b>text</b></p>\n\n| <i>Tool</i> | Price |\n|---|---|\n| a | 1 |\n"
    document = without_html(load_document(text.encode(), "a.md"))
    assert document.header_above(document.text.index("| a")) == "Tool | Price"


@pytest.mark.parametrize("name", ["tools.md", "tools.html", "tools.docx", "tools.pptx"])
def test_the_header_is_embedded_with_each_passage(tmp_path: Path, name: str) -> None:
    """It is part of the context, and no passage's text has more than the document."""
    rows = [["Tool", "Price"], *([f"Tool {number}", str(number)] for number in range(200))]
    (tmp_path / name).write_bytes(WRITERS[name](rows))
    source = {"type": "file_glob", "path": "tools.*"}
    kb: dict[str, Any] = {"id": "docs", "embedder": "words", "sources": [source]}
    declared = {
        "name": "tables",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [kb],
    }
    with Project.build(declared, root=tmp_path) as project:
        project.ingest("docs")
        chunks = project.knowledge_base("docs").chunks(name)
        text = load_document((tmp_path / name).read_bytes(), name).text
        assert len(chunks) > 3
        for chunk in chunks:
            assert text[chunk.metadata["start"] : chunk.metadata["end"]] == chunk.text
        pack = tmp_path / "docs.lorebind"
        project.knowledge_base("docs").pack(pack)
    below = [
        context
        for context, text in packed_contexts(pack)
        if text.strip("| ").startswith("Tool ") and "Price" not in text
    ]
    assert len(below) > 2
    assert {context.partition("\n")[2] for context in below} == {"Tool | Price"}


def packed_contexts(pack: Path) -> list[tuple[str, str]]:
    with zipfile.ZipFile(pack) as archive:
        name = next(name for name in archive.namelist() if name.startswith("chunks"))
        lines = archive.read(name).decode().splitlines()
    return [(line["context"], line["text"]) for line in map(json.loads, lines)]


@pytest.mark.parametrize("name", WRITERS)
def test_many_columns(name: str) -> None:
    """Only the first names of a wide table are repeated, whole ones."""
    # The libraries that write Office documents take quadratic time.
    count = 50 if name in ("tools.docx", "tools.pptx") else 10_000
    rows = [[f"Column {at}" for at in range(count)], ["1"] * count]
    document = load_document(WRITERS[name](rows), name)
    header = next(filter(None, headers(document)))
    assert LONGEST_HEADER - 15 < len(header) <= LONGEST_HEADER
    assert header.split(" | ") == rows[0][: header.count(" | ") + 1]


def test_a_long_header() -> None:
    """A header of a megabyte costs each passage no more than a short one."""
    rows = [["Tool", "x" * 2**20], *([str(number), "1"] for number in range(20_000))]
    document = load_document(markdown_tables({"a": rows}), "a.md")
    assert {len(header) for header in headers(document)} == {0, len("Tool")}


def test_many_tables() -> None:
    """Those after the ten thousandth count as text, in one document of any format."""
    text = "a | b\n-|-\n1 | 2\n\n" * (MOST_TABLES + 5)
    assert len(load_document(text.encode(), "a.md").tables) == MOST_TABLES
    table = "<table><tr><th>a<th>b<tr><td>1<td>2</table>"
    many = f"<html>{table * (MOST_TABLES + 5)}".encode()
    assert len(load_document(many, "a.html").tables) == MOST_TABLES
