"""Tracing: spans around embedders, stores and searches, without texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags, use_span

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.middleware import Retrieval
from lorebind_knowledge.middleware.chain import _search
from lorebind_knowledge.middleware.tracing import Tracing
from lorebind_knowledge.stores import MemoryStore

from .bench import Bench, paragraph


class Span(NonRecordingSpan):
    """Records what is set on it."""

    def __init__(self, name: str, parent: str, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(1)))
        self.name, self.parent, self.attributes = name, parent, dict(attributes)
        self.status: Any = None

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_attributes(self, attributes: Any) -> None:
        self.attributes.update(attributes)

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status


class Provider:
    """A tracer provider that stores all spans; OpenTelemetry's own comes with its SDK."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def get_tracer(self, *arguments: Any, **more: Any) -> Provider:
        return self

    @contextmanager
    def start_as_current_span(self, name: str, **more: Any) -> Iterator[Span]:
        from opentelemetry.trace import get_current_span

        parent = getattr(get_current_span(), "name", "")
        span = Span(name, parent, more["attributes"])
        self.spans.append(span)
        with use_span(span, record_exception=False, set_status_on_exception=False):
            yield span

    def text(self) -> str:
        return repr([(span.name, span.attributes, span.status) for span in self.spans])


@pytest.fixture
def provider() -> Provider:
    return Provider()


async def _traced(bench: Bench, tracing: Tracing) -> None:
    bench.write("a.md", paragraph("alpha"))
    index = Index(tracing.store(bench.index.store), bench.catalog)
    bench.change(embedder=tracing.embedder(bench.kb.embedder), index=index)
    await bench.ingest()
    await tracing.retrieval(_search)(Retrieval((bench.kb,), "alpha?", bench.kb.retrieval))


async def test_a_search_is_one_trace(
    make_bench: Callable[[str], Bench], provider: Provider
) -> None:
    """Embedder and store calls are children of the search, with model, store, sizes and counts."""
    await _traced(make_bench("memory"), Tracing(provider=provider))
    below = [span for span in provider.spans if span.parent == "retrieval docs"]
    assert {span.name for span in below} == {"embeddings bag-of-words", "nearest"}
    (search,) = [span for span in provider.spans if span.name == "retrieval docs"]
    assert search.attributes["lorebind.tenant"] == "default"
    assert search.attributes["gen_ai.data_source.id"] == search.attributes["lorebind.kb_ids"][0]
    assert search.attributes["lorebind.matches"] == 1
    assert search.attributes["lorebind.strategy"] == "hybrid"
    spans = {span.name: span.attributes for span in provider.spans}
    assert spans["embeddings bag-of-words"]["gen_ai.provider.name"] == "counting"
    assert spans["nearest"]["db.system.name"] == "memory"
    assert spans["nearest"]["db.response.returned_rows"] == 1
    assert spans["add"]["db.operation.batch.size"] == 1


async def test_no_text_is_told(make_bench: Callable[[str], Bench], provider: Provider) -> None:
    """Spans contain neither questions nor documents unless `record_text` is on."""
    await _traced(make_bench("memory"), Tracing(provider=provider))
    assert "alpha" not in provider.text()
    await _traced(make_bench("memory"), Tracing(provider=provider, record_text=True))
    assert "alpha?" in provider.text()
    assert paragraph("alpha") in provider.text()


async def test_failures_are_marked_without_their_words(provider: Provider) -> None:
    """A span has an exception's type but not its message, which may quote a text."""

    class Failing(HashingEmbedder):
        def embed_query(self, text: str) -> Any:
            raise EmbedderError(f"refused: {text}")

    with pytest.raises(EmbedderError):
        await Tracing(provider=provider).embedder(Failing()).embed_query("alpha")  # type: ignore[misc]
    (span,) = provider.spans
    assert span.attributes["error.type"] == "EmbedderError"
    assert span.status.status_code is StatusCode.ERROR
    assert "alpha" not in provider.text()
    store: Any = Tracing(provider=provider, record_text=True).store(MemoryStore())
    await store.close()
    assert provider.spans[-1].status is None
