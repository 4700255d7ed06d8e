"""Lost vectors of a vector database: questions report them, and the next ingest restores them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lorebind_config.errors import StoreError
from lorebind_config.namespace import COLLECTION_SCOPE
from lorebind_knowledge.collection import LorebindVectorStore
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.index.view import View
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.sqlite import SqliteStore

from .bench import Bench, chunk_counts, counts, fill, paragraph


def numbers(bench: Bench) -> list[int]:
    """Return the numbers of all vectors that searches find."""

    def read(view: View) -> list[int]:
        numbers: list[int] = view.rows()[1].tolist()
        return numbers

    return bench.index.read(bench.kb.namespace, read)


def some(bench: Bench) -> int:
    """Return every second vector."""
    lost = numbers(bench)[::2]
    bench.index.store.delete(bench.entry.space, lost)
    return len(lost)


def all_of_an_index(bench: Bench) -> int:
    bench.index.store.drop(bench.entry.space)
    return 12


def another_store(bench: Bench) -> int:
    """Replace the database with a new one, and keep the catalog."""
    if isinstance(bench.index.store, MemoryStore):
        bench.index = Index(MemoryStore(), bench.catalog)
    else:
        bench.index = Index(SqliteStore(bench.root / "another.db"), bench.catalog)
    bench.change(index=bench.index)
    return 12


LOSSES: list[Callable[[Bench], int]] = [some, all_of_an_index, another_store]


def forget_embeddings(bench: Bench) -> None:
    with bench.catalog._database.writing() as sql:
        sql.run("delete from catalog_embeddings")


async def check_whole(bench: Bench) -> None:
    """Check that the store has all vectors of the catalog, and that questions find the nearest."""
    assert bench.index.compare(bench.entry, deep=True)[:2] == (12, [])
    assert bench.index.store.count(bench.entry.space) == 12
    for word in ("word0a", "word1b", "word3c"):
        (match,) = (await bench.ask(word, strategy="similarity", top_k=1)).matches
        assert match.text == paragraph(word)


@pytest.mark.parametrize("strategy", ["similarity", "hybrid", "mmr"])
@pytest.mark.parametrize("lose", LOSSES)
async def test_questions_say_what_to_do(
    bench: Bench, lose: Callable[[Bench], int], strategy: str
) -> None:
    """With lost vectors, a question is an error with their number and the command to run."""
    fill(bench)
    await bench.ingest()
    lost = lose(bench)
    with pytest.raises(StoreError, match=r"lost .* with: lorebind knowledge ingest docs$") as error:
        await bench.ask("some more words", strategy=strategy, top_k=12)
    if strategy == "similarity":
        assert f"lost {lost} of the 12 vectors" in str(error.value)


@pytest.mark.parametrize("lose", LOSSES)
async def test_an_ingest_restores_them(bench: Bench, lose: Callable[[Bench], int]) -> None:
    """An ingest restores vectors from the cache, changes no document, and reports it."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    lost = lose(bench)
    bench.embedder.forget()
    report = await bench.ingest()
    assert report.documents == counts(unchanged=4)
    assert report.chunks == chunk_counts(unchanged=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (0, lost)
    assert bench.embedder.batches == []
    (notice,) = report.notices
    assert f"had lost {lost} of 12 vectors; they have been restored" in notice
    assert await bench.visible() == before
    await check_whole(bench)
    assert (await bench.ingest()).notices == []


@pytest.mark.parametrize("lose", LOSSES)
async def test_with_an_empty_cache(bench: Bench, lose: Callable[[Bench], int]) -> None:
    """With an empty cache, lost vectors are embedded again, each once, in batches."""
    fill(bench)
    await bench.ingest()
    lost = lose(bench)
    forget_embeddings(bench)
    bench.embedder.forget()
    report = await bench.ingest()
    assert (report.texts_embedded, report.cache_hits) == (lost, 0)
    assert len(bench.embedder.texts) == lost
    assert max(map(len, bench.embedder.batches)) <= bench.embedder.batch_size
    await check_whole(bench)


async def test_edits_and_losses_at_once(bench: Bench) -> None:
    """An ingest applies edits and removals, and restores lost vectors."""
    fill(bench)
    await bench.ingest()
    all_of_an_index(bench)
    bench.write("1.md", paragraph("word1a"), paragraph("new"))
    bench.remove("2.md")
    report = await bench.ingest()
    assert (report.documents, report.texts_embedded) == (
        counts(updated=1, removed=1, unchanged=2),
        1,
    )
    assert paragraph("new") in await bench.texts()
    assert bench.index.compare(bench.entry, deep=True)[:2] == (8, [])
    assert bench.index.store.count(bench.entry.space) == 8


async def test_reading_only_what_failed(bench: Bench) -> None:
    """An ingest with `only_failed` restores lost vectors too."""
    fill(bench)
    await bench.ingest()
    some(bench)
    report = await bench.ingest(only_failed=True)
    assert "they have been restored" in report.notices[0]
    await check_whole(bench)


async def test_a_successor_that_lost_some(bench: Bench) -> None:
    """A resumed rebuild is complete when it is swapped in."""
    fill(bench)
    await bench.ingest()
    bench.write_bytes("2.md", b"\0\xff")
    await bench.ingest(strategy="replace")
    begun = bench.catalog.ledger.index(bench.kb.namespace, "building")
    assert begun is not None
    bench.index.store.drop(begun.space)
    bench.write("2.md", *(paragraph(f"word2{part}") for part in "abc"))
    report = await bench.ingest(strategy="replace")
    assert "had lost 9 of 9 vectors" in report.notices[0]
    assert bench.entry.index_uid == begun.index_uid
    await check_whole(bench)


async def test_more_than_was_lost(bench: Bench) -> None:
    """Unknown vectors do not hide lost ones from the count."""
    fill(bench)
    await bench.ingest()
    stray = np.eye(64, dtype=np.float32)
    space = bench.entry.space
    strangers = [StoredVector(1000 + n, stray[n], "", {}) for n in range(20)]
    lost = some(bench)
    bench.index.store.add(space, strangers)
    with pytest.raises(StoreError, match="lorebind knowledge ingest docs"):
        await bench.ask("some more words", strategy="similarity", top_k=12)
    report = await bench.ingest()
    assert f"had lost {lost} of 12 vectors" in report.notices[0]
    assert len((await bench.ask("word1a", strategy="similarity", top_k=12)).matches) == 12


async def test_a_database_that_cannot_count(make_bench: Callable[[str], Bench]) -> None:
    """A sample of vectors detects that a database was emptied."""

    class Uncounted(MemoryStore):
        def count(self, space: Partition) -> None:  # type: ignore[override]  # a store may
            return None

    bench = make_bench("memory")
    bench.index.store = Uncounted()
    fill(bench, 10)
    await bench.ingest()
    all_of_an_index(bench)
    report = await bench.ingest()
    assert "had lost 30 of 30 vectors" in report.notices[0]
    assert bench.index.compare(bench.entry, deep=True)[:2] == (30, [])


async def test_a_workflows_knowledge_base(bench: Bench) -> None:
    """The suggested command ingests this knowledge base of a workflow."""
    bench.change(namespace=replace(bench.kb.namespace, scope="workflow/triage"))
    fill(bench)
    await bench.ingest()
    all_of_an_index(bench)
    with pytest.raises(StoreError, match=r"lorebind knowledge ingest docs --workflow triage$"):
        await bench.ask("word1a")


async def test_documents_that_were_added_by_hand(bench: Bench) -> None:
    """No ingest restores documents of a collection: the error suggests adding them again."""
    namespace = replace(bench.kb.namespace, scope=COLLECTION_SCOPE)
    collection = LorebindVectorStore(bench.index, bench.embedder, namespace)
    collection.add_texts(["one", "two"], ids=["1", "2"])
    entry = bench.catalog.ledger.index(namespace, "active")
    assert entry is not None
    bench.index.store.drop(entry.space)
    with pytest.raises(StoreError, match=r"lost 2 .*; delete its documents and add them again$"):
        collection.similarity_search("one")
    collection.delete()
    collection.add_texts(["one", "two"], ids=["1", "2"])
    assert [hit.page_content for hit in collection.similarity_search("one")] == ["one", "two"]
