"""EPUB: chapters in their order with titles and headings, and books that are refused."""

from __future__ import annotations

import pytest

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders import packages
from lorebind_knowledge.loaders.registry import load_document

from .documents import epub_bytes, package

CHAPTERS = {
    "a cover.xhtml": "<?xml version='1.0'?><html><head><title/></head><p>Cover</p></html>",
    "one.xhtml": "<html><head><title>The book</title></head><body><h2>Loomings</h2>"
    "<p>Call me<a id='p'/> Ishmael.</p><h3>The sea</h3><p>Water.</p></body></html>",
    "two.xhtml": "<html><head><title>The bag</title></head><p>I stuffed it.</p></html>",
}


def test_chapters() -> None:
    """A chapter has the title of its first heading, else of its page, else a number."""
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
        document.span(document.text.index(word), 60).chapter for word in ("Cover", "Water", "stuff")
    ]
    assert places == [1, "Loomings", "The bag"]
    assert document.heading_path(document.text.index("Water")) == ["Loomings", "The sea"]
    assert (document.title, document.format) == ("The book", "epub")
    assert load_document(epub_bytes(CHAPTERS), "book.epub").title == "book"


ENCRYPTED = '<encryption><CipherReference xmlns="x" URI="book/{}"/></encryption>'


def test_encryption() -> None:
    """A book of which only fonts are encrypted can be read."""
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
    """Parts that are missing or broken are the book's fault."""
    with pytest.raises(SourceError, match=r"a.epub: a broken EPUB"):
        load_document(package(parts), "a.epub")


def test_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entities that multiply are refused, and so is what unpacks to too much."""
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE d [<!ENTITY e0 "ha">{levels}]><container>&e11;</container>'
    with pytest.raises(SourceError, match=r"a.epub: a broken EPUB"):
        load_document(package({CONTAINER: bomb}), "a.epub")
    monkeypatch.setattr(packages, "MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(SourceError, match=r"a.epub: unpacks to"):
        load_document(epub_bytes({"a.xhtml": " " * 2_000}), "a.epub")
