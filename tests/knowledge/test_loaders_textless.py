"""Parts of documents without text: each format counts those that its text omits."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import docx
import pptx
import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import load_document
from lorebind_knowledge.loaders.textless import ranges

from .documents import epub_bytes, pdf_bytes, saved, xlsx_bytes

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def word() -> bytes:
    document = docx.Document()
    document.add_paragraph("Keys")
    for _ in range(2):
        document.add_picture(io.BytesIO(PICTURE))
    return saved(document)


def slides() -> bytes:
    presentation = pptx.Presentation()
    title, blank = presentation.slide_layouts[5], presentation.slide_layouts[6]
    presentation.slides.add_slide(title).shapes.title.text = "Keys"
    presentation.slides.add_slide(blank).shapes.add_picture(io.BytesIO(PICTURE), 0, 0)
    presentation.slides.add_slide(blank)
    return saved(presentation)


def workbook() -> bytes:
    data = io.BytesIO(xlsx_bytes({"Prices": [["a", "b"]], "Plan": [], "Map": [[None]]}))
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("xl/media/image1.png", PICTURE)
    return data.getvalue()


def book() -> bytes:
    chapters = {
        "cover.xhtml": "<html><body><svg:image href='c.png'/></body></html>",
        "one.xhtml": "<html><h1>Keys</h1><p>Rotate.<IMG src='k.png'/></p></html>",
    }
    return epub_bytes(chapters)


def notebook() -> bytes:
    plot = {"data": {"image/png": "AAAA"}}
    sources = [("x = 1", []), ("", []), ("", [plot]), ("y", [plot, 3, {"data": 4}]), ("", [])]
    cells = [
        {"cell_type": "code", "source": source, "outputs": outputs} for source, outputs in sources
    ]
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


@pytest.mark.parametrize(
    ("name", "make", "parts"),
    [
        ("a.docx", word, {"image": 2}),
        ("a.pptx", slides, {"slide": 2, "image": 1}),
        ("a.xlsx", workbook, {"sheet": 2, "image": 1}),
        ("a.epub", book, {"chapter": 1, "image": 2}),
        ("a.ipynb", notebook, {"cell": 2, "image": 2}),
        ("a.pdf", lambda: pdf_bytes(["", "Keys", ""]), {"page": 2}),
        ("a.md", lambda: b"", {}),
    ],
)
def test_parts_without_text(name: str, make: Callable[[], bytes], parts: Mapping[str, int]) -> None:
    """They are counted by kind; blank cells at the end of a notebook, which Jupyter adds, not."""
    assert load_document(make(), name).textless_parts == parts


def test_they_survive_the_process() -> None:
    """A reading process returns them with the document."""
    with Readers(LoadingDeclaration(processes=1)) as readers:
        document = readers.begin("pptx", slides(), "a.pptx").result()
    assert document.textless_parts == {"slide": 2, "image": 1}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((2,), "2"),
        ((1, 2, 3, 7, 9, 10), "1-3, 7, 9-10"),
        (range(1, 40, 2), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, …"),
    ],
)
def test_ranges(numbers: Any, text: str) -> None:
    """Page numbers in messages are ranges, and not more than ten."""
    assert ranges(numbers) == text
