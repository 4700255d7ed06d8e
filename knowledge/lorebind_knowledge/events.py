"""Lifecycle events: the one mechanism that progress bars, telemetry and extensions subscribe to."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a knowledge base."""

    kb_id: str
    run_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Counts and durations, never the text of documents or queries."""


class Extension:
    """Inherit and implement any of these; each is called with what happened, in order.

    A method that raises is logged and breaks nothing. Methods are called on the event loop: one
    that takes long belongs in a thread of its own.
    """

    def collection_created(self, event: Event) -> None:
        """The first index of a knowledge base was begun. data: embedder, dimension."""

    def collection_deleted(self, event: Event) -> None:
        """The index of a knowledge base was deleted, with its runs and what was added by hand."""

    def ingest_started(self, event: Event) -> None:
        """data: strategy."""

    def ingest_chunked(self, event: Event) -> None:
        """One document was read and compared. data: uri, action, chunks."""

    def ingest_embedded(self, event: Event) -> None:
        """One batch of chunks has its vectors. data: chunks, texts_embedded, cache_hits."""

    def ingest_completed(self, event: Event) -> None:
        """data: report."""

    def ingest_failed(self, event: Event) -> None:
        """The run as a whole failed or was cancelled. data: reason."""

    def document_deleted(self, event: Event) -> None:
        """data: uri."""

    def reindex_started(self, event: Event) -> None:
        """An index is to be built anew. data: embedder, embedder_before (empty if there is none).

        The ingest that does it announces itself too.
        """

    def reindex_completed(self, event: Event) -> None:
        """The new index is in use. data: embedder, embedder_before, report."""

    def reindex_failed(self, event: Event) -> None:
        """What was in use stays in use. data: embedder, embedder_before, reason."""

    def retrieval_started(self, event: Event) -> None:
        """Of several knowledge bases that are searched together, each. data: strategy, top_k."""

    def retrieval_completed(self, event: Event) -> None:
        """data: strategy, matches (those of this knowledge base), seconds."""

    def retrieval_failed(self, event: Event) -> None:
        """Or it was skipped, since nothing was ingested into it yet. data: strategy, reason."""

    def shutdown(self, event: Event) -> None:
        """The project is being closed; kb_id is empty."""


class Events:
    """Calls the extensions of a project, in the order of their registration."""

    def __init__(self, extensions: Sequence[Extension] = ()) -> None:
        self._extensions = list(extensions)

    def subscribe(self, extension: Extension) -> None:
        self._extensions.append(extension)

    def unsubscribe(self, extension: Extension) -> None:
        self._extensions.remove(extension)

    def emit(self, hook: str, event: Event) -> None:
        for extension in list(self._extensions):
            try:
                getattr(extension, hook)(event)
            except Exception:  # an extension must never break what it watches
                log.exception("extension %s failed in %s", type(extension).__name__, hook)
