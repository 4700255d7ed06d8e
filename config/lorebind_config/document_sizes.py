"""How large documents may be; PDF and images, which can be scans, have a limit of their own."""

from __future__ import annotations

import re
from typing import NamedTuple

from lorebind_config.errors import SourceError

MEGABYTE = 1024 * 1024
DEFAULT_MAX_BYTES = 4 * MEGABYTE
DEFAULT_MAX_SCAN_BYTES = 32 * MEGABYTE

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
_MEDIA_TYPES = ("image/png", "image/jpeg", "image/tiff", "image/webp")
IMAGES = (*_SUFFIXES, *_MEDIA_TYPES)
"""File extensions and media types of images, which OCR can read."""

_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


class Limit(NamedTuple):
    """A maximum size in bytes, and what to do about a larger document, in words."""

    size: int
    hint: str


class SizeLimit(NamedTuple):
    """The maximum size of documents in bytes."""

    max_bytes: int = DEFAULT_MAX_BYTES
    max_scan_bytes: int = 0
    """Of a PDF or an image, if it is more than `max_bytes`."""

    def of(self, uri: str, media_type: str = "") -> Limit:
        """Return the limit for a document, by its uri and the media type from its source."""
        is_larger = self.max_scan_bytes > self.max_bytes and _is_scan(uri, media_type)
        setting = "max_scan_bytes" if is_larger else "max_bytes"
        return Limit(getattr(self, setting), f"the limit is {setting} of its source")


def too_large(name: str, limit: Limit) -> SourceError:
    """Return the error for a file that is larger than its limit."""
    return SourceError(f"{name}: is larger than {_size(limit.size)}; {limit.hint}")


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"


def _is_scan(uri: str, media_type: str) -> bool:
    """Return whether a document is a PDF or an image, by its extension or its media type."""
    path = re.split(r"[?#]", uri, maxsplit=1)[0] if "://" in uri else uri
    plain = media_type.partition(";")[0].strip().lower()
    return path.lower().endswith((".pdf", *_SUFFIXES)) or plain in (
        "application/pdf",
        *_MEDIA_TYPES,
    )
