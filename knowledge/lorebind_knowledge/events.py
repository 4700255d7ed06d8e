"""Lifecycle events: the one mechanism that progress bars, telemetry and extensions subscribe to."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_knowledge.namespace import Namespace

log = logging.getLogger("lorebind.extensions")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a knowledge base."""

    kb_id: str
    run_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Counts, durations and names. Texts are there only for an extension with `content`."""
    namespace: Namespace | None = None
    """The tenant, project, scope and id of the knowledge base; None at shutdown.

    Two tenants, or two workflows, may have a knowledge base of the same id.
    """


class Extension:
    """Inherit and implement any of these; each is called with what happened, in order.

    A method that raises is logged and breaks nothing. Methods are called on the event loop: one
    that takes long belongs in a thread of its own.
    """

    content: bool = False
    """Whether its events carry the text of documents and questions.

    `content:` in the YAML of a declared extension overrides it.
    """

    def collection_created(self, event: Event) -> None:
        """The first index of a knowledge base was begun. data: embedder, dimension."""

    def collection_deleted(self, event: Event) -> None:
        """The index of a knowledge base was deleted, with its runs and what was added by hand."""

    def ingest_started(self, event: Event) -> None:
        """data: strategy."""

    def ingest_chunked(self, event: Event) -> None:
        """One document was read and compared. data: uri, action, chunks, kind (of a failure).

        With content: texts, those of its chunks.
        """

    def ingest_embedded(self, event: Event) -> None:
        """One batch of chunks has its vectors. data: chunks, texts_embedded, cache_hits.

        With content: texts, as they were embedded.
        """

    def embedder_called(self, event: Event) -> None:
        """A call of the embedder has ended; its retries are part of it.

        data: operation (`embed_documents` or `embed_query`), count (of texts), seconds, kind (of a
        failure).
        """

    def ingest_completed(self, event: Event) -> None:
        """data: report."""

    def ingest_failed(self, event: Event) -> None:
        """The run as a whole failed or was cancelled. data: reason, kind."""

    def document_deleted(self, event: Event) -> None:
        """data: uri."""

    def reindex_started(self, event: Event) -> None:
        """An index is to be built anew. data: embedder, embedder_before (empty if there is none).

        The ingest that does it announces itself too.
        """

    def reindex_completed(self, event: Event) -> None:
        """The new index is in use. data: embedder, embedder_before, report."""

    def reindex_failed(self, event: Event) -> None:
        """What was in use stays in use. data: embedder, embedder_before, reason, kind."""

    def retrieval_started(self, event: Event) -> None:
        """Of several knowledge bases that are searched together, each. data: strategy, top_k.

        With content: question.
        """

    def retrieval_completed(self, event: Event) -> None:
        """data: strategy, matches (those of this knowledge base), seconds, stage, verdict, cached.

        With content: question, texts (of the matches).
        """

    def retrieval_failed(self, event: Event) -> None:
        """Or it was skipped, since nothing was ingested into it yet.

        data: strategy, reason, kind.
        """

    def shutdown(self, event: Event) -> None:
        """The project is being closed; kb_id is empty."""


class Events:
    """Calls the extensions of a project, in the order of their registration."""

    def __init__(self, extensions: Sequence[Extension] = ()) -> None:
        self._extensions = list(extensions)

    @property
    def extensions(self) -> Sequence[Extension]:
        """Those that are called."""
        return tuple(self._extensions)

    def subscribe(self, extension: Extension) -> None:
        self._extensions.append(extension)

    def unsubscribe(self, extension: Extension) -> None:
        self._extensions.remove(extension)

    def emit(
        self, hook: str, event: Event, texts: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Call a method of all extensions.

        Args:
            hook: its name.
            event: what happened.
            texts: gives the data that only extensions with `content` see; called only for those.
        """
        for extension in list(self._extensions):
            try:
                seen = event
                if texts is not None and extension.content is True:
                    seen = replace(event, data={**event.data, **texts()})
                getattr(extension, hook)(seen)
            except Exception:  # an extension must never break what it watches
                log.exception("extension %s failed in %s", type(extension).__name__, hook)


def kind_of(error: BaseException) -> str:
    """What events call a failure: the class of its error, or `cancelled`."""
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
