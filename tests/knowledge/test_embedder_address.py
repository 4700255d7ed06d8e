"""An embedder at a new address: the same model keeps its index; other models' vectors never mix."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import EmbedderError, IngestRefusedError
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.embedders.langchain import LangChainEmbedder
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.memory import MemoryStore

from .bench import Bench, counts, fill
from .embedding_server import (
    EmbeddingServer,
    Reply,
    embeddings,
    openai_embedder,
    refusal,
    serving,
    vector_of,
)

pytest.importorskip("langchain_openai")
pytestmark = pytest.mark.enable_socket


class AnotherModel(EmbeddingServer):
    """A different model under the same name, with other vectors."""

    def answer(self, body: dict[str, Any]) -> Reply:
        if self.replies:
            return self.replies.popleft()
        vectors = [vector_of(f"another {text}", 8) for text in body["input"]]
        return Reply(body=embeddings(vectors, body.get("encoding_format", "float")))


class WithoutVectors(MemoryStore):
    """A store that does not return vectors, so that the catalog stores a copy of each."""

    returns_vectors = False

    def get(self, space: Partition, numbers: Collection[int]) -> dict[int, Any]:
        return dict.fromkeys(super().get(space, numbers))


@pytest.fixture
def first() -> Iterator[EmbeddingServer]:
    with serving(EmbeddingServer()) as server:
        yield server


@pytest.fixture
def same() -> Iterator[EmbeddingServer]:
    with serving(EmbeddingServer()) as server:
        yield server


@pytest.fixture
def another() -> Iterator[EmbeddingServer]:
    with serving(AnotherModel()) as server:
        yield server


@pytest.fixture(params=[MemoryStore, WithoutVectors])
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, catalog: Catalog, first: EmbeddingServer
) -> Bench:
    """Return a bench with four documents, ingested at the first address."""
    bench = Bench(tmp_path, lambda: (request.param(), catalog))
    fill(bench)
    move(bench, first)
    asyncio.run(bench.ingest())
    return bench


def move(bench: Bench, server: EmbeddingServer) -> None:
    bench.change(embedder=openai_embedder(server, batch_size=4))


async def test_the_same_model(bench: Bench, same: EmbeddingServer) -> None:
    """A few texts are compared once; the index stays in use."""
    before, old = await bench.visible(), bench.entry
    move(bench, same)
    (notice,) = (await bench.ask("word1a")).notices
    assert "may serve another model; check it with: lorebind knowledge ingest docs" in notice
    (planned,) = (await bench.plan()).notices
    assert "has changed since the last ingest" in planned
    report = await bench.ingest()
    assert (report.documents, report.notices) == (counts(unchanged=4), [])
    assert same.batches == [1, 3]  # the question, and the sample
    assert (bench.entry.key, await bench.visible()) == (old.key, before)
    assert (await bench.ask("word1a")).notices == []
    same.bodies.clear()
    assert (await bench.plan()).notices == []
    assert (await bench.ingest()).texts_embedded == 0
    assert same.batches == []


async def test_another_model(
    bench: Bench, first: EmbeddingServer, another: EmbeddingServer
) -> None:
    """A new index is built without any vectors of the old one, and the report says why."""
    old = bench.entry
    move(bench, another)
    report = await bench.ingest()
    assert (report.documents, report.texts_embedded) == (counts(added=4), 12)
    assert "has vectors that openai/small no longer makes at its new address" in report.notices[0]
    assert bench.entry.index_uid != old.index_uid
    text = bench.index.sample(bench.entry, 1)[0][0]
    best = (await bench.ask(text, strategy="similarity", top_k=1)).matches[0]
    assert best.score == pytest.approx(1)
    # The cache still has the vectors from the first address.
    first.bodies.clear()
    move(bench, first)
    report = await bench.ingest()
    assert (report.documents, report.cache_hits) == (counts(added=4), 15)
    assert first.batches == [1]  # to learn the dimension


async def test_a_change_is_cut_off(bench: Bench, another: EmbeddingServer) -> None:
    """The old index serves until the new one is complete, and the next ingest resumes that."""
    before = await bench.visible()
    move(bench, another)
    sample, dimension = (Reply(body=embeddings([[1.0] * 8] * count)) for count in (3, 1))
    another.replies.extend([sample, dimension, refusal(401, "no")])
    with pytest.raises(EmbedderError):
        await bench.ingest()
    assert await bench.visible() == before
    begun = bench.catalog.ledger.index(bench.kb.namespace, "building")
    assert begun is not None
    assert (await bench.ingest()).documents["added"] == 4
    assert bench.entry.key == begun.key


async def test_only_some_documents(bench: Bench, another: EmbeddingServer) -> None:
    """An ingest of only some documents is refused, since it would mix vectors."""
    move(bench, another)
    with pytest.raises(IngestRefusedError, match="has vectors that openai/small no longer makes"):
        await bench.ingest(only_failed=True)


def openai_object(server: EmbeddingServer) -> Any:
    from langchain_openai import OpenAIEmbeddings

    return OpenAIEmbeddings(model="small", api_key="x", base_url=server.url)  # type: ignore[arg-type]


def test_where_an_object_asks(first: EmbeddingServer, same: EmbeddingServer) -> None:
    """A LangChain object's address is recognized, and is not readable in what is stored."""
    here, there, again = (
        LangChainEmbedder(openai_object(server)).fingerprint for server in (first, same, first)
    )
    assert here == there
    assert here.address == again.address != there.address
    assert str(first.server_port) not in here.address
    hidden = openai_embedder(first, base_url="https://me:hunter2@h/v1").fingerprint
    assert hidden.address == openai_embedder(first, base_url="https://h/v1").fingerprint.address
