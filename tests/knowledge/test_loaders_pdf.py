"""PDF: pages, titles, bookmarks, and errors for documents without text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders import pdf
from lorebind_knowledge.loaders.registry import load_document

from .documents import pdf_bytes

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "pdf"


def sample(name: str) -> bytes:
    if not SAMPLES.is_dir():
        pytest.skip(f"the sample PDFs are not there: {SAMPLES}")
    return (SAMPLES / name).read_bytes()


def test_pages() -> None:
    """Blank lines separate pages, empty pages count, and spans have page numbers."""
    document = load_document(pdf_bytes(["First page\nsecond line", "", "Third page"]), "a/b.pdf")
    assert document.text == "First page\nsecond line\n\n\n\nThird page"
    assert [anchor.start for anchor in document.anchors] == [0, 24, 26]
    assert document.textless_pages == (2,)
    assert document.title == "b"
    pages = {word: document.span(document.text.index(word), 26).page for word in ("First", "line")}
    assert pages == {"First": 1, "line": 1}
    assert document.span(26, 31).as_metadata() == {
        "start": 26,
        "end": 31,
        "line_start": 6,
        "line_end": 6,
        "page": 3,
    }


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("The handbook", "The handbook"),
        ("Microsoft Word - The handbook", "The handbook"),
        ("Microsoft Word - handbook.doc", "a"),
        ("Untitled", "a"),
        ("book.dvi", "a"),
        ("  ", "a"),
        ("...", "a"),
        ("x" * 301, "a"),
    ],
)
def test_title(written: str, title: str) -> None:
    """The title is that of the document information, unless it is a program's default."""
    assert load_document(pdf_bytes(["text"], title=written), "a.pdf").title == title


def test_bookmarks_are_headings() -> None:
    """Headings are on the line with their title, numbered or not, or else at their page's start."""
    pages = ["Contents\n1 Setup\n2 Use", "1 Setup\ntext of Use\n2  Use\nmore", "Last words"]
    bookmarks = [("Setup", 1), ("Use", 1), ("Annex", 2)]
    document = load_document(pdf_bytes(pages, bookmarks=bookmarks), "a.pdf")
    headings = [
        (heading.level, heading.title, document.text[heading.start :].split("\n")[0])
        for heading in document.headings
    ]
    assert headings == [(1, "Setup", "1 Setup"), (1, "Use", "2 Use"), (1, "Annex", "Last words")]
    assert document.heading_path(document.text.index("text of")) == ["Setup"]


@pytest.mark.parametrize("data", [b"%PDF-1.4", b"no pdf", pdf_bytes(["text"])[:40]])
def test_broken(data: bytes) -> None:
    """A file that PDFium cannot open is reported as broken, with the reason."""
    with pytest.raises(SourceError, match=r"a.pdf: a broken PDF: "):
        load_document(data, "a.pdf")


def test_encrypted() -> None:
    """The error names the encryption."""
    lock = "/Filter /Standard /V 1 /R 2 /P -4"
    keys = f"/O <{'00' * 32}> /U <{'11' * 32}>"
    data = pdf_bytes(["text"], trailer=f"/ID [<00> <00>] /Encrypt << {lock} {keys} >>")
    with pytest.raises(SourceError, match=r"a.pdf: is encrypted; save it without a password"):
        load_document(data, "a.pdf")


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many pages or characters are an error, never a shorter text."""
    monkeypatch.setattr(pdf, "MAX_PAGES", 2)
    assert load_document(pdf_bytes(["a", "b"]), "a.pdf").text == "a\n\nb"
    with pytest.raises(SourceError, match=r"a.pdf: has 3 pages, more than 2"):
        load_document(pdf_bytes(["a", "b", "c"]), "a.pdf")
    monkeypatch.setattr(pdf, "MAX_CHARACTERS", 10)
    with pytest.raises(SourceError, match=r"the first 1 pages alone have more than 10 characters"):
        load_document(pdf_bytes(["nine characters", "b"]), "a.pdf")


def test_threads() -> None:
    """Several documents can be read concurrently, although PDFium is not thread-safe."""
    files = [pdf_bytes([f"page {page} of {number}" for page in range(20)]) for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        documents = list(pool.map(lambda data: load_document(data, "a.pdf"), files))
    for number, document in enumerate(documents):
        assert document.text == "\n\n".join(f"page {page} of {number}" for page in range(20))


@pytest.mark.parametrize(
    ("name", "pages", "title", "phrase", "on_page"),
    [
        ("pdflatex-4-pages.pdf", 4, "pdflatex-4-pages", "Hello, here is some text", 1),
        ("google-doc-document.pdf", 1, "PDF Example Document", "Beautiful is better", 1),
        ("multicolumn.pdf", 3, "multicolumn", "consectetuer adipiscing elit", 1),
        ("habibi.pdf", 1, "habibi", "habibi", 1),
        ("with-attachment.pdf", 1, "with-attachment", "consetetur sadipscing elitr", 1),
    ],
)
def test_real_documents(name: str, pages: int, title: str, phrase: str, on_page: int) -> None:
    """Documents of LaTeX, Google Docs and WeasyPrint are read, with hyphenated words joined."""
    document = load_document(sample(name), name)
    assert (len(document.anchors), document.title) == (pages, title)
    start = document.text.index(phrase)
    assert document.span(start, start + len(phrase)).page == on_page


def test_a_real_outline() -> None:
    """Sections with the same name, several per page, are found one after another."""
    document = load_document(sample("pdflatex-outline.pdf"), "o.pdf")
    lines = [document.text[heading.start :].split("\n")[0] for heading in document.headings]
    names = ["Foo", "Bar", "Baz"] * 3
    assert lines == [f"{number} {name}" for number, name in enumerate(names, 1)]
    assert [heading.title for heading in document.headings] == names


def test_real_documents_without_text() -> None:
    """An encrypted document is refused; one with only images has pages without text."""
    with pytest.raises(SourceError, match="is encrypted"):
        load_document(sample("libreoffice-writer-password.pdf"), "a.pdf")
    document = load_document(sample("grayscale-image.pdf"), "a.pdf")
    assert (document.text, document.textless_pages) == ("", (1,))
