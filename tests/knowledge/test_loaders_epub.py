"""EPUB: chapters in order with titles and headings, and books that are refused."""

from __future__ import annotations

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.office import packages
from lorebind_knowledge.loaders.registry import load_document

from .documents import epub_bytes, package

CHAPTERS = {
    "a cover.xhtml": "<?xml version='1.0'?><html><head><title/></head><p>Cover</p></html>",
    "one.xhtml": "<html><head><title>The book</title></head><body><h2>Loomings</h2>"
    "<p>Call me<a id='p'/> Ishmael.</p><h3>The sea</h3><p>Water.</p></body></html>",
    "two.xhtml": "<html><head><title>The bag</title></head><p>I stuffed it.</p></html>",
}


def test_chapters() -> None:
    """A chapter's title is that of its first heading, or else of its page, or else a number."""
    document = load_document(epub_bytes(CHAPTERS, title="The book"), "a.epub")
    assert document.text == (
        "Cover\n\nLoomings\n\nCall me Ishmael.\n\nThe sea\n\nWater.\n\nI stuffed it."
    )
    assert [(h.level, h.title) for h in document.headings] == [
        (1, "Loomings"),
        (4, "The sea"),
        (1, "The bag"),
    ]
    places = [
        document.span(at, at + 1).locator
        for at in map(document.text.index, ("Cover", "Water", "stuff"))
    ]
    assert places == ["chapter 1", 'chapter "Loomings"', 'chapter "The bag"']
    assert document.heading_path(document.text.index("Water")) == ["Loomings", "The sea"]
    assert (document.title, document.format) == ("The book", "epub")
    assert load_document(epub_bytes(CHAPTERS), "book.epub").title == "book"


ODD = {
    "all.xhtml": "<h1>One</h1><p>apple<h2>Sub</h2><p>beech<h1>Two</h1><p>cherry",
    "late.xhtml": "<title>Notes</title><p>date words<h1>Three</h1><p>elder",
    "unnamed.xhtml": "<p>fig words<h2>Four</h2><p>grape",
    "low.xhtml": "<h2>Part</h2><p>hazel<h1>Five</h1><p>ivy",
}


@pytest.mark.parametrize(
    ("word", "chapter", "path"),
    [
        ("apple", '"One"', ["One"]),
        ("beech", '"One"', ["One", "Sub"]),
        ("cherry", '"Two"', ["Two"]),
        ("date", '"Notes"', ["Notes"]),
        ("elder", '"Three"', ["Three"]),
        ("fig", "3", ["The book"]),
        ("grape", '"Four"', ["Four"]),
        ("hazel", '"Part"', ["Part"]),
        ("ivy", '"Five"', ["Five"]),
    ],
)
def test_chapters_within_a_page(word: str, chapter: str, path: list[str]) -> None:
    """Each top-level heading starts a chapter, without the text before the first one."""
    document = load_document(epub_bytes(ODD, title="The book"), "a.epub")
    at = document.text.index(word)
    assert document.span(at, at + 1).locator == f"chapter {chapter}"
    assert document.heading_path(at) == path


def test_quotes_in_a_title() -> None:
    """Quotes in a title differ from those around it, so that its end is clear."""
    pages = {"a.xhtml": '<h1>The "1"</h1><p>apple', "b.xhtml": '<title>"Two"</title><p>beech'}
    document = load_document(epub_bytes(pages), "a.epub")
    starts = map(document.text.index, ("apple", "beech"))
    places = [document.span(start, start + 1).locator for start in starts]
    assert places == ["chapter \"The '1'\"", "chapter \"'Two'\""]
    assert document.headings[0].title == 'The "1"'


ENCRYPTED = '<encryption><CipherReference xmlns="x" URI="book/{}"/></encryption>'


def test_encryption() -> None:
    """A book in which only fonts are encrypted can be read."""
    fonts = epub_bytes(CHAPTERS, encryption=ENCRYPTED.format("font.otf"))
    assert "Ishmael" in load_document(fonts, "a.epub").text
    pages = epub_bytes(CHAPTERS, encryption=ENCRYPTED.format("a%20cover.xhtml"))
    with pytest.raises(SourceError, match=r"a.epub: is encrypted"):
        load_document(pages, "a.epub")


CONTAINER = "META-INF/container.xml"


@pytest.mark.parametrize(
    "parts",
    [
        {CONTAINER: "not XML"},
        {CONTAINER: "<container/>"},
        {CONTAINER: '<container><rootfile full-path="none.opf"/></container>'},
    ],
)
def test_broken(parts: dict[str, str]) -> None:
    """Missing or broken parts are reported as a broken book."""
    with pytest.raises(SourceError, match=r"a.epub: a broken EPUB"):
        load_document(package(parts), "a.epub")


def test_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponential entities are refused, and so is a book that unpacks to too much."""
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE d [<!ENTITY e0 "ha">{levels}]><container>&e11;</container>'
    with pytest.raises(SourceError, match=r"a.epub: a broken EPUB"):
        load_document(package({CONTAINER: bomb}), "a.epub")
    monkeypatch.setattr(packages, "MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(SourceError, match=r"a.epub: unpacks to"):
        load_document(epub_bytes({"a.xhtml": " " * 2_000}), "a.epub")
