"""Documents that were read and chunked, and those that a plan keeps for the ingest after it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.sources.spool import Piece, Spool
from lorebind_knowledge.text.languages import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.loaders.base import LoadedDocument


Fetched: TypeAlias = Content | SourceError | None
"""A source's result: the document, its failure, or None if it has not changed."""


_MOST_KEPT = 32_000_000
"""Maximum number of characters of texts in memory. Other documents are loaded again."""


_MOST_SPOOLED = 1_000_000_000
"""Maximum number of fetched bytes on disk. Other documents are fetched again."""


_FAILURE_SECONDS = 60
"""Seconds until a failed document is fetched again, because the failure may be transient."""


class Chunk(NamedTuple):
    """A chunk before it is embedded."""

    id: str
    text: str
    context: str
    """The title and the headings above the text, and the header of its table on lines below."""
    metadata: Mapping[str, Any]

    @property
    def size(self) -> int:
        """The estimated size in memory: its text and 2,000 bytes for the rest."""
        return len(self.text) + 2_000

    @property
    def embedded_text(self) -> str:
        """The embedder's input: the context, then the text."""
        return f"{self.context}\n{self.text}"


class PreparedDocument(NamedTuple):
    """A document compared with the ledger; with its chunks if it is new or changed."""

    uri: str
    source: str
    action: str
    """`added`, `updated`, `unchanged` or `failed`, as in the counts of reports."""
    title: str = ""
    language: str = DEFAULT
    signature: str = ""
    chunks: Sequence[Chunk] = ()
    reason: str = ""
    kind: str = ""
    """The class of the error, if it failed."""
    version: str = ""
    """The source's name for the version that was read."""
    recipe: str = ""
    """A digest of everything except its content that determined its chunks."""
    textless_parts: Mapping[str, int] = MappingProxyType({})
    """The number of its parts without text by kind, as of its last successful read."""
    format: str = ""
    """The format as which it was read; see `LoadedDocument.format`."""
    size: int = 0
    """The number of its bytes."""
    modified: str = ""
    """See `Content.modified`."""
    pages_to_recognize: int = 0
    """In a plan: the number of pages to recognize."""
    reports_textless: bool = True
    """Whether plans and reports count these parts, see `on_textless_pages` of sources."""
    refused: str = ""
    """If it exceeded a limit: the key that must change before another read, see `Loading.key`."""
    entry: DocumentEntry | None = None
    """Its row in the ledger before, if it had one."""


def attempts_of(document: PreparedDocument) -> int:
    """Return the number of attempts to read a failed document, without refusals to read it."""
    entry = document.entry
    before = entry.attempts if entry else 0
    again = entry is not None and entry.refused and entry.refused == document.refused
    return before if again else before + 1


class PlannedDocuments:
    """Documents that were fetched, loaded or chunked. Each can be taken once."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        """The namespace of the planned knowledge base."""
        self.notices: list[str] = []
        """The chunker's notices about these documents."""
        self._room = _MOST_KEPT
        self._spooling = threading.Lock()  # remote documents are kept by several threads
        self._spool = Spool()
        self._fetched: dict[str, tuple[Fetched, Piece | None, float]] = {}
        self._documents: dict[tuple[str, str], LoadedDocument | PreparedDocument] = {}

    def keep_fetched(self, uri: str, result: Fetched) -> None:
        """Keep a source's result; the bytes of a document are kept on disk."""
        piece = None
        if isinstance(result, Content):
            with self._spooling:
                if self._spool.size + len(result.data) > _MOST_SPOOLED:
                    return
                try:
                    piece = self._spool.put(result.data)
                except SourceError:  # the disk is full; the ingest fetches the document again
                    return
            result = replace(result, data=b"")
        self._fetched[uri] = (result, piece, time.monotonic())

    def keep(
        self, uri: str, signature: str, document: LoadedDocument | PreparedDocument, size: int
    ) -> None:
        """Keep a document of this size: with its chunks, or without if the ingest will chunk it in
        another way than the plan."""
        if size <= self._room:
            self._room -= size
            self._documents[uri, signature] = document

    def has_fetched(self, uri: str, version: str) -> bool:
        """Return whether there is a result for a caller with this version, or without (empty)."""
        if uri not in self._fetched:
            return False
        result, _, at = self._fetched[uri]
        if isinstance(result, SourceError):
            return time.monotonic() - at < _FAILURE_SECONDS
        return bool(version or result is not None)

    def fetched(self, uri: str) -> Fetched:
        """Take the result.

        Raises:
            SourceError: the file on disk cannot be read.
        """
        result, piece, _ = self._fetched.pop(uri)
        if isinstance(result, Content) and piece is not None:
            return replace(result, data=self._spool.get(piece))
        return result

    def document(self, uri: str, signature: str) -> LoadedDocument | PreparedDocument | None:
        """Take the document, if its content and the settings are still the same."""
        return self._documents.pop((uri, signature), None)
