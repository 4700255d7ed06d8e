"""The largest size of a document, said the same way by every source."""

from __future__ import annotations

from lorebind_knowledge.errors import SourceError

_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def too_large(name: str, limit: int) -> SourceError:
    """The error for a document of more than `limit` bytes."""
    return SourceError(
        f"{name}: is larger than {_size(limit)}; the limit is its source's max_bytes"
    )


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"
