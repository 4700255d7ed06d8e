"""DOCX: headings by style, lists, tables, tracked changes, and archives that are refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.office import packages
from lorebind_knowledge.loaders.registry import load_document

from .documents import handbook, saved

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "docx"


def body(xml: str) -> LoadedDocument:
    """Return a document with these WordprocessingML elements as its body."""
    document = docx.Document()
    wrapper = parse_xml(f"<w:body {nsdecls('w')}>{xml}</w:body>")
    for element in reversed(list(wrapper)):
        document.element.body.insert(0, element)
    return load_document(saved(document), "a.docx")


def test_document_order() -> None:
    """Paragraphs, lists and tables are in document order, with headings by style."""
    document = load_document(handbook(), "x.docx")
    assert document.text == (
        "The handbook\n\nAn introduction.\n\nKeys\n\nRotate them:\n\n- each quarter\n- after a leak"
        "\n\nOwners\n\nTeam | Mail\nSupport | help@example.com\n\nThe end."
    )
    parts = [(h.level, h.title, document.text[h.start :].split("\n")[0]) for h in document.headings]
    assert parts == [
        (1, "The handbook", "The handbook"),
        (1, "Keys", "Keys"),
        (2, "Owners", "Owners"),
    ]
    assert document.title == "The handbook"
    assert document.format == "docx"


def test_places() -> None:
    """A passage is cited by the headings from its first to its last text, else by lines."""
    document = docx.Document()
    document.add_paragraph("A preface.")
    for text, level in (
        ("Chapter 4", 1),
        ("Ownership", 2),
        ("Moves.", 0),
        ("Loans", 2),
        ("Ref", 0),
    ):
        document.add_paragraph(text, style=f"Heading {level}" if level else None)
    loaded = load_document(saved(document), "a.docx")

    def cited(first: str, last: str) -> str | None:
        text = loaded.text
        return loaded.span(text.index(first), text.index(last) + len(last)).locator

    assert cited("Moves.", "Moves.") == "Chapter 4 › Ownership"
    assert cited("Chapter 4", "Moves.") == "Chapter 4 › Ownership"
    assert cited("Ownership", "Ownership") == "Chapter 4 › Ownership"
    assert cited("Moves.", "Ref") == "Chapter 4 › Ownership to Chapter 4 › Loans"
    assert cited("A preface.", "A preface.") == "beginning"
    assert cited("A preface.", "Moves.") == "beginning to Chapter 4 › Ownership"
    plain = docx.Document()
    plain.add_paragraph("Moves.")
    assert load_document(saved(plain), "a.docx").span(0, 6).locator is None


def test_title() -> None:
    """The title is the property, or else the first heading, or else the file name."""
    document = docx.Document()
    assert load_document(saved(document), "empty.docx").title == "empty"
    document.add_heading("A heading", 2)
    assert load_document(saved(document), "a.docx").title == "A heading"
    document.core_properties.title = "The  property"
    assert load_document(saved(document), "a.docx").title == "The property"


def test_styles_of_ones_own() -> None:
    """Styles based on a heading, or with an outline level, also make headings."""
    document = docx.Document()
    based = document.styles.add_style("Mine", WD_STYLE_TYPE.PARAGRAPH)
    based.base_style = document.styles["Heading 2"]
    outlined = document.styles.add_style("Other", WD_STYLE_TYPE.PARAGRAPH)
    level = parse_xml(f'<w:outlineLvl {nsdecls("w")} w:val="3"/>')
    outlined.element.get_or_add_pPr().append(level)
    document.add_paragraph("One", style="Mine")
    document.add_paragraph("Two", style="Other")
    loaded = load_document(saved(document), "a.docx")
    assert [(h.level, h.title) for h in loaded.headings] == [(2, "One"), (4, "Two")]


def test_what_a_reader_sees() -> None:
    """Insertions, content controls, links, tabs and breaks are read; deletions are not."""
    document = body(
        "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>"
        "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText>"
        "</w:r></w:del><w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    assert document.text == "a\tb\nc\n\nnew link\n\ncontrolled"


def test_tables() -> None:
    """Cells with several paragraphs and nested tables stay in their row."""

    def cell(content: str) -> str:
        return f"<w:tc>{content}</w:tc>"

    def paragraph(text: str) -> str:
        return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"

    inner = f"<w:tbl><w:tr>{cell(paragraph('in'))}</w:tr></w:tbl>"
    rows = f"<w:tr>{cell(paragraph('a') + paragraph('b'))}{cell(paragraph('c'))}</w:tr>"
    rows += f"<w:tr>{cell(paragraph(''))}{cell(inner + paragraph('d'))}</w:tr><w:tr/>"
    assert body(f"<w:tbl>{rows}</w:tbl>").text == "a b | c\n | in d"


@pytest.mark.parametrize("name", ["chapter05.docx", "chapter11.docx", "chapter21.docx"])
def test_real_chapters(name: str) -> None:
    """A publisher's styles: chapter titles, headings by letter, and code line by line."""
    if not SAMPLES.is_dir():
        pytest.skip(f"the sample documents are not there: {SAMPLES}")
    document = load_document((SAMPLES / name).read_bytes(), name)
    levels = [heading.level for heading in document.headings]
    assert levels[0] == 1
    assert {2, 3} <= set(levels[1:]) <= {2, 3, 4}
    assert document.title == document.headings[0].title
    assert "\n    " in document.text
    assert "{\n\n    " not in document.text


def test_zip_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that unpacks to too much is refused before it is unpacked."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 2_000_000)
    monkeypatch.setattr(packages, "MAX_UNPACKED_BYTES", 1_000_000)
    assert len(packed.getvalue()) < 3_000
    with pytest.raises(
        SourceError, match=r"a.docx: unpacks to 2,000,000 bytes, more than 1,000,00"
    ):
        load_document(packed.getvalue(), "a.docx")


def test_entities_are_not_expanded() -> None:
    """An XML document with exponential entities is refused."""
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    xml = (
        f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY e0 "ha">{levels}]><w:document {nsdecls("w")}>'
    )
    xml += "<w:body><w:p><w:r><w:t>&e9;</w:t></w:r></w:p></w:body></w:document>"
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(handbook())) as source,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for part in source.namelist():
            content = xml.encode() if part == "word/document.xml" else source.read(part)
            target.writestr(part, content)
    with pytest.raises(SourceError, match=r"a.docx: a broken Word document: .*entity"):
        load_document(packed.getvalue(), "a.docx")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is encrypted, or is a document of Word"),
        (b"text", "a broken Word document"),
        (handbook()[:-40], "is a ZIP archive that is broken"),
    ],
)
def test_refused(data: bytes, reason: str) -> None:
    """The error describes what the file is instead."""
    with pytest.raises(SourceError, match=reason):
        load_document(data, "a.docx")
