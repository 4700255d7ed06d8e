"""Which loader reads a document, by its name's ending."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders import markdown, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.loaders.base import LoadedDocument

_LOADERS: dict[str, Callable[[bytes, str], LoadedDocument]] = {
    **dict.fromkeys(markdown.SUFFIXES, markdown.load_markdown),
    **dict.fromkeys(text.SUFFIXES, text.load_text),
}

SUPPORTED_SUFFIXES = tuple(sorted(_LOADERS))

LOADERS_VERSION = "1"
"""Raised when a loader gives another text or title for the same bytes."""


def load_document(data: bytes, uri: str) -> LoadedDocument:
    """Read a document's bytes.

    Raises:
        SourceError: when no loader knows the ending, or the content is not what it says.
    """
    suffix = PurePosixPath(uri).suffix.lower()
    loader = _LOADERS.get(suffix)
    if loader is None:
        raise SourceError(
            f"{uri}: no loader for {suffix or 'a file without ending'}; "
            f"known: {', '.join(SUPPORTED_SUFFIXES)}"
        )
    return loader(data, uri)
