"""A folder with documents of every format: each is read, and cited by its own kind of location."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import pytest

from lorebind import Project
from lorebind_knowledge.loaders.formats import SUPPORTED_SUFFIXES
from lorebind_prompts import label
from tests.bindings.helpers import write
from tests.knowledge.documents import (
    epub_bytes,
    handbook,
    pdf_bytes,
    pptx_bytes,
    saved,
    xlsx_bytes,
)

PROJECT = """
name: formats
embedders: [{ id: words, provider: hashing }]
knowledge_bases:
  - id: all
    embedder: words
    sources: [{ type: file_glob, path: "docs/*" }]
    chunking: { size: 64, overlap: 0 }
    retrieval: { strategy: lexical, top_k: 1 }
"""

FUNCTIONS = "".join(f"def step_{n}():\n    return 'the word is {w}'\n\n\n" for n, w in (
    (1, "alder"), (2, "aspen"), (3, "birch"),
))  # fmt: skip
CELLS = [
    {"cell_type": "markdown", "source": "# Trees of the north and of the south\n\nA long text."},
    {"cell_type": "code", "source": "print('cedar')"},
]
ROWS = [["tree", "height"], *([f"tree {n}", n] for n in range(2, 9)), ["chestnut", 30]]
BOOK = {
    "a.xhtml": "<h1>Roots</h1><p>Under the ground they grow for years, and nobody sees it.</p>",
    "b.xhtml": "<h1>Leaves</h1><p>Those of the cypress stay green.</p>",
}


def word(*blocks: tuple[str, int]) -> bytes:
    """Return a Word document of paragraphs, each with its level as a heading or 0."""
    document = docx.Document()
    for text, level in blocks:
        document.add_paragraph(text, style=f"Heading {level}" if level else None)
    return saved(document)


def mail() -> bytes:
    email = EmailMessage()
    email["Subject"], email["From"], email["To"] = "Trees", "ann@example.com", "bob@example.com"
    email.set_content("We planted an ebony.")
    return email.as_bytes()


FILES: dict[str, tuple[str | bytes, str, str]] = {
    "a.mdx": ("import A from 'a'\n\n# One\n\n<A b={1}>\nThe acacia.\n</A>\n", "acacia", "line"),
    "a.md": ("---\nchapter: Sales\ncell: A549\n---\nThe mahogany.\n", "mahogany", "line 5"),
    "a.py": (FUNCTIONS, "birch", "lines 9-10"),
    "a.ipynb": (json.dumps({"cells": CELLS}), "cedar", "cell 2"),
    "a.toml": ("[trees]\n" * 9 + "name = 'elder'\n", "elder", "line"),
    "a.rst": ("Trees\n=====\n\nThe fir.\n", "fir", "lines 1-4"),
    "a.adoc": ("= Trees\n\nThe hazel.\n", "hazel", "lines 1-3"),
    "a.tex": ("\\section{Trees}\n\nThe juniper.\n", "juniper", "lines 1-3"),
    "a.rtf": (r"{\rtf1 Trees\par The larch}", "larch", "lines 1-2"),
    "a.eml": (mail(), "ebony", "line"),
    "a.pptx": (pptx_bytes(("Trees", "x" * 60), ("More", "The maple")), "maple", "slide 2"),
    "a.xlsx": (
        xlsx_bytes({"Prices": ROWS, "Next": [["walnut " * 8]]}),
        "chestnut",
        "sheet Prices, row 9",
    ),
    "a.epub": (epub_bytes(BOOK, title="Trees"), "cypress", 'chapter "Leaves"'),
    "a.pdf": (pdf_bytes(["One " * 15, "The pine"]), "pine", "page 2"),
    "a.docx": (handbook(), "handbook", "The handbook to Keys"),
}
"""By name: the content, a word of it, and the location of the passage with that word."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("formats")
    write(folder, {"lorebind.yaml": PROJECT})
    (folder / "docs").mkdir()
    for name, (content, _, _) in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / "docs" / name).write_bytes(data)
    with Project.load(folder) as loaded:
        report = loaded.ingest("all")
        assert report.documents["added"] == len(FILES), report.failures
        yield loaded


def best(project: Project, word: str) -> Any:
    return project.query("all", word)[0]


