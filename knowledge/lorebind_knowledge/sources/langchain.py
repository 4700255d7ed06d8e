"""`langchain`: whatever a document loader class of LangChain loads."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.optional import import_object
from lorebind_knowledge.redaction import said_by
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.limits import too_large
from lorebind_knowledge.sources.media_types import MARKDOWN, PLAIN_TEXT, media_type_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.documents import Document

_MAX_HELD_BYTES = 512 * 1024**2
"""What one loader may give in all: loaders list nothing, so all of it is held until it is read."""
_BYTES_PER_DOCUMENT = 1024
"""Counted for each, so that one which gives empty documents without end is stopped too."""


class LangChainDocuments:
    """Each document that the loader gives is one item, whose uri is its `source`.

    The loader is made and run anew whenever the documents are listed, in a worker thread. Where it
    gives several documents of one source, the second is `SOURCE#2`, and so on in its order.
    """

    def __init__(
        self,
        key: str,
        class_path: str,
        *,
        written: Mapping[str, Any],
        settings: Mapping[str, Any],
        max_bytes: int,
    ) -> None:
        """
        Args:
            key: the source's key.
            class_path: the class, as `package.module:Class`.
            written: the arguments of the class as they stand in the configuration.
            settings: the same with their templates filled in.
            max_bytes: the size of the largest document, in UTF-8.

        Raises:
            SourceError: when the class is no document loader.
            UsageError: when it cannot be imported.
        """
        from langchain_core.document_loaders import BaseLoader

        kind = import_object(class_path)
        if not (isinstance(kind, type) and issubclass(kind, BaseLoader)):
            raise SourceError(f"{class_path} is not a LangChain BaseLoader")
        self.key = key
        self._kind = kind
        self._class_path = class_path
        self._written = dict(written)
        self._settings = dict(settings)
        self._max_bytes = max_bytes

    def items(self) -> Iterator[SourceItem]:
        taken: dict[str, int] = {}
        held = 0
        for document in self._documents():
            name = str(document.metadata.get("source") or self._kind.__name__)
            uri = _free(name, taken)
            data = document.page_content.encode("utf-8", "replace")
            held += len(data) + _BYTES_PER_DOCUMENT
            if held > _MAX_HELD_BYTES:
                raise SourceError(f"{self._class_path} gives too much to be one source; split it")
            # What a loader read is text by now, whatever its source was.
            media_type = MARKDOWN if media_type_of_text(name) == MARKDOWN else PLAIN_TEXT
            content = Content(data, media_type, metadata=_scalars(document.metadata))
            yield SourceItem(uri, partial(self._read, uri, content))
        if not taken:
            raise SourceError(f"{self._class_path} gives no document")

    def _documents(self) -> Iterator[Document]:
        from langchain_core.documents import Document

        try:
            loader = self._kind(**self._settings)
        except Exception as error:  # whatever a third party's constructor raises
            raise SourceError(
                f"{self._class_path} cannot be made with the configuration given: "
                f"{self._said_by(error)}"
            ) from error
        try:
            for document in loader.lazy_load():
                if not isinstance(document, Document):
                    raise TypeError(f"it gave a {type(document).__name__}, not a Document")
                yield document
        except Exception as error:  # any loader's own exceptions
            said = self._said_by(error, holder=loader)
            raise SourceError(f"{self._class_path} failed: {said}") from error

    def _said_by(self, error: Exception, holder: object = None) -> str:
        return said_by(error, holder=holder, written=self._written, resolved=self._settings)

    def _read(self, uri: str, content: Content, version: str) -> Content:
        if len(content.data) > self._max_bytes:
            raise too_large(uri, self._max_bytes)
        return content


def _free(name: str, taken: dict[str, int]) -> str:
    """The name, or the next numbered one that is free; `taken` counts how often each was used."""
    uri = name
    while uri in taken:
        taken[name] += 1
        uri = f"{name}#{taken[name]}"
    taken[uri] = 1
    return uri


def _scalars(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that JSON can say: texts, finite numbers and booleans."""
    return {
        str(key): value
        for key, value in metadata.items()
        if isinstance(value, str | int | float)
        and not (isinstance(value, float) and not math.isfinite(value))
    }
