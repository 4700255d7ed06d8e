"""Documents that are ZIP archives of parts: which format one is, and how it is read safely."""

from __future__ import annotations

import contextlib
import io
import zipfile
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_UNPACKED_BYTES = 128 * 1024 * 1024
"""Of all parts together: a ZIP archive of a few kilobytes can hold gigabytes."""

_MAIN_PARTS = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "META-INF/container.xml": "epub",
}
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0"
"""Begins Microsoft's formats before 2007, and today's when they are encrypted."""


def is_archive(data: bytes) -> bool:
    """Whether what begins so is a ZIP archive."""
    return data.startswith(_ZIP)


def package_format(data: bytes) -> str:
    """The format of an archive by the part that its format must have; empty where it has none."""
    if not is_archive(data):
        return ""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return next(
                (form for part, form in _MAIN_PARTS.items() if part in archive.NameToInfo), ""
            )
    except Exception:  # beside BadZipFile, whatever a broken directory makes zipfile raise
        return ""


def why_unreadable(data: bytes) -> str:
    """What a file is, if it is an archive or a file of Microsoft's that no loader reads."""
    if data.startswith(_OLE):
        return (
            "is an encrypted document, or of Word, Excel or PowerPoint 97-2003; save it "
            "unencrypted as .docx, .xlsx or .pptx"
        )
    if data.startswith(_ZIP) and not package_format(data):
        return "is a ZIP archive that is broken, or holds no .docx, .epub, .pptx or .xlsx"
    return ""


@contextlib.contextmanager
def reading_package(data: bytes, uri: str, kind: str) -> Iterator[zipfile.ZipFile]:
    """The archive, for a block that reads a document from it.

    Args:
        data: the whole document.
        uri: what messages call it.
        kind: what it should be: `Word document`.

    Raises:
        SourceError: when it is another kind of file, unpacks to more than `MAX_UNPACKED_BYTES`, or
            the block fails.
    """
    if why := why_unreadable(data):
        raise SourceError(f"{uri}: {why}")
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
    except Exception as error:  # a broken part makes the libraries raise anything
        raise SourceError(f"{uri}: a broken {kind}: {error}") from error
