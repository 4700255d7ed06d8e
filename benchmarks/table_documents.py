"""The same four tables as a document of each format, and 48 questions for one of their cells.

Each table has a row for each of 48 tools, and only its header says what its numbers mean. Sections
are called *Part 1* to *Part 4*, and every number occurs once for a tool, so that a passage answers
a question only if it has the right row of the right table.
"""

from __future__ import annotations

import csv
import io
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.knowledge.documents import (
    Rows,
    docx_tables,
    html_tables,
    markdown_tables,
    pdf_bytes,
    pdf_grid,
    pptx_tables,
    xlsx_bytes,
)

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


def tables() -> dict[str, Rows]:
    """Return the rows of each table by its title, the header first."""
    rng = random.Random(36)
    numbers = {product: iter(rng.sample(range(100, 1000), 12)) for product in PRODUCTS}
    rows: dict[str, Rows] = {}
    for number, columns in enumerate(COLUMNS, 1):
        products = rng.sample(PRODUCTS, len(PRODUCTS))
        cells = [[product, *(str(next(numbers[product])) for _ in columns)] for product in products]
        rows[f"Part {number}"] = [["Product", *columns], *cells]
    return rows


def answer(product: str, column: str) -> str:
    """Return the text of the cell."""
    rows = next(rows for rows in tables().values() if column in rows[0])
    row = next(row for row in rows if row[0] == product)
    return row[rows[0].index(column)]


def values(some: Mapping[str, Rows]) -> bytes:
    """Return the only table as CSV, which cannot have several."""
    (rows,) = some.values()
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


def pdf(some: Mapping[str, Rows]) -> bytes:
    """Return tables with lines around their cells, each continued on as many pages as it needs."""
    per_page = 41
    pages = [
        (title if first == 0 else " ", pdf_grid(rows[first : first + per_page], width=120))
        for title, rows in some.items()
        for first in range(0, len(rows), per_page)
    ]
    texts, drawn = zip(*pages, strict=True)
    return pdf_bytes(texts, drawn=drawn)


WRITERS: dict[str, Callable[[Mapping[str, Rows]], bytes]] = {
    "md": partial(markdown_tables, title="Our tools"),
    "html": partial(html_tables, title="Our tools"),
    "docx": partial(docx_tables, title="Our tools"),
    "pptx": pptx_tables,
    "xlsx": xlsx_bytes,
    "csv": values,
    "pdf": pdf,
}
"""By file extension."""


def files(suffix: str) -> dict[str, bytes]:
    """Return the documents of one format, by file name; CSV needs one for each table."""
    some = tables()
    parts = [{title: rows} for title, rows in some.items()] if suffix == "csv" else [some]
    write = WRITERS[suffix]
    return {f"tools{number}.{suffix}": write(part) for number, part in enumerate(parts, 1)}
