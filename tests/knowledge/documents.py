"""Documents for the loaders' tests: a minimal PDF writer, e-books, office files and tables."""

from __future__ import annotations

import html
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import quote

import docx
import openpyxl
import pptx
from docx.oxml import OxmlElement
from pptx.util import Cm

Rows: TypeAlias = Sequence[Sequence[str]]


def pdf_bytes(
    pages: Sequence[str],
    *,
    title: str = "",
    bookmarks: Sequence[tuple[str, int]] = (),
    trailer: str = "",
    drawn: Sequence[str] = (),
    page_entries: str = "",
) -> bytes:
    """Return a PDF with a line of text for each line of its pages, according to ISO 32000-1.

    `drawn` are operators that each page has after its text, see `pdf_grid`.
    """
    count = len(pages)
    first_bookmark = 5 + 2 * count
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(count))
    last_bookmark = first_bookmark + len(bookmarks) - 1
    outlines = f"/Outlines << /First {first_bookmark} 0 R /Last {last_bookmark} 0 R >>"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {outlines if bookmarks else ''} >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>",
    ]
    for number, page in enumerate(pages):
        lines = "".join(f"({line}) Tj T* " for line in page.split("\n"))
        content = f"BT /F1 12 Tf 14 TL 72 720 Td {lines}ET" if page else "0.5 g 72 72 100 100 re f"
        content += f"\n{drawn[number]}" if drawn else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {page_entries} "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {6 + 2 * number} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    for number, (words, page_number) in enumerate(bookmarks):
        following = (
            f"/Next {first_bookmark + number + 1} 0 R" if number + 1 < len(bookmarks) else ""
        )
        objects.append(f"<< /Title ({words}) /Dest [{5 + 2 * page_number} 0 R /Fit] {following} >>")
    written = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<< /Size {size} /Root 1 0 R /Info 4 0 R {trailer} >>\n"
    return bytes(written) + f"{end}startxref\n{len(written)}\n%%EOF\n".encode()


def pdf_grid(rows: Sequence[Sequence[str]], top: int = 700, width: int = 90) -> str:
    """Return the operators that draw a table with lines around its cells, for `drawn`."""
    operators = []
    for line, cells in enumerate(rows, 1):
        for column, cell in enumerate(cells):
            x, y = 72 + column * width, top - line * 16
            operators.append(
                f"{x} {y} {width} 16 re S BT /F1 9 Tf {x + 3} {y + 5} Td ({cell}) Tj ET"
            )
    return "\n".join(operators)


def saved(document: Any) -> bytes:
    """Return the file of a Word document, workbook or presentation."""
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def handbook() -> bytes:
    """Return a Word document with a title, headings, a list and a table."""
    document = docx.Document()
    document.add_heading("The handbook", 0)
    document.add_paragraph("An introduction.")
    document.add_heading("Keys", 1)
    document.add_paragraph("Rotate them:")
    document.add_paragraph("each quarter", style="List Bullet")
    document.add_paragraph("after a leak", style="List Bullet")
    document.add_heading("Owners", 2)
    table = document.add_table(rows=2, cols=2)
    _fill(table._cells, [["Team", "Mail"], ["Support", "help@example.com"]])
    document.add_paragraph("The end.")
    return saved(document)


def package(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP archive of the parts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def epub_bytes(chapters: Mapping[str, str], *, title: str = "", **more: str) -> bytes:
    """Return an e-book with the chapters, each a complete page by its name, and more parts."""
    items = "".join(
        f'<item id="i{number}" href="{quote(name)}" media-type="application/xhtml+xml"/>'
        for number, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="i{number}"/>' for number in range(len(chapters)))
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:x"><rootfiles><rootfile '
        'full-path="book/content.opf"/></rootfiles></container>',
        "book/content.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc='
        f'"http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata>'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    parts |= {f"META-INF/{name}.xml": content for name, content in more.items()}
    return package(parts | {f"book/{name}": page for name, page in chapters.items()})


def xlsx_bytes(sheets: Mapping[str, Sequence[Sequence[Any]]], *, title: str = "") -> bytes:
    """Return a workbook with the sheets, each given as its rows."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    book.properties.title = title or None
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return saved(book)


def pptx_bytes(*slides: tuple[str, str], notes: str = "", title: str = "") -> bytes:
    """Return a presentation with titles and bodies on slides, and notes on the last one."""
    presentation = pptx.Presentation()
    for head, body in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = head
        slide.placeholders[1].text = body
        if notes and (head, body) == slides[-1]:
            slide.notes_slide.notes_text_frame.text = notes
    presentation.core_properties.title = title
    return saved(presentation)


def markdown_tables(tables: Mapping[str, Rows], *, title: str = "") -> bytes:
    """Return a page with a section for each table; those without rows have only a heading."""
    blocks = [f"# {title}"] * bool(title)
    for name, rows in tables.items():
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines[1:1] = ["|---" * len(rows[0]) + "|"] if rows else []
        blocks += [f"## {name}", "\n".join(lines)]
    return "\n\n".join(blocks).encode()


def html_tables(tables: Mapping[str, Rows], *, title: str = "", header: str = "th") -> bytes:
    """Return the same as a web page; `header` is the tag of cells in first rows."""
    body = f"<h1>{title}</h1>" * bool(title)
    for name, rows in tables.items():
        body += f"<h2>{name}</h2><table>" if rows else f"<h2>{name}</h2>"
        for tag, row in zip([header, *["td"] * len(rows)], rows, strict=False):
            cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
            body += f"<tr>{cells}</tr>"
        body += "</table>" if rows else ""
    head = f"<title>{title}</title>" * bool(title)
    return f"<!DOCTYPE html><html>{head}<body><main>{body}</main></body></html>".encode()


def docx_tables(tables: Mapping[str, Rows], *, title: str = "", repeated: int = 0) -> bytes:
    """Return the same as a Word document; `repeated` is the number of marked header rows."""
    document = docx.Document()
    if title:
        document.add_heading(title, 1)
    for name, rows in tables.items():
        document.add_heading(name, 2)
        if rows:
            table = document.add_table(len(rows), len(rows[0]))
            _fill(table._cells, rows)
            for row in list(table.rows)[:repeated]:
                row._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
    return saved(document)


def pptx_tables(tables: Mapping[str, Rows], *, first_row: bool = True) -> bytes:
    """Return the same as slides; `first_row` is PowerPoint's setting *Header Row*."""
    presentation = pptx.Presentation()
    for name, rows in tables.items():
        shapes = presentation.slides.add_slide(presentation.slide_layouts[5]).shapes
        shapes.title.text = name
        if rows:
            size = len(rows), len(rows[0])
            table = shapes.add_table(*size, Cm(1), Cm(4), Cm(20), Cm(10)).table
            table.first_row = first_row
            _fill((cell for row in table.rows for cell in row.cells), rows)
    return saved(presentation)


def _fill(cells: Iterable[Any], rows: Rows) -> None:
    for cell, text in zip(cells, chain.from_iterable(rows), strict=True):
        cell.text = text
