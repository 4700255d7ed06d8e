"""The built-in sparse embedders pass the conformance kit that ships for all sparse embedders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lorebind_config.templates import Environment
from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
from lorebind_knowledge.embedders.sparse.fastembed import FastembedSparseEmbedderDeclaration
from lorebind_knowledge.embedders.sparse.langchain import LangChainSparseEmbedderDeclaration
from lorebind_knowledge.embedders.sparse.local import (
    LocalSparseEmbedder,
    LocalSparseEmbedderDeclaration,
)
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.embedders.wrapper import make_sparse_embedder as build
from lorebind_knowledge.middleware.tracing import Tracing
from lorebind_knowledge.records import SparseVector
from lorebind_knowledge.testing import SparseEmbedderConformance
from tests.knowledge.hub_server import BM42, SPLADE, hub_server, splade_files
from tests.plugin_project.acme_lore import AcmeSparseEmbedder

pytestmark = pytest.mark.usefixtures("models_run_again")


@pytest.fixture(scope="module")
def local() -> LocalSparseEmbedder:
    """Return the real model, loaded once."""
    return LocalSparseEmbedder()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that models are downloaded to, once for all tests."""
    return tmp_path_factory.mktemp("models")


class TestLocal(SparseEmbedderConformance):
    @pytest.fixture
    def make_embedder(self, tmp_path: Path) -> Callable[[], SparseEmbedder]:
        declared = LocalSparseEmbedderDeclaration(id="s", provider="local")
        return lambda: build(declared, Environment(tmp_path, {}))

    @pytest.fixture
    def embedder(self, local: LocalSparseEmbedder) -> LocalSparseEmbedder:
        return local


@pytest.mark.allow_hosts(["127.0.0.1"])
class TestFastembed(SparseEmbedderConformance):
    """One model with word pieces as terms, and one with hashes of words."""

    @pytest.fixture(params=[SPLADE, BM42])
    def make_embedder(
        self,
        request: pytest.FixtureRequest,
        models: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Callable[[], SparseEmbedder]]:
        declared = FastembedSparseEmbedderDeclaration(
            id="s",
            provider="fastembed",
            model=request.param,
            cache_dir=str(models),
            batch_size=9,
        )
        with hub_server() as server:
            monkeypatch.setenv("HF_ENDPOINT", server.url)
            yield lambda: build(declared, Environment(tmp_path, {}))


class TestLangChain(SparseEmbedderConformance):
    """The class that LangChain has for Qdrant, which calls fastembed."""

    @pytest.fixture
    def make_embedder(self, tmp_path: Path) -> Callable[[], SparseEmbedder]:
        for name, data in splade_files().items():
            (tmp_path / name).write_bytes(data)
        declared = LangChainSparseEmbedderDeclaration.model_validate(
            {
                "id": "s",
                "provider": "langchain",
                "class": "langchain_qdrant:FastEmbedSparse",
                "config": {"model_name": SPLADE, "specific_model_path": str(tmp_path)},
                "batch_size": 9,
                "languages": ["en"],
            }
        )
        return lambda: build(declared, Environment(tmp_path, {}))


class TestPlugged(SparseEmbedderConformance):
    @pytest.fixture
    def make_embedder(self) -> Callable[[], SparseEmbedder]:
        return lambda: AcmeSparseEmbedder("a-key")

    @pytest.fixture
    def secrets(self) -> list[str]:
        return ["a-key"]


class TestWrapped(SparseEmbedderConformance):
    @pytest.fixture
    def make_embedder(self) -> Callable[[], SparseEmbedder]:
        return lambda: Tracing().sparse_embedder(EmbedderWrapper(AcmeSparseEmbedder()))


class _Wrong(SparseEmbedder):
    """Returns vectors that the kit must refuse."""

    def __init__(self, inner: SparseEmbedder, mistake: str) -> None:
        self._inner, self._mistake = inner, mistake
        self._revision = uuid4().hex if mistake == "fingerprint" else ""

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("test", "wrong", self._revision)

    def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        inner: Any = self._inner
        vectors: list[SparseVector] = inner.embed_documents(texts)
        if self._mistake == "order":
            return vectors[::-1]
        if self._mistake == "twice":
            return [SparseVector(v.ids.repeat(2), v.weights.repeat(2)) for v in vectors]
        return vectors

    def embed_query(self, text: str) -> SparseVector:
        return self.embed_documents([text])[0]

    def terms(self, ids: Sequence[int]) -> list[str]:
        return self._inner.terms(ids[:-1]) if self._mistake == "terms" else self._inner.terms(ids)


@pytest.mark.parametrize(
    ("mistake", "test"),
    [
        ("order", "test_a_text_has_one_vector"),
        ("twice", "test_no_term_occurs_twice"),
        ("terms", "test_terms_have_names"),
    ],
)
async def test_the_kit_finds_mistakes(mistake: str, test: str) -> None:
    """An embedder with a mistake fails the test for it, and passes it without the mistake."""
    check = getattr(SparseEmbedderConformance(), test)
    await check(_Wrong(AcmeSparseEmbedder(), ""))
    with pytest.raises(AssertionError):
        await check(_Wrong(AcmeSparseEmbedder(), mistake))


async def test_the_kit_finds_an_unstable_fingerprint() -> None:
    """An embedder with another fingerprint after a restart fails."""
    check = SparseEmbedderConformance().test_the_fingerprint_is_stable
    with pytest.raises(AssertionError):
        await check(lambda: _Wrong(AcmeSparseEmbedder(), "fingerprint"))
