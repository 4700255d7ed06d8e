"""The built-in embedders pass the conformance kit that ships for all embedders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.templates import Environment
from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.embedders.fastembed import FastembedEmbedderDeclaration
from lorebind_knowledge.embedders.hashing import HashingEmbedderDeclaration
from lorebind_knowledge.embedders.langchain import LangChainEmbedderDeclaration
from lorebind_knowledge.embedders.local import LocalEmbedder, LocalEmbedderDeclaration
from lorebind_knowledge.embedders.openai import OpenAIEmbedderDeclaration
from lorebind_knowledge.embedders.wrapper import make_embedder as build
from lorebind_knowledge.testing import EmbedderConformance
from tests.knowledge.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.knowledge.hub_server import EMBEDDER, MULTILINGUAL, OWN, hub_server

pytestmark = pytest.mark.usefixtures("models_run_again")


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    """Return the real model, loaded once."""
    return LocalEmbedder()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that models are downloaded to, once for all tests."""
    return tmp_path_factory.mktemp("models")


class TestLocal(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self, tmp_path: Path) -> Callable[[], Embedder]:
        declared = LocalEmbedderDeclaration(id="e", provider="local")
        return lambda: build(declared, Environment(tmp_path, {}))

    @pytest.fixture
    def embedder(self, local: LocalEmbedder) -> LocalEmbedder:
        return local


class TestHashing(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self, tmp_path: Path) -> Callable[[], Embedder]:
        config: Any = {"batch_size": 16}
        declared = HashingEmbedderDeclaration(id="e", provider="hashing", config=config)
        return lambda: build(declared, Environment(tmp_path, {}))


@pytest.mark.allow_hosts(["127.0.0.1"])
class TestOpenAI(EmbedderConformance):
    @pytest.fixture
    def server(self) -> Iterator[EmbeddingServer]:
        with embedding_server() as server:
            yield server

    @pytest.fixture
    def secrets(self) -> list[str]:
        return [KEY, "hunter2"]

    @pytest.fixture
    def make_embedder(self, server: EmbeddingServer, tmp_path: Path) -> Callable[[], Embedder]:
        config: Any = {
            "base_url": server.url.replace("//", "//me:hunter2@"),
            "dimension": 24,
            "batch_size": 7,
        }
        declared = OpenAIEmbedderDeclaration(
            id="e", provider="openai", api_key="{{ .env.MY_KEY }}", config=config
        )
        return lambda: build(declared, Environment(tmp_path, {"MY_KEY": KEY}))


class TestLangChain(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self, tmp_path: Path) -> Callable[[], Embedder]:
        declared = LangChainEmbedderDeclaration.model_validate(
            {
                "id": "e",
                "provider": "langchain",
                "class": "langchain_core.embeddings:DeterministicFakeEmbedding",
                "config": {"size": 12},
                "batch_size": 9,
            }
        )
        return lambda: build(declared, Environment(tmp_path, {}))


@pytest.mark.allow_hosts(["127.0.0.1"])
class TestFastembed(EmbedderConformance):
    """Models that fastembed lists, one of them with prefixes for questions, and a custom model."""

    @pytest.fixture(
        params=[
            {"model": EMBEDDER},
            {"model": MULTILINGUAL},
            {"model": OWN, "file": "deep/model.onnx"},
        ]
    )
    def settings(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        settings: dict[str, Any] = request.param
        return settings

    @pytest.fixture
    def make_embedder(
        self,
        settings: dict[str, Any],
        models: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Callable[[], Embedder]]:
        declared = FastembedEmbedderDeclaration(
            id="e", provider="fastembed", cache_dir=str(models), batch_size=9, **settings
        )
        with hub_server() as server:
            monkeypatch.setenv("HF_ENDPOINT", server.url)
            yield lambda: build(declared, Environment(tmp_path, {}))
