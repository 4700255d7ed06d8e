"""The author, dates and language that an HTML page declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.loaders.properties import properties_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

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
