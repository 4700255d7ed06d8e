"""Documents that a plan has read, so that the ingest after it need not read them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.sources.base import Content

if TYPE_CHECKING:
    from lorebind_knowledge.ingest.prepared import PreparedDocument
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.namespace import Namespace

_MOST_KEPT = 32_000_000
"""Maximum total size: characters of texts and fetched bytes. Other documents are read again."""
_OF_A_CHUNK = 2_000
"""Estimated size of a chunk without its text, in bytes."""


class PlannedDocuments:
    """Documents that were fetched, loaded or chunked. Each can be taken once."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        """The namespace of the planned knowledge base."""
        self.notices: list[str] = []
        """The chunker's notices about these documents."""
        self._room = _MOST_KEPT
        self._fetched: dict[str, Any] = {}
        self._loaded: dict[tuple[str, str], LoadedDocument] = {}
        self._cut: dict[tuple[str, str], PreparedDocument] = {}

    def keep_fetched(self, uri: str, content: Any) -> None:
        """Keep a source's result: a `Content`, or None if the document has not changed."""
        if self._has_room(len(content.data) if isinstance(content, Content) else 0):
            self._fetched[uri] = content

    def keep_loaded(self, uri: str, signature: str, document: LoadedDocument) -> None:
        """Keep a loaded document that the ingest will chunk differently than the plan."""
        if self._has_room(len(document.text)):
            self._loaded[uri, signature] = document

    def keep_cut(self, document: PreparedDocument) -> None:
        """Keep a document with its chunks."""
        if self._has_room(sum(len(chunk.text) + _OF_A_CHUNK for chunk in document.chunks)):
            self._cut[document.uri, document.signature] = document

    def has_fetched(self, uri: str, version: str) -> bool:
        """Return whether there is a result for a caller with this version, or without (empty)."""
        return uri in self._fetched and bool(version or self._fetched[uri] is not None)

    def fetched(self, uri: str) -> Any:
        return self._fetched.pop(uri)

    def loaded(self, uri: str, signature: str) -> LoadedDocument | None:
        """Take the loaded document, if its content and the settings are still the same."""
        return self._loaded.pop((uri, signature), None)

    def cut(self, uri: str, signature: str) -> PreparedDocument | None:
        """Take the document with its chunks, under the same condition."""
        return self._cut.pop((uri, signature), None)

    def _has_room(self, size: int) -> bool:
        if size > self._room:
            return False
        self._room -= size
        return True
