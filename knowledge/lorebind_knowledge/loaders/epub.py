"""Load EPUB: a book's chapters in order, each read as an HTML page."""

from __future__ import annotations

import posixpath
import re
from itertools import islice
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree
from zipfile import ZipFile

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import MOST_TABLES, LoadedDocument, as_title, title_of
from lorebind_knowledge.loaders.builder import DocumentBuilder
from lorebind_knowledge.loaders.decoding import decode
from lorebind_knowledge.loaders.html.page import load_html, meta_charset, xml_as_html
from lorebind_knowledge.loaders.marks import Anchor, Heading
from lorebind_knowledge.loaders.office.packages import reading_package
from lorebind_knowledge.loaders.properties import properties_of

_CONTAINER = "META-INF/container.xml"
_MOST_AUTHORS = 50
_ENCRYPTION = "META-INF/encryption.xml"
_PICTURE = re.compile(r"(?i)<(?:svg:)?(?:img|image)\b")
_PAGES = ("application/xhtml+xml", "text/html")


def load_epub(data: bytes, uri: str) -> LoadedDocument:
    """Load a book.

    A chapter starts at each top-level heading of a page; other headings are below it. Text before
    a page's first heading has the title of the page, or else its number.

    Raises:
        SourceError: it is broken, encrypted, or too large when unpacked.
    """
    builder = DocumentBuilder(uri)
    headings, anchors = builder.headings, builder.anchors
    with reading_package(data, uri, "EPUB") as archive:
        title, parts, properties = _spine(archive, uri)
        title = title or title_of(uri)
        for number, part in enumerate(parts, 1):
            source = _page(archive, part, uri)
            builder.omitted["image"] += sum(1 for _ in _PICTURE.finditer(source))
            page = load_html(source, "")
            if not page.text:
                builder.omitted["chapter"] += 1
                continue
            top = min((heading.level for heading in page.headings), default=0)
            if not page.headings or page.headings[0].start > 0:
                repeated = {title, *(heading.title for heading in page.headings)}
                name = "" if page.title in repeated else page.title
                chapter = _chapter(builder.at, name)
                anchors.append(chapter if name else chapter._replace(name=number))
                if name or headings:  # so that it does not belong to the previous chapter
                    headings.append(Heading(builder.at, 1, name or title))
            for heading in page.headings:
                at, level = builder.at + heading.start, min(heading.level + 1, 9)
                if heading.level == top or heading.start == 0:
                    level = 1
                    anchors.append(_chapter(at, heading.title))
                headings.append(Heading(at, level, heading.title))
            room = MOST_TABLES - len(builder.tables)
            builder.tables += (table.moved(builder.at) for table in page.tables[:room])
            builder.add(page.text)
    return builder.document("epub", title, properties)


def _chapter(start: int, title: str) -> Anchor:
    quoted = title.replace('"', "'")
    return Anchor(start, "chapter", f'"{quoted}"')


def _spine(archive: ZipFile, uri: str) -> tuple[str, list[str], dict[str, Any]]:
    """Return the book's title, the names of its pages in reading order, and its properties."""
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
    if _ENCRYPTION in archive.NameToInfo:  # if only fonts are encrypted, the text can be read
        references = _xml(archive, _ENCRYPTION).iterfind(".//{*}CipherReference")
        if not {unquote(reference.get("URI", "")) for reference in references}.isdisjoint(parts):
            raise SourceError(f"{uri}: is encrypted; only its seller's programs can read it")
    title = as_title(book.findtext(".//{*}metadata/{*}title") or "")
    return title, parts, _properties(book)


def _properties(book: ElementTree.Element) -> dict[str, Any]:
    about = book.find("{*}metadata")
    if about is None:
        return {}
    changed = (
        meta.text
        for meta in about.iterfind("{*}meta")
        if meta.get("property") == "dcterms:modified"
    )
    return properties_of(
        [creator.text for creator in islice(about.iterfind("{*}creator"), _MOST_AUTHORS)],
        about.findtext("{*}date"),
        next(changed, None),
        about.findtext("{*}language"),
    )


def _xml(archive: ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(name))


def _page(archive: ZipFile, name: str, uri: str) -> str:
    data = archive.read(name)
    text, _ = decode(data, f"{uri}: {name}", meta_charset(data))
    return xml_as_html(text)
