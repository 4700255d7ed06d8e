"""A project's knowledge bases and collections as LangChain `VectorStore`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from lorebind_config.errors import IndexMismatchError, NotFoundError, NotIngestedError, UsageError
from lorebind_config.namespace import tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.plumbing import bridge
from lorebind_knowledge.records import Partition
from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore
from lorebind_knowledge.service import KnowledgeService

from .bench import Bench, fill, ingest, paragraph


def service(root: Path, dimension: int = 64) -> KnowledgeService:
    """Return a project with one knowledge base `docs` over `docs/*.md`."""
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs" / "a.md").write_text("# Keys\n\nRotate the keys.\n")
    declared: dict[str, Any] = {
        "name": "shop",
        "embedders": [
            {"id": "words", "provider": "hashing", "config": {"dimension": dimension}},
            {"id": "more", "provider": "hashing", "config": {"dimension": 32}},
        ],
        "vector_dbs": [{"id": "file", "type": "sqlite"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}
        ],
    }
    return KnowledgeService(build_project(declared, root=root, environ={}))


async def test_a_knowledge_base_is_searched(bench: Bench) -> None:
    """The nearest passages come by cosine with their metadata; filters are Lorebind's."""
    fill(bench)
    await bench.ingest()
    searched = KnowledgeBaseVectorStore(bench.index, lambda: bench.kb)
    hits = await searched.asimilarity_search_with_score(paragraph("word2b"), k=3)
    expected = await bench.ask(paragraph("word2b"), strategy="similarity", top_k=3)
    assert [(document.id, score) for document, score in hits] == [
        (match.id, match.score) for match in expected
    ]
    best, _ = hits[0]
    assert best.page_content == paragraph("word2b")
    assert (best.metadata["kb_id"], best.metadata["uri"]) == ("docs", "docs/2.md")
    other = await searched.asimilarity_search("word2b", filter={"uri": "docs/1.md"})
    assert {document.metadata["uri"] for document in other} == {"docs/1.md"}
    assert await searched.aget_by_ids([best.id or ""]) == [best]
    assert best in await searched.amax_marginal_relevance_search(paragraph("word2b"), k=3)


async def test_a_knowledge_base_is_not_written(bench: Bench) -> None:
    """Adding and deleting are refused with an alternative, since an ingest would undo them."""
    fill(bench)
    await bench.ingest()
    before = await bench.texts()
    searched = KnowledgeBaseVectorStore(bench.index, lambda: bench.kb)
    with pytest.raises(UsageError, match=r"'docs' come from its sources.*a collection"):
        searched.add_documents([Document("by hand")])
    with pytest.raises(UsageError, match="sources"):
        await searched.adelete()
    assert await bench.texts() == before


async def test_nothing_ingested(bench: Bench) -> None:
    """Without an ingest, the error names the command, as for every search."""
    with pytest.raises(NotIngestedError, match="lorebind knowledge ingest docs"):
        await KnowledgeBaseVectorStore(bench.index, lambda: bench.kb).asimilarity_search("word")


async def test_a_reindex_meanwhile(
    make_bench: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is replaced between its lookup and its search is looked up again."""
    bench = make_bench("sqlite")
    fill(bench)
    await bench.ingest()
    plain = type(bench.index.store).nearest
    numbers = []

    def late(store: Any, space: Partition, *arguments: Any) -> Any:
        numbers.append(space.index.number)
        if len(numbers) == 1:
            bridge.run(bench.ingest(strategy="replace"))
        return plain(store, space, *arguments)

    monkeypatch.setattr(type(bench.index.store), "nearest", late)
    hits = await KnowledgeBaseVectorStore(bench.index, lambda: bench.kb).asimilarity_search(
        paragraph("word1a"), k=1
    )
    assert [document.page_content for document in hits] == [paragraph("word1a")]
    assert numbers == [1, 2]


async def test_an_ingest_leaves_a_collection_alone(tmp_path: Path) -> None:
    """A collection and a knowledge base with the same name in the same file are independent."""
    first = service(tmp_path)
    collection = first.collection("docs")
    await collection.aadd_texts(["by hand"], ids=["1"])
    docs = first.open("docs")
    await ingest(docs.corpus(), strategy="replace")
    (tmp_path / "docs" / "a.md").write_text("# Other\n\nSnow.\n")
    report = await ingest(docs.corpus())
    assert report.documents["removed"] == 0
    assert await collection.aget_by_ids(["1"]) == [Document("by hand", id="1")]
    searched = docs.vector_store()
    assert [hit.metadata["title"] for hit in await searched.asimilarity_search("hand")] == ["Other"]
    await collection.adelete()
    assert len(await searched.asimilarity_search("snow")) == 1
    await first.close()


async def test_collections_are_kept(tmp_path: Path) -> None:
    """Collections outlive the process, and are separate per project, tenant and name."""
    project = service(tmp_path)
    await project.collection("notes").aadd_texts(["kept"], ids=["1"])
    await project.close()
    project = service(tmp_path)
    assert [hit.id for hit in await project.collection("notes").asimilarity_search("x")] == ["1"]
    assert await project.collection("others").asimilarity_search("x") == []
    with tenant("acme"):
        assert await project.collection("notes").asimilarity_search("x") == []
    await project.close()


async def test_another_embedder_is_refused(tmp_path: Path) -> None:
    """Vectors of two embedders never mix in one collection, even with equal dimensions."""
    project = service(tmp_path)
    await project.collection("notes").aadd_texts(["one"])
    with pytest.raises(IndexMismatchError, match="'notes' was created with the embedder hashing"):
        await project.collection("notes", embedder="more").asimilarity_search("x")
    with pytest.raises(NotFoundError, match="'nothing'"):
        project.collection("notes", embedder="nothing")
    with pytest.raises(UsageError, match="the embedder makes none"):
        project.collection("notes", embedder="none")
    await project.close()


async def test_failing_stores_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is raised without a second attempt."""
    fill(bench, 1)
    await bench.ingest()
    calls = []

    def broken(store: Any, *arguments: Any) -> Any:
        calls.append(arguments)
        raise OSError("the disk is gone")

    monkeypatch.setattr(type(bench.index.store), "nearest", broken)
    with pytest.raises(OSError, match="gone"):
        await KnowledgeBaseVectorStore(bench.index, lambda: bench.kb).asimilarity_search("word")
    assert len(calls) == 1
