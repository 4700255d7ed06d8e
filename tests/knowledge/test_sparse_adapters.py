"""Sparse embedders that call LangChain's classes or fastembed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_qdrant.sparse_embeddings import SparseEmbeddings
from langchain_qdrant.sparse_embeddings import SparseVector as Theirs

from lorebind_config.errors import ConfigurationError, EmbedderError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder, embed_documents, embed_query
from lorebind_knowledge.hub_models.snapshot import NotDownloadedError, without_downloads

from .hub_server import BM42, SPLADE, HubServer
from .onnx_models import PIECES


class Lengths(SparseEmbeddings):
    """A class of LangChain's interface that fails as often as `failures` says."""

    calls = 0

    def __init__(self, failures: int = 0, api_key: str = "") -> None:
        self.failures, self.api_key = failures, api_key

    def embed_documents(self, texts: list[str]) -> list[Theirs]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Theirs:
        Lengths.calls += 1
        if Lengths.calls <= self.failures:
            raise ConnectionResetError(f"no connection with {self.api_key}")
        words = text.split()
        return Theirs(indices=[2**32 - 1, *map(len, words)], values=[0.5, *[1.0] * len(words)])


class Plain:
    """The same interface without its base class and without async methods."""

    def embed_documents(self, texts: list[str]) -> list[Any]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        class Found:
            indices = np.array([3], dtype=np.uint32)
            values = np.array([len(text)])

        return Found()


def declared(root: Path, provider: str, environ: Any = None, **settings: Any) -> SparseEmbedder:
    data = {
        "name": "p",
        "sparse_embedders": [{"id": "s", "provider": provider, **settings}],
        "knowledge_bases": [{"id": "docs", "sparse": "s"}],
    }
    loaded = build_project(data, root=root, environ=environ or {})
    sparse = KnowledgeService(loaded).open("docs").kb.sparse
    assert sparse is not None
    return sparse


async def test_langchain_class(tmp_path: Path) -> None:
    """Indices and values become terms; the highest bit of an index is dropped."""
    embedder = declared(tmp_path, "langchain", **{"class": f"{__name__}:Lengths"})
    first, second = await embed_documents(embedder, ["to be or", ""])
    assert (first.ids.tolist(), first.weights.tolist()) == ([2, 2**31 - 1], [3, 0.5])
    assert second.ids.tolist() == [2**31 - 1]
    assert (await embed_query(embedder, "be")).ids.tolist() == [2, 2**31 - 1]
    assert embedder.languages is None
    assert embedder.terms([2, 5]) == ["", ""]


async def test_an_object_without_async_methods(tmp_path: Path) -> None:
    """Two methods suffice; languages are declared."""
    settings = {"class": f"{__name__}:Plain", "languages": ["de", "fr"]}
    embedder = declared(tmp_path, "langchain", **settings)
    assert (await embed_query(embedder, "four")).weights.tolist() == [4]
    assert embedder.languages == {"de", "fr"}


async def test_a_live_object(tmp_path: Path) -> None:
    """A program can pass an object instead of a class."""
    embedder = declared(tmp_path, "langchain", **{"class": Plain()})
    assert (await embed_query(embedder, "four")).weights.tolist() == [4]
    with pytest.raises(EmbedderError, match="expected a class with the methods of LangChain's Sp"):
        declared(tmp_path, "langchain", **{"class": Theirs(indices=[], values=[])})


async def test_retries_and_secrets(tmp_path: Path) -> None:
    """Transient failures are retried as declared; the last one is shown without the key."""
    settings: dict[str, Any] = {
        "class": f"{__name__}:Lengths",
        "api_key": "{{ .env.KEY }}",
        "retry": {"attempts": 3, "backoff_ms": 0},
        "config": {"failures": 2},
    }
    Lengths.calls = 0
    embedder = declared(tmp_path, "langchain", {"KEY": "sk-secret"}, **settings)
    assert len(await embed_query(embedder, "to be")) == 2
    Lengths.calls, settings["config"] = 0, {"failures": 3}
    embedder = declared(tmp_path, "langchain", {"KEY": "sk-secret"}, **settings)
    with pytest.raises(EmbedderError, match="gave up after 3 attempts") as error:
        await embed_query(embedder, "to be")
    assert "sk-secret" not in str(error.value)
    assert "sk-secret" not in repr(embedder.fingerprint)


