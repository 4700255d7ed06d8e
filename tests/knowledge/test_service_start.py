"""`ingest: on_start`: a knowledge base is ingested before its first use, and only then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from lorebind_config.errors import IngestRefusedError, NotFoundError, NotIngestedError, SourceError
from lorebind_config.namespace import tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.events import Events
from lorebind_knowledge.plumbing.bridge import run

from .bench import Diary, ingest, paragraph


def _base(kb_id: str, **more: Any) -> dict[str, Any]:
    sources = [{"type": "markdown_glob", "path": "docs/*.md"}]
    chunking = {"size": 64, "overlap": 0}
    return {"id": kb_id, "sources": sources, "chunking": chunking, "ingest": "on_start", **more}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for word in ("alpha", "beta"):
        (tmp_path / "docs" / f"{word}.md").write_text(paragraph(word))
    return tmp_path


@pytest.fixture
async def service(root: Path, diary: Diary) -> AsyncIterator[KnowledgeService]:
    """One knowledge base with `on_start`, one without, and a workflow that declares its own."""
    langchain = {"type": "langchain", "class": f"{__name__}:Regions"}
    data = {
        "name": "support",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": "memory"}],
        "knowledge_bases": [_base("docs"), _base("manual", ingest="manual")],
        "workflows": [
            {
                "id": "triage",
                "input": {"region": {"type": "string"}},
                "vars": {"place": "{{ .workflow.input.region }} side"},
                "knowledge_bases": [
                    _base("docs"),
                    _base(
                        "regions",
                        sources=[langchain | {"config": {"name": "{{ .workflow.input.region }}"}}],
                    ),
                    _base(
                        "places",
                        sources=[langchain | {"config": {"name": "{{ .workflow.vars.place }}"}}],
                    ),
                ],
                "tasks": [{"id": "answer", "prompt": "Answer."}],
            }
        ],
    }
    loaded = build_project(data, root=root)
    service = KnowledgeService(loaded, Events([diary]))  # type: ignore[list-item]  # hears everything
    yield service
    await service.close()


class Regions(BaseLoader):
    """A LangChain document loader of one document, which names its region."""

    def __init__(self, name: str) -> None:
        self._name = name

    def lazy_load(self) -> Iterator[Document]:
        yield Document(paragraph(self._name), metadata={"source": "region.txt"})


async def _texts(service: KnowledgeService, kb_id: str, **scope: Any) -> set[str]:
    return {match.text for match in await service.open(kb_id, **scope).query("some more words")}


BOTH = {paragraph("alpha"), paragraph("beta")}


async def test_the_first_query_ingests(service: KnowledgeService, diary: Diary, root: Path) -> None:
    """The first query ingests once per service; later changes are not seen."""
    assert await _texts(service, "docs") == BOTH
    (root / "docs" / "gamma.md").write_text(paragraph("gamma"))
    assert await _texts(service, "docs") == BOTH
    assert diary.names().count("ingest_started") == 1
    with pytest.raises(NotIngestedError):
        await _texts(service, "manual")


async def test_what_is_there_is_brought_up_to_date(
    service: KnowledgeService, diary: Diary, root: Path
) -> None:
    """An earlier ingest is reused, and only changes are embedded."""
    await ingest(service.open("docs").corpus())
    (root / "docs" / "gamma.md").write_text(paragraph("gamma"))
    assert await _texts(service, "docs") == BOTH | {paragraph("gamma")}
    assert [data["report"].texts_embedded for data in diary.data("ingest_completed")] == [2, 1]


async def test_many_first_queries_ingest_once(service: KnowledgeService, diary: Diary) -> None:
    """Twenty concurrent queries wait for one ingest, and all find its documents."""
    answers = await asyncio.gather(*(_texts(service, "docs") for _ in range(20)))
    assert answers == [BOTH] * 20
    assert diary.names().count("ingest_started") == 1


async def test_many_threads_ingest_once(service: KnowledgeService, diary: Diary) -> None:
    """Concurrent threads wait for one ingest, whichever event loops they use."""
    ready = threading.Barrier(8)

    def ask(number: int) -> set[str]:
        ready.wait(10)
        texts = _texts(service, "docs")
        return asyncio.run(texts) if number % 2 else run(texts)

    def ask_all() -> list[set[str]]:
        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(ask, range(8)))

    assert await asyncio.to_thread(ask_all) == [BOTH] * 8
    assert diary.names().count("ingest_started") == 1


async def test_a_failure_is_raised_and_tried_again(
    service: KnowledgeService, root: Path, diary: Diary
) -> None:
    """All waiting queries fail with the ingest's error; the next query tries again."""
    docs = service.open("docs")
    await ingest(docs.corpus())
    (root / "docs").rename(root / "away")
    (root / "docs").mkdir()
    (root / "docs" / "other.md").write_text(paragraph("other"))
    queries = [docs.query("alpha") for _ in range(5)]
    failures = await asyncio.gather(*queries, return_exceptions=True)
    assert {type(failure) for failure in failures} == {IngestRefusedError}
    with pytest.raises(IngestRefusedError):
        await docs.query("alpha")
    (root / "docs" / "other.md").unlink()
    (root / "docs").rmdir()
    (root / "away").rename(root / "docs")
    assert await _texts(service, "docs") == BOTH
    assert diary.names().count("ingest_started") == 4


