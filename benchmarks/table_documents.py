"""The same four tables as a document of each format, and 48 questions for one of their cells.

Each table has a row for each of 48 tools, and only its header says what its numbers mean. Sections
are called *Part 1* to *Part 4*, and every number occurs once for a tool, so that a passage answers
a question only if it has the right row of the right table.
"""

from __future__ import annotations

import csv
import html
import io
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

COLUMNS = (
    ("Weight (kg)", "Length (cm)", "Cable length (m)"),
    ("Retail price (EUR)", "Dealer price (EUR)", "Items in stock"),
    ("Warranty (months)", "Repair time (days)", "Spare parts until"),
    ("Noise level (dB)", "Power input (W)", "Battery life (minutes)"),
)
QUESTIONS = (
    ("How heavy is the Curlew?", "Curlew", "Weight (kg)"),
    ("weight of the Crane in kg", "Crane", "Weight (kg)"),
    ("What does the Pelican weigh?", "Pelican", "Weight (kg)"),
    ("Is the Gannet light enough, how many kilos", "Gannet", "Weight (kg)"),
    ("How long is the Kite in cm?", "Kite", "Length (cm)"),
    ("length of the Sparrow", "Sparrow", "Length (cm)"),
    ("Will the Hoopoe fit into a case, what is its length?", "Hoopoe", "Length (cm)"),
    ("Falcon length in centimeters", "Falcon", "Length (cm)"),
    ("How long is the cable of the Merlin?", "Merlin", "Cable length (m)"),
    ("cable length Goshawk", "Goshawk", "Cable length (m)"),
    ("How many meters of cable has the Finch?", "Finch", "Cable length (m)"),
    ("Does the power cord of the Wagtail reach, how long", "Wagtail", "Cable length (m)"),
    ("What does the Cormorant cost?", "Cormorant", "Retail price (EUR)"),
    ("retail price of the Osprey", "Osprey", "Retail price (EUR)"),
    ("How much is the Ibis in the shop?", "Ibis", "Retail price (EUR)"),
    ("price of a Bluetail for customers", "Bluetail", "Retail price (EUR)"),
    ("What do dealers pay for the Avocet?", "Avocet", "Dealer price (EUR)"),
    ("dealer price Condor", "Condor", "Dealer price (EUR)"),
    ("What is our price to dealers for the Grouse?", "Grouse", "Dealer price (EUR)"),
    ("Jackdaw price for a dealer", "Jackdaw", "Dealer price (EUR)"),
    ("How many Redstart are in stock?", "Redstart", "Items in stock"),
    ("stock of the Lapwing", "Lapwing", "Items in stock"),
    ("Do we have any Godwit left in stock?", "Godwit", "Items in stock"),
    ("number of Flamingo items on stock", "Flamingo", "Items in stock"),
    ("How long is the warranty of the Magpie?", "Magpie", "Warranty (months)"),
    ("warranty Bustard", "Bustard", "Warranty (months)"),
    ("For how many months is the Plover under warranty?", "Plover", "Warranty (months)"),
    ("guarantee period of the Harrier", "Harrier", "Warranty (months)"),
    ("How many days does a repair of the Puffin take?", "Puffin", "Repair time (days)"),
    ("repair time for the Albatross", "Albatross", "Repair time (days)"),
    ("When do I get my Raven back from repair?", "Raven", "Repair time (days)"),
    ("Kingfisher in repair, how many days", "Kingfisher", "Repair time (days)"),
    ("Until when are there spare parts for the Pipit?", "Pipit", "Spare parts until"),
    ("spare parts Dunlin until which year", "Dunlin", "Spare parts until"),
    ("How long can I buy spare parts of the Kestrel?", "Kestrel", "Spare parts until"),
    ("Eider spare parts availability", "Eider", "Spare parts until"),
    ("How loud is the Linnet?", "Linnet", "Noise level (dB)"),
    ("noise of the Nightjar in dB", "Nightjar", "Noise level (dB)"),
    ("Do I need ear protection for the noise of the Bunting?", "Bunting", "Noise level (dB)"),
    ("noise level Heron", "Heron", "Noise level (dB)"),
    ("How many watts does the Starling need?", "Starling", "Power input (W)"),
    ("power input of the Bittern", "Bittern", "Power input (W)"),
    ("What power does the Buzzard draw?", "Buzzard", "Power input (W)"),
    ("Oriole watt", "Oriole", "Power input (W)"),
    ("How long does the battery of the Cassowary last?", "Cassowary", "Battery life (minutes)"),
    ("battery life of the Egret", "Egret", "Battery life (minutes)"),
    ("How many minutes runs the Dipper on battery?", "Dipper", "Battery life (minutes)"),
    ("Grebe battery minutes", "Grebe", "Battery life (minutes)"),
)  # fmt: skip
"""Questions as people type them, each with the tool and the column of its answer."""
PRODUCTS = sorted(product for _, product, _ in QUESTIONS)


class Table(NamedTuple):
    title: str
    rows: list[list[str]]
    """The header first."""


