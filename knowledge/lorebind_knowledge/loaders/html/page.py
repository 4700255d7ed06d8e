"""Load HTML: the main content of a page as text, also with trafilatura."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import SourceError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import LONGEST_TITLE, LoadedDocument, title_of, words
from lorebind_knowledge.loaders.decoding import decode
from lorebind_knowledge.loaders.html.content import content_of
from lorebind_knowledge.loaders.html.text import TextWriter
from lorebind_knowledge.loaders.html.tree import read_tree, title_in
from lorebind_knowledge.loaders.properties import properties_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

    from lorebind_knowledge.loaders.marks import Heading

_META_CHARSET = re.compile(rb"<meta[^>]+?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_ENDS_ITSELF = re.compile(r"<([A-Za-z][\w-]*+)([^<>]*)/>")
"""An empty element in XML, such as `<title/>`, which would be an unclosed start tag in HTML."""
_EMPTY = words("area base br col embed hr img input link meta param source track wbr")
"""The elements that are empty in HTML too."""
_INLINE_CODE = re.compile(r"<pre>((?:(?!</?pre>)[^\n])*)</pre>")
"""Code within a sentence; trafilatura writes `pre` for all code."""
_SNIFFED_BYTES = 1024
"""Number of bytes in which the standard expects the charset."""


def meta_charset(data: bytes) -> str:
    """Return the charset that the page declares; empty if there is none."""
    meta = _META_CHARSET.search(data[:_SNIFFED_BYTES])
    name = meta[1].decode("ascii", "replace") if meta else ""
    # A page whose declaration is readable byte by byte is not in UTF-16 (HTML 13.2.3.2).
    return "utf-8" if name.lower().startswith("utf-16") else name


def xml_as_html(markup: str) -> str:
    """Return markup whose empty elements are closed as in HTML."""
    return _ENDS_ITSELF.sub(
        lambda tag: tag[0] if tag[1].lower() in _EMPTY else f"<{tag[1]}{tag[2]}></{tag[1]}>", markup
    )


def load_page(data: bytes, uri: str) -> LoadedDocument:
    """Load a page from its bytes.

    Args:
        data: see `decode_page`.
        uri: its path or URL.

    Raises:
        SourceError: as in `load_html`, or the bytes are not text.
    """
    text, metadata = decode_page(data, uri)
    return replace(load_html(text, uri), metadata=metadata)


def decode_page(data: bytes, uri: str) -> tuple[str, dict[str, str]]:
    """Return a page's text, and its encoding as metadata unless it is UTF-8.

    Args:
        data: the charset that the page's source declares, if any; a line end; the page.
        uri: its path or URL.
    """
    declared, _, page = data.partition(b"\n")
    text, encoding = decode(page, uri, declared.decode() or meta_charset(page))
    return text, {} if encoding == "utf-8" else {"encoding": encoding}


def load_html(text: str, uri: str) -> LoadedDocument:
    """Load the text, headings and title of a page's main content.

    The title is the first top-level heading, if the page's title contains it along with the name of
    the site; else the page's title; else the first heading; else the file name.

    Raises:
        SourceError: the page has too many elements.
    """
    body, page = read_tree(text, uri)
    writer = TextWriter(uri)
    for part in content_of(body):
        writer.write(part)
    content = writer.text
    headings, tables = tuple(writer.headings), tuple(writer.tables)
    title = _title(title_in(page), headings, uri)
    return LoadedDocument(
        content, title, headings, format="html", tables=tables, properties=page_properties(page)
    )


def _title(written: str, headings: tuple[Heading, ...], uri: str) -> str:
    if len(written) > LONGEST_TITLE:
        written = ""
    heading = next((top for top in headings if top.level == 1), headings[0] if headings else None)
    if heading and (not written or heading.title.lower() in written.lower()):
        return heading.title
    return written or title_of(uri)


def load_with_trafilatura(data: bytes, uri: str) -> LoadedDocument:
    """Load the text and headings of a page's article, without reader comments.

    If the library finds no article, the text and headings are those of `load_html`. The title
    always is.

    Args:
        data: see `decode_page`.
        uri: its path or URL.

    Raises:
        SourceError: as in `load_html`, or the library fails.
        MissingDependencyError: the extra `html` is not installed.
    """
    page, metadata = decode_page(data, uri)
    document = load_html(page, uri)
    article, _ = read_tree(_article(page, uri), uri)
    writer = TextWriter(uri)
    writer.write(article)
    if text := writer.text:
        headings, tables = tuple(writer.headings), tuple(writer.tables)
        document = replace(document, text=text, headings=headings, tables=tables)
    return replace(document, metadata=metadata)


def _article(page: str, uri: str) -> str:
    """Return the article as simple HTML.

    The library's Markdown has backslashes in names of code, which searches would miss.
    """
    trafilatura = import_extra("trafilatura", extra="html", purpose="the extractor 'trafilatura'")
    try:
        article = trafilatura.extract(page, output_format="html", include_comments=False)
    except MemoryError:
        raise
    except Exception as error:  # a page can make a parser raise anything
        raise SourceError(
            f"{uri}: trafilatura cannot read it: {type(error).__name__}: {error}"
        ) from error
    return _INLINE_CODE.sub(r"<code>\1</code>", xml_as_html(article or ""))


_NAMES = {
    "author": ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author"),
    "created": (
        *("article:published_time", "date", "dc.date", "dcterms.created", "dcterms.date"),
        *("datepublished", "pubdate", "publish_date", "citation_publication_date"),
    ),
    "modified": (
        *("article:modified_time", "og:updated_time", "dcterms.modified", "datemodified"),
        *("last-modified", "revised"),
    ),
    "language": ("content-language", "dc.language", "dcterms.language", "og:locale"),
}
"""The names of `meta` elements, by property; the first is the best."""
_KEYS = ("name", "property", "itemprop", "http-equiv")
_MOST = 500
"""Number of `meta` elements that are read."""


def page_properties(page: LexborHTMLParser) -> dict[str, Any]:
    """Return the properties of a page, see `properties_of`."""
    contents: dict[str, list[str]] = {}
    for element in page.css("meta[content]")[:_MOST]:
        attributes = element.attributes
        name = next((value for key in _KEYS if (value := attributes.get(key))), None)
        if name and (content := attributes.get("content")):
            contents.setdefault(name.strip().lower(), []).append(content)
    values = {
        key: next((contents[name] for name in names if name in contents), [None])
        for key, names in _NAMES.items()
    }
    language = page.root.attributes.get("lang") if page.root is not None else None
    return properties_of(
        [author for author in values["author"] if author],
        values["created"][0],
        values["modified"][0],
        language or values["language"][0],
    )
