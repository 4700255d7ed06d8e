"""What a plan has read, for the ingest that follows it: once is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.sources.base import Content

if TYPE_CHECKING:
    from lorebind_knowledge.ingest.prepared import PreparedDocument
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.namespace import Namespace

_MOST_KEPT = 32_000_000
"""Characters of texts and bytes of what was fetched; what is beyond is read again."""
_OF_A_CHUNK = 2_000
"""What a chunk takes beside its text, in bytes."""


class PlannedDocuments:
    """What was fetched, loaded and cut. Each is given once, and then forgotten."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        """Of the knowledge base that was planned."""
        self.notices: list[str] = []
        """What the chunker said of the documents that are kept."""
        self._room = _MOST_KEPT
        self._fetched: dict[str, Any] = {}
        self._loaded: dict[tuple[str, str], LoadedDocument] = {}
        self._cut: dict[tuple[str, str], PreparedDocument] = {}

    def keep_fetched(self, uri: str, content: Any) -> None:
        """Keep what a source gave: a `Content`, or None, its answer that nothing has changed."""
        if self._has_room(len(content.data) if isinstance(content, Content) else 0):
            self._fetched[uri] = content

    def keep_loaded(self, uri: str, signature: str, document: LoadedDocument) -> None:
        """Keep a document that the ingest will cut otherwise than the plan."""
        if self._has_room(len(document.text)):
            self._loaded[uri, signature] = document

    def keep_cut(self, document: PreparedDocument) -> None:
        """Keep a document with its passages."""
        if self._has_room(sum(len(chunk.text) + _OF_A_CHUNK for chunk in document.chunks)):
            self._cut[document.uri, document.signature] = document

    def has_fetched(self, uri: str, version: str) -> bool:
        """Whether there is an answer for who has a version, an empty text for who has none."""
        return uri in self._fetched and bool(version or self._fetched[uri] is not None)

    def fetched(self, uri: str) -> Any:
        return self._fetched.pop(uri)

    def loaded(self, uri: str, signature: str) -> LoadedDocument | None:
        """The document, if the plan has read the same content and nothing else has changed."""
        return self._loaded.pop((uri, signature), None)

    def cut(self, uri: str, signature: str) -> PreparedDocument | None:
        """The same with its passages."""
        return self._cut.pop((uri, signature), None)

    def _has_room(self, size: int) -> bool:
        if size > self._room:
            return False
        self._room -= size
        return True
