"""Lifecycle events, to which progress bars, telemetry and extensions subscribe."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import isasyncgenfunction, iscoroutinefunction, isfunction
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lorebind_config.errors import UsageError
from lorebind_config.namespace import tenant
from lorebind_knowledge.plumbing.bridge import only_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lorebind_config.namespace import Namespace

log = logging.getLogger("lorebind.extensions")


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a knowledge base."""

    kb_id: str
    run_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Counts, durations and names. Texts, and the reasons of failures, which may quote texts, are
    included only for extensions with `content`. Each extension gets its own copy."""
    namespace: Namespace | None = None
    """The tenant, project, scope and id of the knowledge base; None for other events.

    Two tenants, or two workflows, can have knowledge bases with the same id.
    """


@runtime_checkable
class Tracer(Protocol):
    """Makes spans, see `Events.span`."""

    def open_span(
        self,
        name: str,
        attributes: Mapping[str, Any],
        more: Mapping[str, Any],
        *,
        is_call: bool,
        is_current: bool,
    ) -> AbstractContextManager[object]:
        """Open a span within a block.

        Yields a function that opens a block within it whose spans are its children, or None.

        Args:
            name: the name of the span.
            attributes: its attributes.
            more: further attributes, which are complete at the end of the block.
            is_call: whether it is a call of another system.
            is_current: whether spans that are opened in the block are its children.
        """
        ...


class Extension:
    """The base class of extensions: override the methods of the events to receive, in order.

    An exception in a method is logged and has no other effect. Methods are sync, and are called on
    the event loop: run slow work in a separate thread.
    """

    content: bool = False
    """Whether events include the text of documents and questions, and the reasons of failures.

    `content:` in the YAML declaration of an extension overrides this value.
    """

    def collection_created(self, event: Event) -> None:
        """The first index of a knowledge base was started. data: embedder, dimension."""

    def collection_deleted(self, event: Event) -> None:
        """The index of a knowledge base was deleted, with its runs and manually added documents."""

    def ingest_started(self, event: Event) -> None:
        """An ingest started. data: strategy."""

    def ingest_listed(self, event: Event) -> None:
        """The documents to read are known. data: documents (their number)."""

    def ingest_chunked(self, event: Event) -> None:
        """A document was read and compared. data: uri, action, chunks, textless_parts
        (number of parts without text, by kind), kind (of a failure).

        With content: texts (of its chunks).
        """

    def ingest_embedded(self, event: Event) -> None:
        """The vectors of a batch of chunks are ready. data: chunks, texts_embedded, cache_hits.

        With content: texts, as they were embedded.
        """

    def ingest_progressed(self, event: Event) -> None:
        """An ingest has read or embedded more; at most once a second, and at its end.

        data: documents (to read), documents_read, chunks (new ones so far), chunks_embedded.
        """

    def embedder_called(self, event: Event) -> None:
        """A call of the embedder ended, including its retries.

        data: operation (`embed_documents` or `embed_query`), vectors (`dense` or `sparse`), count
        (of texts), seconds, kind (of a failure).
        """

    def ingest_completed(self, event: Event) -> None:
        """An ingest completed. data: report. With content: the reasons in the report."""

    def ingest_failed(self, event: Event) -> None:
        """An ingest failed or was cancelled as a whole. data: kind. With content: reason."""

    def document_deleted(self, event: Event) -> None:
        """A document was deleted. data: uri."""

    def reindex_started(self, event: Event) -> None:
        """A rebuild of an index started. data: embedder, embedder_before (empty if there is none).

        The ingest that rebuilds the index sends its own events too.
        """

    def reindex_completed(self, event: Event) -> None:
        """The rebuilt index is in use. data: embedder, embedder_before, report.

        With content: the reasons in the report.
        """

    def reindex_failed(self, event: Event) -> None:
        """The previous index stays in use. data: embedder, embedder_before, kind.

        With content: reason.
        """

    def retrieval_started(self, event: Event) -> None:
        """A search started. If several knowledge bases are searched together, each has an event.

        data: strategy, top_k, cached (only for a result from a cache). With content: question.
        """

    def retrieval_completed(self, event: Event) -> None:
        """A search completed.

        data: strategy, matches (count for this knowledge base), seconds, stage, verdict, cached.

        With content: question, texts (of the matches).
        """

    def retrieval_failed(self, event: Event) -> None:
        """A search failed, or skipped this knowledge base because nothing was ingested into it yet.

        data: strategy, kind. With content: reason.
        """

    def workflow_ended(self, event: Event) -> None:
        """A run of a workflow ended, or waits. `kb_id` is empty here and in the next three.

        data: workflow, status (`completed`, `waiting`, `paused`, `failed` or `cancelled`), seconds,
        kind (of a failure).
        """

    def task_ended(self, event: Event) -> None:
        """A task of a workflow ended.

        data: workflow, task, status (`completed`, `skipped`, `failed`, or `handled` for a failure
        that an `on_error` handles), attempts, seconds, kind (of a failure).
        """

    def model_called(self, event: Event) -> None:
        """A call of a chat model ended.

        data: provider, model, input_tokens and output_tokens (0 if the model does not report them),
        seconds, kind (of a failure).
        """

    def tool_called(self, event: Event) -> None:
        """A call of a tool by a chat model ended.

        data: tool, status (`success` or `error`), seconds, kind (of an exception).
        """

    def shutdown(self, event: Event) -> None:
        """The project is being closed. `kb_id` is empty."""


class Events:
    """Calls the extensions of a project in the order of their registration."""

    def __init__(self, extensions: Sequence[Extension] = ()) -> None:
        """Raise `UsageError` if a method of an extension is async."""
        self._extensions: list[Extension] = []
        self.tracers: Sequence[Tracer] = ()
        """The tracers that create a span for each operation."""
        for extension in extensions:
            self.subscribe(extension)

    @property
    def extensions(self) -> Sequence[Extension]:
        """The registered extensions."""
        return tuple(self._extensions)

    def subscribe(self, extension: Extension) -> None:
        """Call this extension too, after all others.

        Raises:
            UsageError: one of its methods is async, so that a call would not run it.
        """
        for hook in HOOKS:
            method = getattr(extension, hook)
            if iscoroutinefunction(method) or isasyncgenfunction(method):
                raise UsageError(
                    f"extension {type(extension).__name__}: its method {hook!r} is async, and "
                    f"would never run; write it as `def {hook}(self, event)`"
                )
        self._extensions.append(extension)

    def unsubscribe(self, extension: Extension) -> None:
        """Stop calling this extension; raise `ValueError` if it is not subscribed."""
        self._extensions.remove(extension)

    def emit(
        self, hook: str, event: Event, texts: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Call a method of all extensions, as the tenant of the event.

        Args:
            hook: the name of the method.
            event: the event to pass.
            texts: returns the data that only extensions with `content` receive; called only for
                them.
        """
        for extension in list(self._extensions):
            try:
                data = dict(event.data)
                if texts is not None and extension.content is True:
                    data |= texts()
                # Copied, so that no extension changes what the caller and the others get.
                owner = event.namespace
                with only_errors(), tenant(owner.tenant) if owner else nullcontext():
                    getattr(extension, hook)(replace(event, data=deepcopy(data)))
            except Exception:  # an extension must not break the code that it observes
                log.exception("extension %s failed in %s", type(extension).__name__, hook)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        is_call: bool = False,
        is_current: bool = True,
    ) -> Iterator[Span]:
        """Open a span within a block, in each tracer; see `Tracer.open_span`.

        Yields the span, for further attributes.
        """
        span = Span()
        with ExitStack() as stack:
            for tracer in self.tracers:
                opened = tracer.open_span(
                    name, attributes, span, is_call=is_call, is_current=is_current
                )
                if callable(around := stack.enter_context(opened)):
                    span.around.append(around)
            yield span


class Span(dict[str, Any]):
    """An open span: a dict for further attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.around: list[Callable[[], Any]] = []
        """Open a block whose spans are children of this one, for each tracer."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Open a block whose spans are children of this one, which is not current elsewhere."""
        with ExitStack() as stack:
            for around in self.around:
                stack.enter_context(around())
            yield


HOOKS = [name for name, member in vars(Extension).items() if isfunction(member)]
"""The names of the methods of extensions."""


def kind_of(error: BaseException) -> str:
    """Return the name of a failure in events: the class of its error, or `cancelled`.

    A stream that nobody reads to its end counts as cancelled.
    """
    is_cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
    return "cancelled" if is_cancelled else type(error).__name__