def test_langchain_class_of_another_kind(tmp_path: Path) -> None:
    """A class without the methods is refused, and so is a literal key."""
    with pytest.raises(EmbedderError, match="expected a class with the methods of LangChain's Sp"):
        declared(tmp_path, "langchain", **{"class": f"{__name__}:HubServer"})
    settings = {"class": f"{__name__}:Lengths", "languages": ["en", "English"]}
    with pytest.raises(ConfigurationError, match="'English' is not a language code; expected ISO"):
        declared(tmp_path, "langchain", **settings)
    with pytest.raises(ConfigurationError, match="api_key holds a literal value"):
        declared(tmp_path, "langchain", **{"class": f"{__name__}:Lengths", "api_key": "sk"})


def test_settings_of_the_class_are_its_identity(tmp_path: Path) -> None:
    """Another class or other arguments are another embedder."""
    keys = {
        declared(tmp_path, "langchain", **settings).fingerprint.key
        for settings in [
            {"class": f"{__name__}:Lengths"},
            {"class": f"{__name__}:Plain"},
            {"class": f"{__name__}:Lengths", "config": {"failures": 1}},
            {"class": f"{__name__}:Lengths"},
        ]
    }
    assert len(keys) == 3


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_fastembed_splade(hub: HubServer, tmp_path: Path) -> None:
    """The terms of a SPLADE model are its word pieces, and have their names."""
    embedder = declared(tmp_path, "fastembed", model=SPLADE, cache_dir="models")
    (vector,) = await embed_documents(embedder, ["rotate keys"])
    assert sorted(embedder.terms(vector.ids.tolist())) == ["[CLS]", "[SEP]", "keys", "rotate"]
    assert embedder.terms([len(PIECES)]) == [""]
    assert embedder.languages == {"en"}
    assert hub.downloads()[-1] == "model.onnx"
    again = declared(tmp_path, "fastembed", model=SPLADE, cache_dir="models")
    assert again.fingerprint == embedder.fingerprint
    assert "Splade_PP_en_v1@" in embedder.fingerprint.revision


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_fastembed_bm42(hub: HubServer, tmp_path: Path) -> None:
    """The terms of BM42 are hashes of stems, without names; it skips stop words."""
    embedder = declared(tmp_path, "fastembed", model=BM42, cache_dir="models")
    (passage, empty) = await embed_documents(embedder, ["the keys rotate", "the"])
    question = await embed_query(embedder, "rotate the key")
    assert question.ids.tolist() == passage.ids.tolist()
    assert question.weights.tolist() == [1, 1]
    assert len(empty) == 0
    assert embedder.terms(passage.ids.tolist()) == ["", ""]


@pytest.mark.parametrize("model", ["acme/none", "Qdrant/bm25"])
def test_fastembed_models_that_are_not_listed(model: str, tmp_path: Path) -> None:
    """Other models are refused with the known ones; BM25 is no model."""
    with pytest.raises(EmbedderError, match=r"does not list the model .*Qdrant/bm42"):
        declared(tmp_path, "fastembed", model=model)


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_fastembed_without_a_download(hub: HubServer, tmp_path: Path) -> None:
    """Where downloads are not allowed, a missing model is an error with the command for it."""
    embedder = declared(tmp_path, "fastembed", model=SPLADE, cache_dir="models")
    with without_downloads(), pytest.raises(NotDownloadedError, match="hf download Qdrant/Splade"):
        await embed_query(embedder, "text")
    assert hub.downloads() == []