@pytest.mark.parametrize(("name", "word", "place"), [(n, w, p) for n, (_, w, p) in FILES.items()])
def test_cited_by_place(project: Project, name: str, word: str, place: str) -> None:
    """The passage with the word is cited with the location that its format has."""
    match = best(project, word)
    assert label(match.metadata).startswith(f"docs/{name}, {place}")
    assert word in match.text


def test_source_code_is_cut_by_its_syntax(project: Project) -> None:
    """A passage is a function, under the file's name; unchanged files are not read again."""
    match = best(project, "aspen")
    assert match.text == "def step_2():\n    return 'the word is aspen'"
    assert match.metadata["title"] == "a.py"
    assert project.ingest("all").documents["unchanged"] == len(FILES)


def test_the_fields_can_be_filtered_by(project: Project) -> None:
    """Locations and headers are metadata, and a document's own cannot replace locations."""
    by_chapter = project.query("all", "mahogany", filters={"chapter": "Sales"})
    assert [match.metadata["uri"] for match in by_chapter] == ["docs/a.md"]
    by_slide = project.query("all", "maple", filters={"locator": "slide 2"})
    assert [match.metadata["uri"] for match in by_slide] == ["docs/a.pptx"]
    by_sender = project.query("all", "ebony", filters={"from": "ann@example.com"})
    assert [match.metadata["uri"] for match in by_sender] == ["docs/a.eml"]


def test_neighbours_are_cited_too(project: Project) -> None:
    """A passage extended by its neighbors is cited from the first to the last of them."""
    (document,) = project.retriever("all", neighbours=1).invoke("chestnut")
    sheets = "sheet Prices, rows 7-9 to sheet Next, row 1"
    assert label(document.metadata) == f"docs/a.xlsx, {sheets}"
    (document,) = project.retriever("all", neighbours=1).invoke("maple")
    assert label(document.metadata) == "docs/a.pptx, slides 1-2"
    (document,) = project.retriever("all", neighbours=1).invoke("pine")
    assert label(document.metadata) == "docs/a.pdf, pages 1-2"


FACTS = {
    "short.docx": (
        word(("Chapter 4", 1), ("Refunds", 2), ("In 9 days.", 0)),
        "Chapter 4 › Refunds",
    ),
    "plain.docx": (word(("Returns.", 0), ("Refunds in 9 days.", 0)), "lines 1-3"),
    "short.pptx": (
        pptx_bytes(("Agenda", "Welcome."), ("Returns", "Keep the box."), ("Refunds", "In 9 days.")),
        "slide 3",
    ),
    "short.xlsx": (
        xlsx_bytes({"Staff": [["Ann", "Bo"]], "Refunds": [["time"], ["9 days"]]}),
        "sheet Refunds, rows 1-2",
    ),
    "short.epub": (
        epub_bytes(
            {
                "a.xhtml": "<h1>Returns</h1><p>Keep it.</p>",
                "b.xhtml": "<h1>Refunds</h1><p>9 days.</p>",
            }
        ),
        'chapter "Refunds"',
    ),
    "short.pdf": (pdf_bytes(["Returns: keep the box.", "Refunds: in 9 days."]), "pages 1-2"),
    "short.ipynb": (
        json.dumps({"cells": [*CELLS, {"cell_type": "markdown", "source": "Refunds: 9 days."}]}),
        "cells 1-3",
    ),
}
"""Documents whose whole text fits into one passage, and the location of the fact."""


@pytest.mark.parametrize("name", FACTS)
def test_short_parts_are_cited_where_the_fact_is(tmp_path: Path, name: str) -> None:
    """Slides, sheets and chapters are passages; pages and cells are cited from first to last."""
    content, place = FACTS[name]
    write(tmp_path, {"lorebind.yaml": PROJECT.replace("chunking: { size: 64, overlap: 0 }", "")})
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    with Project.load(tmp_path) as short:
        short.ingest("all")
        (match,) = short.query("all", "refunds days").matches
    assert label(match.metadata) == f"docs/{name}, {place}"


def test_every_ending_is_documented() -> None:
    """The tables of formats list every file extension that is read."""
    page = (Path(__file__).parents[2] / "docs/how-to/sources.md").read_text(encoding="utf-8")
    assert [suffix for suffix in SUPPORTED_SUFFIXES if f"`{suffix}`" not in page] == []
