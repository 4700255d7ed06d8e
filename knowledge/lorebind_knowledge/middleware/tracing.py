"""OpenTelemetry spans, by the semantic conventions for GenAI and databases.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/, …/gen-ai-agent-spans/ and
…/db/database-spans/
"""

from __future__ import annotations

from collections.abc import Sized
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.plugins import import_extra
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.stores.base import SearchHits
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.middleware import Retrieval, Retrieve
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")


class Tracing(Wrapper):
    """Adds a span around each call, in the tracer provider that the program has set up.

    It also makes the spans of ingests, runs, tasks, models and tools, see `Events.span`.

    Spans hold names, sizes and counts. They hold the texts of questions and documents, and the
    messages of exceptions, which may quote them, only with `record_text`.
    """

    def __init__(self, *, record_text: bool = False, provider: Any = None) -> None:
        """
        Args:
            record_text: record questions, texts that are embedded or stored, and the messages of
                exceptions.
            provider: an OpenTelemetry TracerProvider; None means the program's own.

        Raises:
            MissingDependencyError: the OpenTelemetry API is not installed.
        """
        self._api = import_extra("opentelemetry.trace", extra="otel", purpose="the wrapper tracing")
        self._record_text = record_text
        self._provider = provider

    def embedder(self, inner: Embedder) -> Embedder:
        return _TracedEmbedder(inner, self)

    def sparse_embedder(self, inner: SparseEmbedder) -> SparseEmbedder:
        return _TracedEmbedder(inner, self)

    def store(self, inner: VectorStore) -> VectorStore:
        return _TracedStore(inner, self)

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def traced(retrieval: Retrieval) -> QueryResult:
            namespace = retrieval.kbs[0].namespace
            about = {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.data_source.id": " ".join(kb.id for kb in retrieval.kbs),
                "lorebind.project": namespace.project,
                "lorebind.tenant": namespace.tenant,
                "lorebind.scope": namespace.scope,
                "lorebind.kb_ids": [kb.id for kb in retrieval.kbs],
                "lorebind.top_k": retrieval.settings.top_k,
            }

            def describe(result: QueryResult) -> Mapping[str, Any]:
                return {
                    "lorebind.strategy": result.strategy,
                    "lorebind.matches": len(result.matches),
                }

            name = f"retrieval {' '.join(kb.id for kb in retrieval.kbs)}"
            return await self.span(
                name, about, [retrieval.question], lambda: inner(retrieval), describe
            )

        return traced

    async def span(
        self,
        name: str,
        about: Mapping[str, Any],
        texts: Sequence[str],
        call_next: Callable[[], Awaitable[R]],
        describe: Callable[[R], Mapping[str, Any]] | None = None,
    ) -> R:
        """Make a call within a span.

        Args:
            name: the name of the span.
            about: the attributes of the span.
            texts: the texts to record if `record_text` is on.
            call_next: makes the call.
            describe: returns further attributes for the call's result.
        """
        attributes, more = dict(about), dict[str, Any]()
        if self._record_text:
            attributes["lorebind.texts"] = list(texts)
        with self.open_span(name, attributes, more, is_call=True):
            result = await call_next()
            if describe is not None:
                more |= describe(result)
            return result

    @contextmanager
    def open_span(
        self,
        name: str,
        attributes: Mapping[str, Any],
        more: Mapping[str, Any],
        *,
        is_call: bool,
        is_current: bool = True,
    ) -> Iterator[Callable[[], AbstractContextManager[object]]]:
        """Open a span within a block; see `events.Tracer`."""
        tracer = self._api.get_tracer("lorebind", tracer_provider=self._provider)
        start = tracer.start_as_current_span if is_current else tracer.start_span
        kinds = self._api.SpanKind
        with start(
            name,
            kind=kinds.CLIENT if is_call else kinds.INTERNAL,
            attributes=dict(attributes),
            record_exception=self._record_text,
            set_status_on_exception=False,
        ) as span:
            try:
                yield partial(
                    self._api.use_span,
                    span,
                    record_exception=False,
                    set_status_on_exception=False,
                )
            except BaseException as error:
                message = str(error) if self._record_text else None
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(self._api.Status(self._api.StatusCode.ERROR, message))
                raise
            finally:
                span.set_attributes(dict(more))
                if "error.type" in more:  # a failure that is no exception here
                    span.set_status(self._api.Status(self._api.StatusCode.ERROR))


class _TracedEmbedder(EmbedderWrapper):
    def __init__(self, inner: Embedder | SparseEmbedder, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    async def wrap_call(
        self, name: str, texts: Sequence[str], call_next: Callable[[], Awaitable[R]]
    ) -> R:
        fingerprint = self.fingerprint
        about: dict[str, Any] = {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": fingerprint.provider,
            "gen_ai.request.model": fingerprint.model,
            "lorebind.operation": name,
            "lorebind.vectors": self.vectors,
            "lorebind.texts_count": len(texts),
        }
        if fingerprint.dimension is not None:
            about["gen_ai.embeddings.dimension.count"] = fingerprint.dimension
        return await self._tracing.span(f"embeddings {fingerprint.model}", about, texts, call_next)


class _TracedStore(StoreWrapper):
    def __init__(self, inner: VectorStore, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    async def wrap_call(self, request: StoreCall, call_next: Callable[[], Awaitable[R]]) -> R:
        about: dict[str, Any] = {
            "db.system.name": str(self.inner).partition(" ")[0],
            "db.operation.name": request.name,
        }
        texts: list[str] = []
        if request.index is not None:
            namespace = request.index.namespace
            about["db.collection.name"] = namespace.kb
            about["db.namespace"] = f"{namespace.tenant}/{namespace.project}/{namespace.scope}"
        if request.name == "add":
            vectors = request.arguments[1]
            about["db.operation.batch.size"] = len(vectors)
            texts = [vector.text for vector in vectors]

        def describe(result: R) -> Mapping[str, Any]:
            rows = result.numbers if isinstance(result, SearchHits) else result
            return {"db.response.returned_rows": len(rows)} if isinstance(rows, Sized) else {}

        return await self._tracing.span(request.name, about, texts, call_next, describe)
