"""PPTX: slides with titles, shapes, tables and notes, and archives that are refused."""

from __future__ import annotations

import sys

import pptx
import pytest
from pptx.util import Inches

from lorebind_config.errors import MissingDependencyError, SourceError
from lorebind_knowledge.loaders.office import packages
from lorebind_knowledge.loaders.registry import load_document

from .documents import package, pptx_bytes, saved


def test_slides() -> None:
    """Titles are headings, notes follow, and a passage has its slide number."""
    data = pptx_bytes(("Keys", "Rotate\nthem"), ("Doors", "Close\vthem"), notes="Slowly")
    document = load_document(data, "a.pptx")
    assert document.text == "Keys\n\nRotate\nthem\n\nDoors\n\nClose\nthem\n\nNotes: Slowly"
    assert [(h.level, h.title, h.start) for h in document.headings] == [
        (1, "Keys", 0),
        (1, "Doors", 19),
    ]
    slides = [document.span(at, at + 1).locator for at in (0, 18, 19, 40)]
    assert slides == ["slide 1", "slide 1", "slide 2", "slide 2"]
    assert document.span(0, 40).locator == "slides 1-2"
    assert list(document.parts()) == [(0, 19), (19, len(document.text))]
    assert (document.title, document.format) == ("Keys", "pptx")


def test_title() -> None:
    """The title is the property, or else the first slide's title, or else the file name."""
    assert load_document(pptx_bytes(("A", "x"), title="The deck"), "a.pptx").title == "The deck"
    assert load_document(pptx_bytes(("", "x")), "deck.pptx").title == "deck"


def test_tables_and_groups() -> None:
    """Rows have the form `a | b`, groups are read, and slides without text count."""
    presentation = pptx.Presentation()
    blank = presentation.slide_layouts[6]
    presentation.slides.add_slide(blank)
    shapes = presentation.slides.add_slide(blank).shapes
    table = shapes.add_table(2, 2, 0, 0, Inches(2), Inches(2)).table
    for number, text in enumerate(["Team", "Mail", "Support", "help@\nexample.com"]):
        table.cell(number // 2, number % 2).text = text
    group = shapes.add_group_shape().shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "inside"
    document = load_document(saved(presentation), "a.pptx")
    assert document.text == "Team | Mail\nSupport | help@ example.com\n\ninside"
    assert document.span(0, 5).locator == "slide 2"


def test_a_long_title_is_text() -> None:
    """A title that is too long to repeat with passages counts as text."""
    document = load_document(pptx_bytes(("x" * 1001, "body")), "a.pptx")
    assert (document.headings, document.text) == ((), "x" * 1001 + "\n\nbody")


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken and huge archives are refused with the reason."""
    with pytest.raises(SourceError, match=r"a.pptx: a broken PowerPoint presentation"):
        load_document(package({"ppt/presentation.xml": "x"}), "a.pptx")
    with pytest.raises(SourceError, match=r"a.pptx: is a ZIP archive that is broken"):
        load_document(pptx_bytes(("a", "b"))[:-40], "a.pptx")
    with pytest.raises(SourceError, match=r"a.pptx: is encrypted"):
        load_document(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.pptx")
    monkeypatch.setattr(packages, "MAX_UNPACKED_BYTES", 10_000)
    with pytest.raises(SourceError, match=r"a.pptx: unpacks to .* more than 10,000"):
        load_document(pptx_bytes(("a", "b")), "a.pptx")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """If python-pptx is not installed, the error names the extra."""
    data = pptx_bytes(("a", "b"))
    monkeypatch.setitem(sys.modules, "pptx", None)
    with pytest.raises(MissingDependencyError, match=r"lorebind\[office\]"):
        load_document(data, "a.pptx")
