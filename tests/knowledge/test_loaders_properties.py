"""Author, dates and language of documents, by format, as `from_document` of a source reads them."""

from __future__ import annotations

import datetime
import os
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest

from lorebind import Project
from lorebind_config.dates import is_date
from lorebind_knowledge.loaders.registry import load_document
from tests.knowledge.documents import epub_bytes, pdf_bytes, saved

CREATED, MODIFIED = datetime.datetime(2025, 3, 1, 9), datetime.datetime(2026, 11, 23, 10, 30)
EVERY = {
    "author": "Ada Byron",
    "created": "2025-03-01T09:00:00Z",
    "modified": "2026-11-23T10:30:00Z",
    "language": "en-GB",
}
HTML = """<html lang="en-GB"><head><title>T</title>
<meta name="Author" content=" Ada  Byron "><meta name="author" content="">
<meta property="article:published_time" content="2025-03-01T10:00:00+01:00">
<meta itemprop="dateModified" content="2026-11-23T10:30:00Z">
<meta name="date" content="1999-01-01"><meta content="nameless"></head>
<body><p>The text.</p></body></html>"""
PDF = "/Author (Ada Byron) /CreationDate (D:20250301100000+01'00') /ModDate (D:20261123103000Z) "
RTF = (
    r"{\rtf1\ansi\ansicpg1252{\info{\title T}{\author Ada Byron}"
    r"{\creatim\yr2025\mo3\dy1\hr9\min0}{\revtim\yr2026\mo11\dy23\hr10\min30}}The text.\par}"
)
BOOK = (
    "T</dc:title><dc:creator>Ada Byron</dc:creator><dc:date>2025-03-01T09:00:00Z</dc:date>"
    '<dc:language>en-GB</dc:language><meta property="dcterms:modified">2026-11-23T10:30:00Z</meta>'
    "<dc:title>"
)
MARKDOWN = (
    "---\nauthors: [Ada Byron, Ada Byron]\nDate: 2025-03-01 10:00:00+01:00\n"
    "last_updated: 2026-11-23T10:30:00Z\nlang: en_GB\n---\nThe text."
)


def office(kind: str) -> bytes:
    document: Any = {"docx": docx.Document, "pptx": pptx.Presentation, "xlsx": openpyxl.Workbook}[
        kind
    ]()
    if kind == "docx":
        document.add_paragraph("The text.")
    elif kind == "xlsx":
        document.active.append(["The text."])
    about = document.properties if kind == "xlsx" else document.core_properties
    setattr(about, "creator" if kind == "xlsx" else "author", "Ada Byron")
    about.created, about.modified, about.language = CREATED, MODIFIED, "en-GB"
    return saved(document)


def mail() -> bytes:
    document = EmailMessage()
    document["From"], document["Subject"] = "Ada Byron <ada@example.com>", "T"
    document["Date"] = "Sat, 01 Mar 2025 10:00:00 +0100"
    document.set_content("The text.")
    document["Content-Language"] = "en-GB"
    return document.as_bytes()


@pytest.mark.parametrize(
    ("name", "data", "properties"),
    [
        ("a.html", HTML.encode(), EVERY),
        ("a.html", b"<html><title>T</title><p>The text.", {}),
        ("a.pdf", pdf_bytes(["The text."]).replace(b"<< /Title () >>", f"<< {PDF}>>".encode()), {
            **EVERY, "language": "",
        }),
        ("a.docx", office("docx"), EVERY),
        ("a.pptx", office("pptx"), EVERY),
        ("a.xlsx", office("xlsx"), EVERY),
        ("a.epub", epub_bytes({"a.xhtml": "<h1>A</h1><p>The text.</p>"}, title=BOOK), EVERY),
        ("a.rtf", RTF.encode(), {**EVERY, "language": ""}),
        ("a.eml", mail(), {**EVERY, "author": "Ada Byron <ada@example.com>", "modified": ""}),
        ("a.txt", b"The text.", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_properties(name: str, data: bytes, properties: dict[str, str]) -> None:
    expected = {key: value for key, value in properties.items() if value}
    read = dict(load_document(data, name).properties)
    if name == "a.xlsx":  # the library writes the time of saving
        assert is_date(read.pop("modified"))
        del expected["modified"]
    assert read == expected


def test_authors_that_programs_write() -> None:
    """The name of the library that wrote a document is not an author."""
    document = docx.Document()
    document.add_paragraph("The text.")
    assert "author" not in load_document(saved(document), "a.docx").properties


def source(root: Path, **metadata: Any) -> Project:
    files = {"type": "file_glob", "path": "docs/*", "metadata": metadata}
    kb = {"id": "docs", "embedder": "words", "sources": [files]}
    embedders = [{"id": "words", "provider": "hashing"}]
    return Project.build({"name": "p", "embedders": embedders, "knowledge_bases": [kb]}, root=root)


def metadata(project: Project) -> dict[str, dict[str, Any]]:
    kb = project.knowledge_base("docs")
    return {info.uri: dict(kb.chunks(info.uri)[0].metadata) for info in kb.documents()}


def test_from_document(tmp_path: Path) -> None:
    """Own values come first, then those of the file; what changes is written without embedding."""
    files = {"a.md": MARKDOWN.encode(), "b.html": HTML.encode(), "c.txt": b"Das ist der Text und "
             b"er ist nicht lang, aber auch nicht kurz."}  # fmt: skip
    (tmp_path / "docs").mkdir()
    for name, data in files.items():
        (tmp_path / "docs" / name).write_bytes(data)
    plain = tmp_path / "docs/c.txt"
    os.utime(plain, (1_700_000_000, 1_700_000_000))
    with source(tmp_path) as project:
        project.ingest("docs")
        assert not {*EVERY} & {*metadata(project)["docs/b.html"]}
    with source(tmp_path, from_document=["title", *EVERY]) as project:
        report = project.ingest("docs")
        assert (report.documents["updated"], report.texts_embedded) == (3, 0)
        by_uri = metadata(project)
        for uri in ("docs/a.md", "docs/b.html"):
            assert {key: by_uri[uri][key] for key in EVERY} == EVERY
        assert by_uri["docs/c.txt"]["modified"] == "2023-11-14T22:13:20Z"
        assert by_uri["docs/c.txt"]["language"] == "de"
        old = project.query("docs", "text", filters={"modified": {"$lt": "2024-01-01"}})
        assert [match.metadata["uri"] for match in old] == ["docs/c.txt"]
        os.utime(plain)
        report = project.ingest("docs")
        assert (report.documents["updated"], report.texts_embedded) == (1, 0)
        new = project.query("docs", "text", filters={"modified": {"$newer_than": "1d"}})
        assert "docs/c.txt" in {match.metadata["uri"] for match in new}
        assert project.ingest("docs").documents["unchanged"] == 3
        os.utime(tmp_path / "docs/a.md", (0, 0))
    with source(tmp_path, static={"author": "Team"}, from_document=["author"]) as project:
        project.ingest("docs")
        assert {about["author"] for about in metadata(project).values()} == {"Team"}
