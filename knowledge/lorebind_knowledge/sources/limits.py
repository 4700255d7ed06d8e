"""The error for a document that is too large, the same for all sources."""

from __future__ import annotations

from lorebind_config.errors import SourceError

_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def too_large(name: str, limit: int) -> SourceError:
    """Return the error for a document of more than `limit` bytes."""
    return SourceError(
        f"{name}: is larger than {_size(limit)}; the limit is max_bytes of its source"
    )


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"
