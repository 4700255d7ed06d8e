"""The formats that can be read: by Lorebind itself, and by loaders of plugins.

A plugin of the group `lorebind.loaders` has `suffixes` (such as `.odt`), `media_types` and
`load(data, uri)`, which returns a `LoadedDocument`. Projects do not need to name it: it reads
formats that could not be read otherwise, and may not claim one that another loader reads.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from lorebind_config import plugins
from lorebind_config.document_sizes import IMAGES
from lorebind_config.errors import LorebindError, PluginError, SourceError
from lorebind_knowledge.loaders.base import MAX_CHARACTERS, LoadedDocument, misnamed_page
from lorebind_knowledge.loaders.text import LANGUAGES

_NAMES = {
    "markdown": ".md .markdown text/markdown text/x-markdown",
    "mdx": ".mdx",
    "text": ".txt .text .log .xml .yaml .yml .toml .cfg .conf .ini .properties",
    "rst": ".rst",
    "asciidoc": ".adoc .asciidoc",
    "latex": ".tex",
    "code": " ".join(LANGUAGES),
    "notebook": ".ipynb application/x-ipynb+json",
    "html": ".html .htm .xhtml text/html application/xhtml+xml",
    "pdf": ".pdf application/pdf application/x-pdf",
    "docx": ".docx application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": ".pptx application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": ".xlsx application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "epub": ".epub application/epub+zip",
    "rtf": ".rtf application/rtf text/rtf",
    "eml": ".eml message/rfc822",
    "csv": ".csv .tsv text/csv application/csv text/tab-separated-values",
    "json": ".json application/json application/ld+json",
    "jsonl": ".jsonl .ndjson application/jsonl application/x-ndjson application/x-jsonlines",
    "vtt": ".vtt text/vtt",
    "srt": ".srt application/x-subrip",
}
FORMATS = {name: form for form, names in _NAMES.items() for name in names.split()}
"""The format for each file extension, and for each media type that identifies one.

`text/plain` is not among them: it is also used for Markdown, CSV and others.
"""


@functools.cache
def can_recognize() -> bool:
    """Return whether the extra `ocr` is installed."""
    return find_spec("rapidocr") is not None


def format_named(name: str) -> str:
    """Return the format for a file extension or a media type; empty if it identifies none.

    Images have one only where their text can be recognized.
    """
    return FORMATS.get(name) or ("image" if name in IMAGES and can_recognize() else "")


SUPPORTED_SUFFIXES = tuple(sorted(name for name in FORMATS if name.startswith(".")))

_MEMBERS = ("suffixes", "media_types", "load")


@dataclass(frozen=True, slots=True)
class _Table:
    """The media types and extensions that plugins claim, and the plugins that are broken."""

    claims: dict[str, list[tuple[plugins.PluginOffer, Any]]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


@functools.cache
def _claimed(offers: tuple[plugins.PluginOffer, ...]) -> _Table:
    table = _Table()
    for offer in offers:
        try:
            plugin = plugins.load(offer, _MEMBERS)
            words = {word.lower() for word in (*plugin.suffixes, *plugin.media_types)}
        except PluginError as error:
            table.broken.append(str(error))
            continue
        for word in sorted(words):
            table.claims.setdefault(word, []).append((offer, plugin))
    return table


def _installed() -> _Table:
    every = (offer for offers in plugins.offers("loaders").values() for offer in offers)
    return _claimed(tuple(sorted(every, key=str)))


def problems_of_loaders() -> list[str]:
    """Return the problems of the installed loaders, for `doctor`; empty if all can be used."""
    table = _installed()
    collisions = []
    for word in table.claims:
        try:
            _claim(word)
        except PluginError as error:
            collisions.append(str(error))
    return [*table.broken, *collisions]


def plugged_suffixes() -> list[str]:
    """Return the extensions that plugins read, sorted."""
    return sorted(word for word in _installed().claims if word.startswith("."))


def broken_loaders() -> list[str]:
    """Return the errors of plugins that cannot be loaded, whose formats are unknown."""
    return _installed().broken


def load_plugged(data: bytes, uri: str, words: tuple[str, ...]) -> LoadedDocument | None:
    """Load a document with a plugin; return None if no plugin reads its format.

    Args:
        data: the whole document.
        uri: its path or URL.
        words: its media type and extension; the first that has a loader decides.

    Raises:
        SourceError: two plugins claim the format, or the plugin cannot read the document.
    """
    if not plugins.offers("loaders"):
        return None
    try:
        claim = next(
            (_claim(word) for word in words if _is_built_in(word) or word in _installed().claims),
            None,
        )
    except PluginError as error:
        raise SourceError(f"{uri}: {error}") from error
    if claim is None:
        return None
    offer, plugin = claim
    try:
        document = plugin.load(data, uri)
    except LorebindError:
        raise
    except Exception as error:  # plugins can raise anything
        raise SourceError(
            f"{uri}: the loader {offer} cannot read it: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(document, LoadedDocument):
        raise SourceError(f"{uri}: the loader {offer} returned a {type(document).__name__}")
    if len(document.text) > MAX_CHARACTERS:
        raise SourceError(f"{uri}: its text is longer than {MAX_CHARACTERS:,} characters; split it")
    if wrong := misnamed_page(document.anchors):
        raise SourceError(f"{uri}: the loader {offer} returned {wrong}")
    return document


def _is_built_in(word: str) -> bool:
    return word in FORMATS or word == "text/plain"


def _claim(word: str) -> tuple[plugins.PluginOffer, Any] | None:
    """Return the plugin that claims a format; None if Lorebind reads it itself."""
    claims = _installed().claims.get(word, [])
    if len(claims) + _is_built_in(word) > 1:
        owners = ["Lorebind itself"] * _is_built_in(word) + [str(offer) for offer, _ in claims]
        raise PluginError(
            f"{word!r} is claimed by the loaders {' and '.join(owners)}; uninstall all but one"
        )
    return claims[0] if claims else None
