"""The service: declared knowledge bases, their visibility, and what it opens and closes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import NotFoundError, NotIngestedError
from lorebind_config.namespace import tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.documents.listing import knowledge_stats, list_chunks
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.events import Events
from lorebind_knowledge.ingest.reindexing import reindex

from .bench import Diary, counts, ingest, paragraph, plan


def _base(kb_id: str, folder: str, **more: Any) -> dict[str, Any]:
    sources = [{"type": "markdown_glob", "path": f"{folder}/**/*.md"}]
    return {"id": kb_id, "sources": sources, "chunking": {"size": 64, "overlap": 0}, **more}


def _write(root: Path, folder: str, *words: str) -> None:
    (root / folder).mkdir(exist_ok=True)
    for word in words:
        (root / folder / f"{word}.md").write_text(paragraph(word))


@pytest.fixture(params=["memory", "sqlite"])
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, diary: Diary
) -> AsyncIterator[KnowledgeService]:
    """Two knowledge bases in one store, and a workflow that declares one with the same id."""
    _write(tmp_path, "guides", "alpha", "beta")
    _write(tmp_path, "policies", "gamma")
    _write(tmp_path, "private", "omega")
    data = {
        "name": "support",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": request.param}],
        "knowledge_bases": [
            _base("guides", "guides", retrieval={"top_k": 9}, metadata={"tags": ["howto"]}),
            _base("policies", "policies"),
        ],
        "workflows": [
            {
                "id": "triage",
                "knowledge_bases": [_base("guides", "private")],
                "tasks": [{"id": "answer", "prompt": "Answer."}],
            },
            {"id": "other", "tasks": [{"id": "answer", "prompt": "Answer."}]},
        ],
    }
    loaded = build_project(data, root=tmp_path)
    service = KnowledgeService(loaded, Events([diary]))  # type: ignore[list-item]  # hears everything
    yield service
    await service.close()


async def _texts(service: KnowledgeService, kb_id: str, **scope: Any) -> set[str]:
    return {match.text for match in await service.open(kb_id, **scope).query("some more words")}


async def test_ingest_and_query(service: KnowledgeService) -> None:
    """A declared knowledge base is ingested and searched with its declared settings."""
    guides = service.open("guides")
    planned = await plan(guides.corpus(embeds=False))
    report = await ingest(guides.corpus())
    assert planned.documents == report.documents == counts(added=2)
    result = await guides.query("alpha")
    assert [match.text for match in result] == [paragraph("alpha"), paragraph("beta")]
    assert result.matches[0].metadata["tags"] == ["howto"]
    again = await ingest(guides.corpus(), strategy="replace", allow_mass_delete=True)
    assert (again.strategy, again.texts_embedded) == ("replace", 0)


async def test_the_cost_of_a_plan(tmp_path: Path) -> None:
    """A plan contains a cost if the embedder declares a price, computed from that price."""
    _write(tmp_path, "guides", "alpha", "beta")
    paid = {
        "id": "paid",
        "provider": "langchain",
        "class": "langchain_core.embeddings:DeterministicFakeEmbedding",
        "config": {"size": 8},
        "price_per_million_tokens": 500_000,
    }
    data = {
        "name": "support",
        "embedders": [paid, {"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": "memory"}],
        "knowledge_bases": [
            _base("charged", "guides", embedder="paid"),
            _base("free", "guides", embedder="words"),
        ],
    }
    service = KnowledgeService(build_project(data, root=tmp_path))
    charged, free = (
        await plan(service.open("charged").corpus(embeds=False)),
        await plan(service.open("free").corpus(embeds=False)),
    )
    assert charged.tokens_to_embed == free.tokens_to_embed > 0
    assert (charged.cost, free.cost) == (charged.tokens_to_embed / 2, None)
    await ingest(service.open("charged").corpus())
    assert (await plan(service.open("charged").corpus(embeds=False))).cost == 0
    assert (await plan(service.open("charged").corpus(embeds=False), strategy="replace")).cost == 0
    await service.close()


async def test_a_plan_that_cuts_otherwise(tmp_path: Path) -> None:
    """A plan calls no embedder, so a semantic chunker estimates; the ingest chunks as usual."""
    texts = [" ".join(f"{word}{number} goes here." for number in range(60)) for word in "abc"]
    data = {
        "name": "x",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": "memory"}],
        "knowledge_bases": [
            {
                "id": name,
                "sources": [{"type": "file_glob", "path": "a.md"}],
                "chunking": {
                    "strategy": "semantic",
                    "semantic": {"min_tokens": 20, "max_tokens": 100},
                },
            }
            for name in ("planned", "alone")
        ],
    }
    (tmp_path / "a.md").write_text("\n".join(texts))
    service = KnowledgeService(build_project(data, root=tmp_path))
    planned, alone = service.open("planned"), service.open("alone")
    await ingest(planned.corpus(), plan=await plan(planned.corpus(embeds=False)))
    await ingest(alone.corpus())
    texts_of = [
        [chunk.text for chunk in list_chunks(kb.namespace, kb.index.catalog, "a.md")]
        for kb in (planned, alone)
    ]
    assert texts_of[0] == texts_of[1]
    assert (await plan(planned.corpus(embeds=False))).documents == counts(unchanged=1)
    await service.close()


async def test_reindex(service: KnowledgeService, diary: Diary) -> None:
    """A declared knowledge base is rebuilt, also one of a workflow."""
    for workflow in (None, "triage"):
        await ingest(service.open("guides", workflow).corpus())
        before = await _texts(service, "guides", workflow=workflow)
        report = await reindex(service.open("guides", workflow).corpus())
        assert (report.strategy, report.texts_embedded) == ("replace", 0)
        assert await _texts(service, "guides", workflow=workflow) == before
    assert diary.names().count("reindex_completed") == 2


async def test_unknown_knowledge_base(service: KnowledgeService) -> None:
    """An unknown id is refused, with the nearest and all known ids."""
    with pytest.raises(NotFoundError, match="did you mean 'policies'; known: guides, policies"):
        service.open("polices")
    with pytest.raises(NotFoundError, match="no workflow 'triag'; did you mean 'triage'"):
        service.open("guides", "triag")


async def test_two_in_one_file(service: KnowledgeService) -> None:
    """Knowledge bases that share a store do not see each other's documents."""
    await ingest(service.open("guides").corpus())
    policies = service.open("policies")
    with pytest.raises(NotIngestedError):
        await policies.query("alpha")
    await ingest(policies.corpus())
    assert await _texts(service, "policies") == {paragraph("gamma")}
    assert await _texts(service, "guides") == {paragraph("alpha"), paragraph("beta")}


