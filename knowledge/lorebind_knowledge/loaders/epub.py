"""EPUB: the chapters of a book in their order, each read as the page it is."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    Heading,
    LoadedDocument,
    Place,
    joined,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.decoding import decode
from lorebind_knowledge.loaders.html import load_html, meta_charset
from lorebind_knowledge.loaders.html_open import EMPTY
from lorebind_knowledge.loaders.packages import reading_package

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zipfile import ZipFile

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html")
_ENDS_ITSELF = re.compile(r"<([A-Za-z][\w-]*+)([^<>]*)/>")
"""`<title/>` is an element in XML, and opens one in HTML."""
_BETWEEN_CHAPTERS = "\n\n"


def load_epub(data: bytes, uri: str) -> LoadedDocument:
    """Each chapter's title is a heading, and the other headings of the chapter stand under it.

    Raises:
        SourceError: when it is broken, encrypted, or unpacks to too much.
    """
    texts: list[str] = []
    headings: list[Heading] = []
    places: list[Place] = []
    start = 0
    with reading_package(data, uri, "EPUB") as archive:
        title, parts = _spine(archive, uri)
        for number, part in enumerate(parts, 1):
            chapter = load_html(_page(archive, part, uri), "")
            if not chapter.text:
                continue
            name = _chapter_title(chapter, title)
            places.append(Place(start, "chapter", name or number))
            headings += _headings(chapter, name, start)
            texts.append(chapter.text)
            start += len(chapter.text) + len(_BETWEEN_CHAPTERS)
    return LoadedDocument(
        joined(texts, uri, separator=_BETWEEN_CHAPTERS),
        title or title_of(uri),
        tuple(headings),
        format="epub",
        places=tuple(places),
    )


def _spine(archive: ZipFile, uri: str) -> tuple[str, list[str]]:
    """The book's title, and the names of its pages in the order of reading."""
    root = _xml(archive, _CONTAINER).find(".//{*}rootfile")
    package = root.get("full-path", "") if root is not None else ""
    book = _xml(archive, package)
    folder = posixpath.dirname(package)
    pages = {
        item.get("id"): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in book.iterfind(".//{*}manifest/{*}item")
        if item.get("media-type") in _PAGES
    }
    parts = [
        pages[item.get("idref")]
        for item in book.iterfind(".//{*}spine/{*}itemref")
        if item.get("idref") in pages
    ]
    if _ENCRYPTION in archive.NameToInfo:  # where only fonts are, the text can be read
        hidden = _xml(archive, _ENCRYPTION).iterfind(".//{*}CipherReference")
        if not {unquote(one.get("URI", "")) for one in hidden}.isdisjoint(parts):
            raise SourceError(f"{uri}: is encrypted; only its seller's programs can read it")
    title = " ".join((book.findtext(".//{*}metadata/{*}title") or "").split())
    return (well_formed(title) if len(title) <= LONGEST_TITLE else ""), parts


def _xml(archive: ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(name))


def _page(archive: ZipFile, name: str, uri: str) -> str:
    data = archive.read(name)
    text, _ = decode(data, f"{uri}: {name}", meta_charset(data))
    return _ENDS_ITSELF.sub(
        lambda tag: tag[0] if tag[1].lower() in EMPTY else f"<{tag[1]}{tag[2]}></{tag[1]}>", text
    )


def _chapter_title(chapter: LoadedDocument, book_title: str) -> str:
    """The first heading, else what the page is called, unless that is the book's title."""
    if chapter.headings:
        return chapter.headings[0].title
    return "" if chapter.title == book_title else chapter.title


def _headings(chapter: LoadedDocument, title: str, start: int) -> Iterator[Heading]:
    if title:
        yield Heading(start, 1, title)
    for one in chapter.headings[1:]:
        yield Heading(start + one.start, min(one.level + 1, 9), one.title)