async def test_tenants_and_scopes_start_apart(service: KnowledgeService, diary: Diary) -> None:
    """Each tenant, and each scope with the same id, ingests its own index."""
    await service.open("docs").query("alpha")
    with tenant("acme"):
        assert await _texts(service, "docs") == BOTH
        assert await _texts(service, "docs") == BOTH
    assert await _texts(service, "docs", workflow="triage") == BOTH
    assert diary.names().count("ingest_started") == 3


async def test_a_workflow_gives_its_inputs(service: KnowledgeService, diary: Diary) -> None:
    """Sources that name inputs are ingested again for other inputs, and not for the same ones."""
    for region, count in (("north", 1), ("north", 1), ("south", 2)):
        scopes = {"input": {"region": region}, "vars": {"place": f"{region} side"}}
        await service.open("regions", "triage").start(scopes)
        texts = await _texts(service, "regions", workflow="triage")
        assert texts == {paragraph(region)}
        assert diary.names().count("ingest_started") == count
    scopes = {"input": {"region": "x"}, "vars": {"place": "x side"}}
    await service.open("places", "triage").start(scopes)
    assert await _texts(service, "places", workflow="triage") == {paragraph("x side")}


async def test_inputs_that_no_source_names_are_no_reason(
    service: KnowledgeService, diary: Diary
) -> None:
    """Inputs that no source names do not cause another ingest."""
    for region in ("north", "south"):
        for kb_id in ("docs", "places"):
            scopes = {"input": {"region": region}, "vars": {"place": "here"}}
            await service.open(kb_id, "triage").start(scopes)
    started = [event.kb_id for hook, event in diary.entries if hook == "ingest_started"]
    assert started == ["docs", "places"]


async def test_after_a_close_it_starts_again(service: KnowledgeService, diary: Diary) -> None:
    """After closing, data in memory is lost and is ingested again."""
    await service.open("docs").query("alpha")
    await service.close()
    assert await _texts(service, "docs") == BOTH
    assert diary.names().count("ingest_started") == 2


async def test_sources_that_cannot_be_read_are_a_failure(
    service: KnowledgeService, diary: Diary
) -> None:
    """A report with the status `failed` is raised with its reasons; the next call tries again."""
    lacking: dict[str, Any] = {"input": {}, "vars": {}}
    for _ in range(2):
        with pytest.raises(SourceError, match=r"'regions' cannot be .*workflow.input.region \}\}"):
            await service.open("regions", "triage").start(lacking)
    assert diary.names().count("ingest_started") == 2
    scopes = {"input": {"region": "north"}, "vars": {}}
    await service.open("regions", "triage").start(scopes)
    texts = await _texts(service, "regions", workflow="triage")
    assert texts == {paragraph("north")}


async def test_what_only_a_run_knows_is_left_to_it(service: KnowledgeService, diary: Diary) -> None:
    """A search does not ingest sources that name a run's inputs, but finds what a run ingested."""
    for kb_id in ("regions", "places"):
        with pytest.raises(NotIngestedError):
            await service.open(kb_id, "triage").query("anything")
    assert "ingest_started" not in diary.names()
    scopes = {"input": {"region": "north"}, "vars": {"place": "north side"}}
    await service.open("places", "triage").start(scopes)
    assert await _texts(service, "places", workflow="triage") == {paragraph("north side")}


async def test_start_does_nothing_where_nothing_is_declared(
    service: KnowledgeService, diary: Diary
) -> None:
    """A manual knowledge base is not ingested; an unknown one is an error."""
    await service.open("manual").start()
    assert diary.entries == []
    with pytest.raises(NotFoundError, match="'docz'"):
        await service.open("docz").start()