async def test_tenants(service: KnowledgeService, tmp_path: Path) -> None:
    """Tenants of one project do not see each other's documents, and share cached embeddings."""
    guides = service.open("guides")
    await ingest(guides.corpus())
    with tenant("acme"):
        with pytest.raises(NotIngestedError):
            await guides.query("alpha")
        _write(tmp_path, "guides", "acme")
        report = await ingest(guides.corpus())
        assert (report.documents, report.texts_embedded) == (counts(added=3), 1)
        assert paragraph("acme") in await _texts(service, "guides")
        assert (await guides.read(knowledge_stats)).chunks == 3
    assert await _texts(service, "guides") == {paragraph("alpha"), paragraph("beta")}
    assert (await guides.read(knowledge_stats)).chunks == 2


async def test_tenants_at_once(service: KnowledgeService) -> None:
    """Concurrent calls of different tenants each use their own data."""

    guides = service.open("guides")

    async def work(name: str) -> str:
        with tenant(name):
            await ingest(guides.corpus())
            await asyncio.sleep(0)
            return guides.kb.namespace.tenant

    names = [f"t{number}" for number in range(5)]
    assert await asyncio.gather(*map(work, names)) == names
    with pytest.raises(NotIngestedError):
        await guides.query("alpha")


async def test_a_workflows_own(service: KnowledgeService) -> None:
    """A workflow's knowledge base shadows the project's with the same id without changing it."""
    await ingest(service.open("guides", "triage").corpus())
    assert await _texts(service, "guides", workflow="triage") == {paragraph("omega")}
    for scope in ({}, {"workflow": "other"}):
        with pytest.raises(NotIngestedError):
            await service.open("guides", **scope).query("omega")
    await ingest(service.open("guides").corpus())
    both = {paragraph("alpha"), paragraph("beta")}
    assert await _texts(service, "guides") == both
    assert await _texts(service, "guides", workflow="other") == both
    assert await _texts(service, "guides", workflow="triage") == {paragraph("omega")}
    scopes = [service.open("guides", name).kb.namespace.scope for name in ("triage", None)]
    assert scopes == ["workflow/triage", "project"]
    await ingest(service.open("policies", "triage").corpus())
    assert await _texts(service, "policies") == {paragraph("gamma")}


async def test_stats(service: KnowledgeService, tmp_path: Path) -> None:
    """Counts follow the ledger; before the first ingest they are 0, and no file is created."""
    guides = service.open("guides")
    before = await guides.read(knowledge_stats)
    assert (sum(before.documents.values()), before.chunks, before.last_run) == (0, 0, None)
    assert not (tmp_path / ".lorebind").exists()
    (tmp_path / "guides" / "bad.md").write_bytes(b"\0\xff")
    report = await ingest(guides.corpus())
    stats = await guides.read(knowledge_stats)
    counted = {"ready": 2, "pending": 0, "failed": 1}
    assert (stats.kb_id, stats.documents, stats.chunks) == ("guides", counted, 2)
    assert (stats.embedder, stats.dimension) == ("hashing/bag-of-words", 256)
    assert stats.last_run is not None
    assert stats.last_run["run_id"] == report.run_id
    assert stats.last_run["status"] == "completed_with_failures"


async def test_close_and_use_again(service: KnowledgeService, diary: Diary) -> None:
    """Closing releases everything and sends an event; a later call opens it again."""
    guides = service.open("guides")
    await ingest(guides.corpus())
    before = guides.kb
    await service.close()
    assert diary.names()[-1] == "shutdown"
    report = await ingest(guides.corpus())
    assert guides.kb.index is not before.index
    lasting = type(before.index.store).__name__ == "SqliteStore"
    assert report.documents == (counts(unchanged=2) if lasting else counts(added=2))
    assert len(await _texts(service, "guides")) == 2
    await service.close()
    await service.close()


async def test_parts_are_shared(service: KnowledgeService) -> None:
    """All knowledge bases and threads share one index and one embedder."""
    ready = threading.Barrier(8)

    def make(number: int) -> tuple[int, int]:
        ready.wait(5)
        kb = service.open("guides" if number % 2 else "policies").kb
        assert isinstance(kb.embedder, EmbedderWrapper)  # it sends events for each knowledge base
        return id(kb.index), id(kb.embedder.inner)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(make, range(8)))) == 1


async def test_events_name_their_knowledge_base(service: KnowledgeService, diary: Diary) -> None:
    """Every event names its knowledge base."""
    await ingest(service.open("guides").corpus())
    policies = service.open("policies")
    await ingest(policies.corpus())
    await policies.query("gamma")
    seen = [(hook, event.kb_id) for hook, event in diary.entries]
    assert seen[0] == ("ingest_started", "guides")
    assert seen[-1] == ("retrieval_completed", "policies")
    assert {kb_id for _, kb_id in seen} == {"guides", "policies"}
