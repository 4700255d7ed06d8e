"""The wrappers of embedders around sparse ones: events, metrics, spans, redaction, project code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lorebind_config import plugins
from lorebind_config.errors import EmbedderError, PluginError
from lorebind_config.namespace import Namespace
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.embedders.base import embed_query as embed_query_densely
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder, embed_documents, embed_query
from lorebind_knowledge.embedders.wrapper import AnnouncingEmbedder, EmbedderWrapper
from lorebind_knowledge.events import Events
from lorebind_knowledge.extensions.prometheus import Prometheus
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.middleware.tracing import Tracing
from tests.plugin_project import acme_lore

from .bench import CountingEmbedder, Diary
from .test_middleware_tracing import Provider

HERE = Namespace("acme", "support", "project", "docs")


@pytest.fixture
def acme() -> Iterator[None]:
    plugins.register("sparse_embedders", "acme", acme_lore.sparse_embedder)
    yield
    plugins.unregister("sparse_embedders", "acme")


async def test_events_and_metrics_tell_both_kinds_apart() -> None:
    """`embedder_called` and its metric name the operation and the kind of vectors."""
    diary, registry = Diary(), CollectorRegistry()
    events = Events([diary, Prometheus(registry)])
    sparse = AnnouncingEmbedder(acme_lore.AcmeSparseEmbedder(), events, HERE)
    dense = AnnouncingEmbedder(CountingEmbedder(), events, HERE)
    await embed_documents(sparse, ["a", "b"])
    await embed_query(sparse, "a")
    await embed_query_densely(dense, "a")
    calls = [
        (data["operation"], data["vectors"], data["count"])
        for data in diary.data("embedder_called")
    ]
    assert calls == [
        ("embed_documents", "sparse", 2),
        ("embed_query", "sparse", 1),
        ("embed_query", "dense", 1),
    ]
    labels = {"kb_id": "docs", "operation": "embed_query", "vectors": "sparse"}
    assert registry.get_sample_value("knowledge_embedder_calls_total", labels) == 1


async def test_a_failure_is_an_event() -> None:
    """A failed call has its class in the event, and the caller gets the error."""
    diary = Diary()
    failing = acme_lore.AcmeSparseEmbedder("refused-key")
    embedder = AnnouncingEmbedder(failing, Events([diary]), HERE)
    with pytest.raises(EmbedderError, match="acme/words failed: RuntimeError: 401"):
        await embed_documents(embedder, ["a"])
    (data,) = diary.data("embedder_called")
    assert data["kind"] == "RuntimeError"


async def test_spans() -> None:
    """A call of a sparse embedder has a span with its kind and without texts."""
    provider = Provider()
    traced = Tracing(provider=provider).sparse_embedder(acme_lore.AcmeSparseEmbedder())
    await embed_documents(traced, ["secret text"])
    (span,) = provider.spans
    assert span.name == "embeddings words"
    assert span.attributes["lorebind.operation"] == "embed_documents"
    assert span.attributes["lorebind.vectors"] == "sparse"
    assert "secret" not in provider.text()


async def test_errors_of_plugins_show_no_secrets(acme: None, tmp_path: Path) -> None:
    """Exceptions of a plugin are shown with the template instead of the key."""
    declared = {"id": "words", "provider": "acme", "api_key": "{{ .env.ACME_KEY }}"}
    data = {
        "name": "p",
        "sparse_embedders": [declared],
        "knowledge_bases": [{"id": "docs", "sparse": "words"}],
    }
    loaded = build_project(data, root=tmp_path, environ={"ACME_KEY": "refused-key"})
    sparse = KnowledgeService(loaded).open("docs").kb.sparse
    assert sparse is not None
    with pytest.raises(EmbedderError, match=r"RuntimeError: 401: {{ \.env\.ACME_KEY }}"):
        await embed_documents(sparse, ["a"])


def test_a_plugin_without_a_member(tmp_path: Path) -> None:
    """A plugin whose object lacks a method of the protocol is refused with the method's name."""

    class Lacking:
        Declaration = acme_lore.AcmeSparseDeclaration

        @staticmethod
        def make(declaration: Any, environment: Any) -> Any:
            return CountingEmbedder()

    plugins.register("sparse_embedders", "acme", Lacking)
    try:
        data = {
            "name": "p",
            "sparse_embedders": [{"id": "words", "provider": "acme"}],
            "knowledge_bases": [{"id": "docs", "sparse": "words"}],
        }
        service = KnowledgeService(build_project(data, root=tmp_path))
        with pytest.raises(PluginError, match="made a CountingEmbedder without terms"):
            _ = service.open("docs").kb
    finally:
        plugins.unregister("sparse_embedders", "acme")


LOG: list[str] = []


class _Logged(EmbedderWrapper):
    async def wrap_call(
        self, name: str, texts: Sequence[str], call_next: Callable[[], Awaitable[Any]]
    ) -> Any:
        LOG.append(f"{self.vectors} {name}")
        return await call_next()


class Logging(Wrapper):
    """A wrapper of a project: one class around both kinds of embedders."""

    embedder = sparse_embedder = lambda self, inner: _Logged(inner)


class Broken:
    """A wrapper that returns no sparse embedder."""

    def sparse_embedder(self, inner: SparseEmbedder) -> Any:
        return CountingEmbedder()


async def test_a_wrapper_of_the_project(tmp_path: Path) -> None:
    """One class of a project wraps embedders of both kinds, which stay shared."""
    data = {
        "name": "p",
        "wrappers": [f"{__name__}:Logging"],
        "knowledge_bases": [{"id": "docs", "sparse": "local"}],
        "embedders": [{"id": "words", "provider": "hashing"}],
    }
    LOG.clear()
    kb = KnowledgeService(build_project(data, root=tmp_path)).open("docs").kb
    assert kb.sparse is not None
    assert kb.sparse.languages == {"en"}
    await embed_query(kb.sparse, "a question")
    await embed_query_densely(kb.embedder, "a question")
    assert LOG == ["sparse embed_query", "dense embed_query"]


def test_a_wrapper_that_returns_something_else(tmp_path: Path) -> None:
    """A wrapper that returns no sparse embedder is named in the error."""
    data = {
        "name": "p",
        "wrappers": [f"{__name__}:Broken"],
        "knowledge_bases": [{"id": "docs"}],
    }
    service = KnowledgeService(build_project(data, root=tmp_path))
    with pytest.raises(PluginError, match="CountingEmbedder is not a SparseEmbedder"):
        _ = service.open("docs").kb
