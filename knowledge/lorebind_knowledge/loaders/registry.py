"""Choose the loader of a document by its content, then its media type, then its extension."""

from __future__ import annotations

import codecs
import dataclasses
import importlib.metadata
import pkgutil
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config import plugins
from lorebind_config.document_sizes import IMAGES
from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders import reader_process
from lorebind_knowledge.loaders.base import suffix_of
from lorebind_knowledge.loaders.decoding import decode, known_charset
from lorebind_knowledge.loaders.formats import (
    SUPPORTED_SUFFIXES,
    broken_loaders,
    can_recognize,
    format_named,
    load_plugged,
    plugged_suffixes,
)
from lorebind_knowledge.loaders.office import packages
from lorebind_knowledge.loaders.text import LANGUAGES

if TYPE_CHECKING:
    from lorebind_config.declarations.sources import SourceMetadata
    from lorebind_knowledge.loaders.base import LoadedDocument

T = TypeVar("T")

LOADERS_VERSION = "1"
"""Increased when a loader returns a different text or title for the same bytes."""
_NEWER: dict[str, str] = {}
"""Changes since that version, by extension: only these documents are read again."""

_TEXT = {
    "markdown": "lorebind_knowledge.loaders.markdown:load_markdown",
    "mdx": "lorebind_knowledge.loaders.mdx:load_mdx",
    "text": "lorebind_knowledge.loaders.text:load_text",
    "rst": "lorebind_knowledge.loaders.markup:load_rst",
    "asciidoc": "lorebind_knowledge.loaders.markup:load_asciidoc",
    "latex": "lorebind_knowledge.loaders.markup:load_tex",
    "code": "lorebind_knowledge.loaders.text:load_code",
    "notebook": "lorebind_knowledge.loaders.notebooks:load_notebook",
    "csv": "lorebind_knowledge.loaders.tables:load_table",
    "json": "lorebind_knowledge.loaders.json_values:load_json",
    "jsonl": "lorebind_knowledge.loaders.json_values:load_json_lines",
    "vtt": "lorebind_knowledge.loaders.transcripts:load_vtt",
    "srt": "lorebind_knowledge.loaders.transcripts:load_srt",
}
"""The loaders of texts, imported at their first document: an unchanged folder needs none."""
_WITH_FIELDS = ("csv", "json", "jsonl")
"""Those of formats with columns or keys, which a source can declare to be metadata."""
WITH_PICTURES = ("docx", "pptx")
"""The formats whose pictures can be recognized."""
_OLDER = (".doc", ".ppt", ".xls")

_IMAGE = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|II\*\0|MM\0\*|RIFF.{4}WEBP", re.DOTALL)
"""The first bytes of PNG, JPEG, TIFF and WebP."""

_LONGEST_PROLOGUE = 1024
"""Number of bytes in which to look for the first tag after an XML declaration."""


def load_document(
    data: bytes,
    uri: str,
    media_type: str = "",
    extractor: str = "built_in",
    *,
    tables: bool = False,
    declared: SourceMetadata | None = None,
) -> LoadedDocument:
    """Load a document from its bytes, in this process.

    Args:
        data: the whole document.
        uri: its path or URL; its extension decides if content and media type do not.
        media_type: the media type from its source, such as `text/html; charset=iso-8859-1`.
        extractor: the extractor for HTML; see `HtmlDeclaration`.
        tables: whether to read tables of PDF as rows; see `PdfDeclaration`.
        declared: the columns of tables and keys of JSON that are text or metadata, if any.

    Raises:
        SourceError: no loader knows the document, or it cannot be read.
        MissingDependencyError: its loader needs an extra that is not installed.
    """
    return begin_load(
        data,
        uri,
        media_type,
        lambda form, *parts, **options: reader_process.loader_of(form, options)(*parts),
        extractor,
        tables=tables,
        declared=declared,
    )


def can_load(uri: str, peek: Callable[[int | None], bytes]) -> bool:
    """Return whether there is a loader for a document, by its name or else its content.

    Args:
        uri: its path or URL.
        peek: returns its first bytes, at most as many as given, or all for None; only called if the
            name does not decide.
    """
    suffix = suffix_of(uri)
    if format_named(suffix) or suffix in plugged_suffixes():
        return True
    head = peek(_LONGEST_PROLOGUE)
    if packages.is_archive(head):  # an archive's directory is at its end
        head = peek(None)
    return bool(_by_content(head))