def tables() -> list[Table]:
    rng = random.Random(36)
    numbers = {product: iter(rng.sample(range(100, 1000), 12)) for product in PRODUCTS}
    made = []
    for number, columns in enumerate(COLUMNS, 1):
        products = rng.sample(PRODUCTS, len(PRODUCTS))
        rows = [[product, *(str(next(numbers[product])) for _ in columns)] for product in products]
        made.append(Table(f"Part {number}", [["Product", *columns], *rows]))
    return made


def answer(product: str, column: str) -> str:
    """Return the text of the cell."""
    table = next(table for table in tables() if column in table.rows[0])
    row = next(row for row in table.rows if row[0] == product)
    return row[table.rows[0].index(column)]


def markdown(some: Sequence[Table]) -> bytes:
    blocks = ["# Our tools"]
    for table in some:
        lines = [f"| {' | '.join(row)} |" for row in table.rows]
        lines.insert(1, "|---" * len(table.rows[0]) + "|")
        blocks += [f"## {table.title}", "\n".join(lines)]
    return "\n\n".join(blocks).encode()


def page(some: Sequence[Table]) -> bytes:
    def row(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    parts = [
        f"<h2>{table.title}</h2><table><thead>{row(table.rows[0], 'th')}</thead><tbody>"
        + "".join(row(cells, "td") for cells in table.rows[1:])
        + "</tbody></table>"
        for table in some
    ]
    body = f"<main><h1>Our tools</h1>{''.join(parts)}</main>"
    return f"<!DOCTYPE html><html><title>Our tools</title><body>{body}</body></html>".encode()


def word(some: Sequence[Table]) -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Our tools", 1)
    for table in some:
        document.add_heading(table.title, 2)
        grid = document.add_table(rows=len(table.rows), cols=len(table.rows[0]))
        texts = (cell for row in table.rows for cell in row)
        for cell, text in zip(grid._cells, texts, strict=True):
            cell.text = text
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def slides(some: Sequence[Table]) -> bytes:
    import pptx
    from pptx.util import Cm

    presentation = pptx.Presentation()
    for table in some:
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = table.title
        size = len(table.rows), len(table.rows[0])
        grid = slide.shapes.add_table(*size, Cm(1), Cm(4), Cm(20), Cm(10)).table
        for row, cells in zip(grid.rows, table.rows, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    packed = io.BytesIO()
    presentation.save(packed)
    return packed.getvalue()


def workbook(some: Sequence[Table]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for table in some:
        sheet = book.create_sheet(table.title)
        for row in table.rows:
            sheet.append(row)
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def values(some: Sequence[Table]) -> bytes:
    """Return the only table as CSV, which cannot have several."""
    (table,) = some
    written = io.StringIO()
    csv.writer(written).writerows(table.rows)
    return written.getvalue().encode()


def pdf(some: Sequence[Table]) -> bytes:
    """Return tables with lines around their cells, each continued on as many pages as it needs."""
    per_page, left, top, width, height = 40, 60, 720, 120, 16
    contents = []
    for table in some:
        for first in range(1, len(table.rows), per_page):
            rows = table.rows[first : first + per_page]
            rows = [table.rows[0], *rows] if first == 1 else rows
            marks = [f"BT /F1 12 Tf {left} {top + 20} Td ({table.title}) Tj ET"] * (first == 1)
            for line, cells in enumerate(rows):
                y = top - line * height
                for column, cell in enumerate(cells):
                    x = left + column * width
                    text = cell.replace("(", r"\(").replace(")", r"\)")
                    marks += [f"{x} {y - height} {width} {height} re S"]
                    marks += [f"BT /F1 9 Tf {x + 3} {y - height + 5} Td ({text}) Tj ET"]
            contents.append("\n".join(marks))
    return b"".join(_pdf_file(contents))


def _pdf_file(contents: list[str]) -> Iterator[bytes]:
    """Yield the parts of a PDF whose pages have these contents, according to ISO 32000-1."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    at = 0
    starts = []
    for number, content in enumerate(["", *objects]):
        part = f"{number} 0 obj\n{content}\nendobj\n" if number else "%PDF-1.4\n"
        starts.append(at)
        at += len(part)
        yield part.encode("ascii")
    entries = "".join(f"{start:010} 00000 n \n" for start in starts[1:])
    size = len(starts)
    yield f"xref\n0 {size}\n0000000000 65535 f \n{entries}".encode()
    yield f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{at}\n%%EOF\n".encode()


WRITERS: dict[str, Callable[[Sequence[Table]], bytes]] = {
    "md": markdown,
    "html": page,
    "docx": word,
    "pptx": slides,
    "xlsx": workbook,
    "csv": values,
    "pdf": pdf,
}
"""By file extension."""


def files(suffix: str) -> dict[str, bytes]:
    """Return the documents of one format, by file name; CSV needs one for each table."""
    some = tables()
    parts = [[table] for table in some] if suffix == "csv" else [some]
    write = WRITERS[suffix]
    return {f"tools{number}.{suffix}": write(part) for number, part in enumerate(parts, 1)}
