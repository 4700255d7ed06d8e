"""Objects from third-party plugins pass the conformance kit, through all wrappers around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.errors import SourceError
from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.middleware.cache import QueryCache
from lorebind_knowledge.middleware.resilience import StoreRetries
from lorebind_knowledge.middleware.tracing import Tracing
from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.stores.base import VectorStore
from lorebind_knowledge.stores.wrapper import StoreWrapper
from lorebind_knowledge.testing import (
    DocumentTransformConformance,
    EmbedderConformance,
    VectorStoreConformance,
)
from lorebind_knowledge.transforms.steps import DocumentTransform
from tests.plugin_project.acme_lore import AcmeEmbedder, AcmeStore, AcmeTransform


def wrapped(store: VectorStore) -> VectorStore:
    """Wrap a store in every wrapper that leaves its results unchanged."""
    for wrapper in (Tracing(), StoreRetries(RetryConfig(attempts=1)), QueryCache(10, 10)):
        store = wrapper.store(store)
    return store


class TestPluggedEmbedder(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self) -> Callable[[], Embedder]:
        return lambda: AcmeEmbedder(64, "a-key")

    @pytest.fixture
    def secrets(self) -> list[str]:
        return ["a-key"]


class TestWrappedEmbedder(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self) -> Callable[[], Embedder]:
        return lambda: Tracing().embedder(EmbedderWrapper(AcmeEmbedder(64)))


class TestPluggedTransform(DocumentTransformConformance):
    @pytest.fixture
    def make_transform(self) -> Callable[[], DocumentTransform]:
        return lambda: AcmeTransform(["Keys", "ann@example.com", "Third page", "Ann", "page"])

    @pytest.fixture
    def removed(self) -> list[str]:
        return ["Keys", "ann@example.com", "Third page", "Ann"]


class UnchangedTransform(AcmeTransform):
    def transform(self, document: LoadedDocument, uri: str) -> LoadedDocument:
        return document


class RefusingTransform(AcmeTransform):
    def transform(self, document: LoadedDocument, uri: str) -> LoadedDocument:
        raise SourceError("no document is good enough")


@pytest.mark.parametrize("kind", [UnchangedTransform, RefusingTransform])
def test_steps_that_do_not_conform(kind: type[AcmeTransform]) -> None:
    """A step fails that leaves a text of several lines, or refuses every document."""
    removed = ["Keys\n\nRotate"]
    check = DocumentTransformConformance().test_results_are_documents
    check(lambda: AcmeTransform(removed), (), removed)
    with pytest.raises(AssertionError):
        check(lambda: kind(removed), (), removed)


class TestPluggedStore(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> VectorStore:
        return AcmeStore()


class TestWrappedStore(VectorStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = SqliteStore(tmp_path / "store.db")
        yield wrapped(store)
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], VectorStore]:
        return lambda: wrapped(SqliteStore(tmp_path / "store.db"))


class TestBareWrapper(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> VectorStore:
        return StoreWrapper(MemoryStore())
