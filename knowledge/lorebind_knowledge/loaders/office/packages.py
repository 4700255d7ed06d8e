"""Documents that are ZIP archives: detect their format and open them safely."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from lorebind_config.document_sizes import IMAGES
from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.properties import properties_of

MAX_UNPACKED_BYTES = 128 * 1024 * 1024
"""Maximum size of all parts: a ZIP archive of a few kilobytes can unpack to gigabytes."""

_MAIN_PARTS = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "META-INF/container.xml": "epub",
}
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0"
"""Start of Microsoft's formats before 2007, and of its current ones if encrypted."""


def is_archive(data: bytes) -> bool:
    """Return whether data begins like a ZIP archive."""
    return data.startswith(_ZIP)


def package_format(data: bytes) -> str:
    """Return the format of an archive by its main part; empty if it has none."""
    if not is_archive(data):
        return ""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return next(
                (form for part, form in _MAIN_PARTS.items() if part in archive.NameToInfo), ""
            )
    except Exception:  # a broken directory can make zipfile raise more than BadZipFile
        return ""


def why_unreadable(data: bytes) -> str:
    """Return why no loader reads an archive or a Microsoft file; empty for other files."""
    if data.startswith(_OLE):
        return (
            "is encrypted, or is a document of Word, Excel or PowerPoint 97-2003; save it "
            "unencrypted as .docx, .xlsx or .pptx"
        )
    if data.startswith(_ZIP) and not package_format(data):
        return (
            "is a ZIP archive that is broken, or is not a .docx, .epub, .pptx or .xlsx file; save "
            "the document again, or unpack it"
        )
    return ""


def core_properties(core: Any) -> dict[str, Any]:
    """Return the properties of an Office document, from the object of the library that read it."""
    author = getattr(core, "author", None) or getattr(core, "creator", None)
    return properties_of(author, core.created, core.modified, core.language)


def pictures_of(parts: Sequence[Any], uri: str, numbers: Sequence[int]) -> list[bytes]:
    """Return pictures within a document as PNG, scaled down; see `image_pictures`.

    Args:
        parts: the parts of all its pictures, see `has_picture`.
        uri: the document's.
        numbers: which of them, from 1.

    Raises:
        SourceError: one is broken or too large.
    """
    from lorebind_knowledge.loaders.scans.pictures import image_pictures  # rarely needed

    return [image_pictures(parts[number - 1].blob, uri, [1])[0] for number in numbers]


def has_picture(part: Any) -> bool:
    """Return whether a part is an image whose text can be recognized."""
    return getattr(part, "content_type", "") in IMAGES


@contextlib.contextmanager
def reading_package(data: bytes, uri: str, kind: str) -> Iterator[zipfile.ZipFile]:
    """Open the archive for a block that reads a document from it.

    Args:
        data: the whole document.
        uri: the document, for messages.
        kind: the expected kind of document, such as `Word document`.

    Raises:
        SourceError: it is another kind of file, unpacks to more than `MAX_UNPACKED_BYTES`, or the
            block fails.
    """
    if why := why_unreadable(data):
        raise SourceError(f"{uri}: {why}")
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise SourceError(
            f"{uri}: a broken {kind}, or another kind of file: it is not a ZIP archive; open it in "
            "its program and save it again"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
            if unpacked > MAX_UNPACKED_BYTES:
                raise SourceError(
                    f"{uri}: unpacks to {unpacked:,} bytes, more than {MAX_UNPACKED_BYTES:,}"
                )
            yield archive
    except (SourceError, MemoryError):
        raise
    except Exception as error:  # a broken part can make the libraries raise anything
        raise SourceError(f"{uri}: a broken {kind}: {error}") from error
