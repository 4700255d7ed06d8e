"""How large documents may be; PDF and images, which can be scans, have a limit of their own."""

from __future__ import annotations

from typing import NamedTuple

MEGABYTE = 1024 * 1024
DEFAULT_MAX_BYTES = 4 * MEGABYTE
DEFAULT_MAX_SCAN_BYTES = 32 * MEGABYTE

IMAGES = (
    *(".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"),
    *("image/png", "image/jpeg", "image/tiff", "image/webp"),
)
"""File extensions and media types of images, which OCR can read."""
_SCANS = (".pdf", "application/pdf", *IMAGES)


def is_scan(uri: str, media_type: str = "") -> bool:
    """Return whether a document is a PDF or an image, by its extension or its media type."""
    return uri.lower().endswith(_SCANS) or media_type.partition(";")[0].strip() in _SCANS


class SizeLimit(NamedTuple):
    """The maximum size of documents in bytes."""

    max_bytes: int = DEFAULT_MAX_BYTES
    max_scan_bytes: int = 0
    """Of a PDF or an image, if it is more than `max_bytes`."""

    def of(self, uri: str, media_type: str = "") -> int:
        """Return the limit for a document."""
        return max(self) if is_scan(uri, media_type) else self.max_bytes