def begin_load(
    data: bytes,
    uri: str,
    media_type: str,
    begin: Callable[..., T],
    extractor: str = "built_in",
    *,
    tables: bool = False,
    declared: SourceMetadata | None = None,
    pictures: bool = False,
) -> LoadedDocument | T:
    """Load a document from its bytes, or begin to if its format is one of `reader_process.FORMATS`.

    Args:
        data, uri, media_type, extractor, tables, declared: see `load_document`, which also lists
            the exceptions.
        pictures: whether pictures within documents are marked by `PICTURE`, see `with_pictures`.
        begin: called with the format, the data, the uri and options of the loader; its result is
            returned.
    """
    media_type, parameters, suffix = _names(uri, media_type)
    detected = _by_content(data)
    if detected in ("", "image"):  # a plugin that reads images is preferred to OCR
        plugged = load_plugged(data, uri, (media_type, suffix))
        if plugged is not None:
            return plugged
    if not detected and (why := packages.why_unreadable(data)):
        raise SourceError("; ".join([f"{uri}: {why}", *broken_loaders()]))
    form = detected or format_named(media_type) or format_named(suffix)
    if not form and media_type != "text/plain":
        raise _unknown(suffix, uri, media_type)
    form = form or "text"
    if media_type.startswith("text/") and not detected and _is_rendered(form, data):
        form = "text"  # the source has already extracted the text
    charset = _charset(parameters)
    if form == "html":
        reader = form if extractor == "built_in" else extractor
        return begin(reader, known_charset(charset).encode() + b"\n" + data, uri)
    if form in reader_process.FORMATS:
        if not data:
            raise SourceError(f"{uri}: is empty; download or save it again")
        form = "pdf_tables" if form == "pdf" and tables else form
        options: dict[str, Any] = _columns(declared) if form == "xlsx" else {}
        if form in WITH_PICTURES and pictures:
            options["pictures"] = True
        return begin(form, data, uri, **options)
    content, encoding = decode(data, uri, charset)
    more = [declared] if form in _WITH_FIELDS else []
    document: LoadedDocument = pkgutil.resolve_name(_TEXT[form])(content, uri, *more)
    if encoding == "utf-8":
        return document
    return dataclasses.replace(document, metadata={**document.metadata, "encoding": encoding})


def _columns(declared: SourceMetadata | None) -> dict[str, list[str]]:
    names = ("text_columns", "metadata_columns")
    return {name: getattr(declared, name) for name in names if getattr(declared, name, None)}


def loaders_version() -> str:
    """Return a version that changes whenever the same bytes could give another text.

    It includes the installed loaders.
    """
    offers = [offer for some in plugins.offers("loaders").values() for offer in some]
    others = sorted(f"{offer.name} of {offer.distribution}" for offer in offers)
    return ", ".join([LOADERS_VERSION, *others])


def newer_version(uri: str) -> str:
    """Return what has changed for a document since `LOADERS_VERSION`; empty for most."""
    return _NEWER.get(suffix_of(uri), "")


def library_version(name: str) -> str:
    """Return the version of an installed library; empty if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def format_of(data: bytes, uri: str, media_type: str) -> str:
    """Return the format that a document is read as, unless a plugin reads it; empty if unknown."""
    media_type, _, suffix = _names(uri, media_type)
    return _by_content(data) or format_named(media_type) or format_named(suffix)


def _names(uri: str, media_type: str) -> tuple[str, str, str]:
    """Return a document's media type, the parameters of the media type, and its extension."""
    media_type, _, parameters = media_type.partition(";")
    return media_type.strip().lower(), parameters, suffix_of(uri)


def _by_content(data: bytes) -> str:
    """Return the format that the content identifies; empty if it identifies none."""
    head = data[:64].removeprefix(codecs.BOM_UTF8).lstrip()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = data[: 2 * _LONGEST_PROLOGUE].decode("utf-16", "ignore").lstrip().encode()
    if head.startswith(b"%PDF-"):
        return "pdf"
    if can_recognize() and _IMAGE.match(data):
        return "image"
    if head.startswith(b"{\\rtf"):
        return "rtf"
    if package := packages.package_format(data):
        return package
    if head[:6] == b"WEBVTT" and head[6:7] in (b"", b" ", b"\t", b"\r", b"\n"):
        return "vtt"
    if head[:1] != b"<":
        return ""
    tag = head[:16].lower()
    if tag.startswith(b"<?xml"):
        prologue = data[:_LONGEST_PROLOGUE].lower()
        return "html" if b"<!doctype html" in prologue or b"<html" in prologue else ""
    return "html" if tag.startswith((b"<!doctype html", b"<html>", b"<html ")) else ""


def _is_rendered(form: str, data: bytes) -> bool:
    """Return whether a text cannot be a file of the format that its name suggests."""
    read_by_others = form in reader_process.FORMATS and form != "html"
    return read_by_others or (form == "notebook" and not data.lstrip().startswith(b"{"))


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value
    return ""


def _unknown(suffix: str, uri: str, media_type: str) -> SourceError:
    kind = suffix or "a file without extension"
    if media_type:
        kind += f" of type {media_type}"
    return SourceError(f"{uri}: no loader for {kind}; {conversion_of(suffix) or _supported()}")


def conversion_of(suffix: str) -> str:
    """Return how to read files of an older format of Microsoft Office, or images; else empty."""
    if suffix in IMAGES:
        return "to read the text of images, run: pip install 'lorebind[ocr]'"
    if suffix not in _OLDER:
        return ""
    newer = f"{suffix}x"
    how = f"soffice --headless --convert-to {newer[1:]} FILE"
    return f"convert {suffix} files to {newer}, for example with LibreOffice: {how}"


def _supported() -> str:
    documents = [suffix for suffix in SUPPORTED_SUFFIXES if suffix not in LANGUAGES]
    suffixes = sorted([*documents, *plugged_suffixes()])
    return "; ".join([f"known: {', '.join(suffixes)} and source code", *broken_loaders()])
