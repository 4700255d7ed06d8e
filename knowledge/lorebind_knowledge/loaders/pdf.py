"""Load PDF: the text of its pages, with PDFium."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import (
    MAX_CHARACTERS,
    MOST_TABLES,
    LoadedDocument,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.marks import Anchor, Heading, Table
from lorebind_knowledge.loaders.properties import properties_of

MAX_PAGES = 5_000
_MAX_BOOKMARKS = 10_000
_LONGEST_SEARCH = 20_000
"""In characters; ten times a full page."""

_PDFIUM = threading.Lock()
"""PDFium allows only one call at a time per process, even for different documents."""

_PASSWORD, _SECURITY = 4, 5
"""FPDF_ERR_PASSWORD and FPDF_ERR_SECURITY of fpdfview.h."""

_LONGEST_LANGUAGE = 200
"""In bytes, in UTF-16."""

BETWEEN_PAGES = "\n\n"
_BROKEN_WORD = re.compile("[\ufffe\x02]\r?\n?")
"""Characters that PDFium writes for a hyphen it considers a word break at the end of a line."""
_NO_TITLE = re.compile(
    r"(?i)untitled|\W*|.*\.(docx?|dvi|tex|indd|qxd|pptx?|xlsx?|rtf|odt|pdf|html?|ps)"
    r"|(microsoft (word|powerpoint|excel)|slide|page|document)\b[ -]*\d*"
)
_APPLICATION = re.compile(r"(?i)^microsoft (word|powerpoint|excel) - ")


class PageText(NamedTuple):
    """The text of a page, and its tables with offsets in this text."""

    text: str
    tables: tuple[Table, ...] = ()
    continues: bool = False
    """Whether the first table continues the last one of the page before."""


ReadPage: TypeAlias = Callable[[int, Any, Any], PageText]
"""Reads a page by its number, from 0, from PDFium's objects for the page and its text."""


def _plain_page(number: int, page: Any, content: Any) -> PageText:
    return PageText(clean_text(content.get_text_range()))


def load_pdf(data: bytes, uri: str, read_page: ReadPage = _plain_page) -> LoadedDocument:
    """Load a PDF. Pages are separated by a blank line, and bookmarks are the headings.

    A heading starts where its page contains its title, or else at the start of the page.

    Args:
        data: the whole document.
        uri: its path or URL.
        read_page: reads each page.

    Raises:
        SourceError: it is encrypted, broken or too long.
    """
    with opened_pdf(data, uri) as pdf:
        pages = _pages(pdf, uri, read_page)
        title = _title(pdf.get_metadata_value("Title")) or title_of(uri)
        bookmarks = list(_bookmarks(pdf))
        properties = _properties(pdf)
    text = BETWEEN_PAGES.join(page.text for page in pages)
    lengths = (len(page.text) + len(BETWEEN_PAGES) for page in pages[:-1])
    starts = tuple(accumulate(lengths, initial=0))
    headings = tuple(_headings(text, starts, bookmarks))
    anchors = tuple(Anchor(start, "page", number) for number, start in enumerate(starts, 1))
    return LoadedDocument(
        text,
        title,
        headings,
        format="pdf",
        anchors=anchors,
        tables=_tables(pages, starts),
        properties=properties,
    )


@contextmanager
def opened_pdf(data: bytes, uri: str) -> Iterator[Any]:
    """Open a PDF as a `pypdfium2.PdfDocument`; PDFium's errors in the block become `SourceError`.

    Raises:
        SourceError: it is encrypted or broken.
    """
    import pypdfium2 as pdfium

    with _PDFIUM:
        try:
            with closing(pdfium.PdfDocument(data)) as pdf:
                yield pdf
        except pdfium.PdfiumError as error:
            code = getattr(error, "err_code", None)
            if code in (_PASSWORD, _SECURITY):
                raise SourceError(f"{uri}: is encrypted; save it without a password") from error
            raise SourceError(f"{uri}: a broken PDF: {error}") from error


def _pages(pdf: Any, uri: str, read_page: ReadPage) -> list[PageText]:
    if len(pdf) > MAX_PAGES:
        raise SourceError(f"{uri}: has {len(pdf):,} pages, more than {MAX_PAGES:,}; split it")
    pages: list[PageText] = []
    length = 0
    for number in range(len(pdf)):
        with closing(pdf[number]) as page, closing(page.get_textpage()) as content:
            pages.append(read_page(number, page, content))
        length += len(pages[-1].text) + len(BETWEEN_PAGES)
        if length > MAX_CHARACTERS:
            raise SourceError(
                f"{uri}: the first {number + 1} pages alone have more than "
                f"{MAX_CHARACTERS:,} characters; split it"
            )
    return pages


def _tables(pages: list[PageText], starts: tuple[int, ...]) -> tuple[Table, ...]:
    """Return the tables with offsets in the whole text; one that continues becomes longer."""
    tables: list[Table] = []
    for page, start in zip(pages, starts, strict=True):
        for number, table in enumerate(page.tables):
            moved = table.moved(start)
            if page.continues and number == 0:
                tables[-1] = tables[-1]._replace(end=moved.end)
            else:
                tables.append(moved)
            if len(tables) == MOST_TABLES:
                return tuple(tables)
    return tuple(tables)


def clean_text(text: str) -> str:
    """Return PDFium's text with lines that end with `\\n`, and without hyphens of word breaks."""
    return well_formed(_BROKEN_WORD.sub("", text).replace("\r\n", "\n").replace("\r", "\n")).strip()


def _title(written: str) -> str:
    """Return the title from the document's metadata; empty if it is a program's default."""
    title = well_formed(" ".join(_APPLICATION.sub("", written.strip()).split()))
    return "" if len(title) > 300 or _NO_TITLE.fullmatch(title) else title


def _properties(pdf: Any) -> dict[str, Any]:
    author, created, modified = map(pdf.get_metadata_value, ("Author", "CreationDate", "ModDate"))
    return properties_of(author, created, modified, _language(pdf))


def _language(pdf: Any) -> str:
    from pypdfium2 import raw

    size = raw.FPDFCatalog_GetLanguage(pdf.raw, None, 0)
    if not 0 < size <= _LONGEST_LANGUAGE:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    raw.FPDFCatalog_GetLanguage(pdf.raw, buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


def _bookmarks(pdf: Any) -> Iterator[tuple[int, str, int]]:
    """Yield page (from 0), title and level (from 1) of the outline's entries."""
    for count, bookmark in enumerate(pdf.get_toc(max_depth=6)):
        if count == _MAX_BOOKMARKS:
            return
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        title = well_formed(" ".join(bookmark.get_title().split()))
        if page is not None and title:
            yield page, title, bookmark.level + 1


def _headings(
    text: str, starts: tuple[int, ...], bookmarks: list[tuple[int, str, int]]
) -> list[Heading]:
    """Return headings at the lines with their titles, or else at the start of their pages."""
    headings: list[Heading] = []
    last = (-1, 0)  # page of the previous bookmark, and end of its heading
    for page, title, level in bookmarks:
        if page >= len(starts):
            continue
        start = last[1] if last[0] == page else starts[page]
        words = r"\s+".join(map(re.escape, title.split()))
        line = re.compile(rf"^[ \t]*(?:[\w.]+[ \t]+)?{words}[ \t]*$", re.MULTILINE)
        end = starts[page + 1] if page + 1 < len(starts) else len(text)
        match = line.search(text, start, min(end, start + _LONGEST_SEARCH))
        last = (page, match.end() if match else start)
        headings.append(Heading(match.start() if match else start, level, title))
    return sorted(headings, key=lambda heading: heading.start)
