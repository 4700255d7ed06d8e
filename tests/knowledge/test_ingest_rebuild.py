"""Rebuilding an index in the background, and swapping it in."""

from __future__ import annotations

import shutil

import pytest

from lorebind_config.errors import EmbedderError, IndexMismatchError, StoreError
from lorebind_knowledge.catalog.indexes import IndexEntry
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.plumbing import bridge
from lorebind_knowledge.records import Partition

from .bench import (
    Bench,
    CountingEmbedder,
    chunk_counts,
    counts,
    fail_at,
    fill,
    paragraph,
    two_sources,
)


async def test_replace_serves_the_old_until_the_new_is_complete(bench: Bench) -> None:
    """During a replace, searches use the complete old index; afterwards, only the new one."""
    fill(bench)
    await bench.ingest()
    old, before = bench.entry, await bench.visible()
    for number in range(4):
        bench.write(f"{number}.md", paragraph(f"fresh{number}"))
    seen: list[bool] = []
    bench.embedder.before_batch = lambda _: seen.append(bridge.run(bench.visible()) == before)
    bench.embedder.forget()
    bench.embedder.batch_size = 1
    report = await bench.ingest(strategy="replace")
    assert seen == [True] * 4
    assert report.documents == counts(added=4)
    assert report.chunks == chunk_counts(added=4, total=4)
    assert bench.entry != old
    assert await bench.texts() == [paragraph(f"fresh{number}") for number in range(4)]
    assert dropped(bench, old)
    assert bench.catalog.ledger.retired_indexes(bench.kb.namespace) == []


async def test_replace_embeds_nothing_twice(bench: Bench) -> None:
    """A rebuild takes the vectors of unchanged texts from the cache."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    report = await bench.ingest(strategy="replace")
    assert (report.texts_embedded, report.cache_hits) == (0, 12)
    assert await bench.visible() == before


async def test_replace_that_would_lose_a_document(bench: Bench) -> None:
    """If a document fails, the old index stays in use with a notice, until it is fixed."""
    fill(bench)
    await bench.ingest()
    old, before = bench.entry, await bench.visible()
    bench.write_bytes("2.md", b"\0\xff")
    report = await bench.ingest(strategy="replace")
    assert report.status == "completed_with_failures"
    assert "stays in use" in report.notices[0]
    assert (bench.entry, await bench.visible()) == (old, before)
    bench.write("2.md", paragraph("mended"))
    bench.embedder.forget()
    report = await bench.ingest(strategy="replace")
    assert (report.status, report.notices) == ("completed", [])
    assert len(bench.embedder.texts) == 1
    assert bench.entry != old
    assert len(await bench.visible()) == 10


async def test_replace_with_a_failing_source(bench: Bench) -> None:
    """If a source cannot be read, the old index stays in use."""
    fill(bench)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    await bench.ingest()
    old = bench.entry
    shutil.rmtree(bench.root / "more")
    report = await bench.ingest(strategy="replace")
    assert (report.status, bench.entry) == ("completed_with_failures", old)
    assert paragraph("more") in await bench.texts()


async def test_another_embedder(bench: Bench) -> None:
    """Vectors of two embedders never mix: queries fail with advice, and an ingest rebuilds."""
    fill(bench)
    await bench.ingest()
    old = bench.entry
    bench.embedder = CountingEmbedder(revision="2", dimension=32)
    bench.change(embedder=bench.embedder)
    with pytest.raises(IndexMismatchError, match="lorebind knowledge reindex docs"):
        await bench.ask("word1a")
    report = await bench.ingest()
    assert (report.documents, report.texts_embedded) == (counts(added=4), 12)
    assert bench.entry != old
    assert (await bench.ask("word1a", top_k=1)).matches[0].text == paragraph("word1a")
    assert dropped(bench, old)


async def test_a_rebuild_that_was_interrupted(bench: Bench) -> None:
    """An unfinished successor is resumed; one of a third embedder is dropped."""
    fill(bench)
    await bench.ingest()
    for revision, spent in (("2", 4), ("3", 4), ("3", 8)):
        bench.embedder = CountingEmbedder(revision=revision)
        bench.change(embedder=bench.embedder)
        if spent == 4:
            bench.embedder.before_batch = fail_at(2)
            with pytest.raises(EmbedderError):
                await bench.ingest()
        else:
            assert (await bench.ingest()).texts_embedded == spent
    assert len(await bench.visible()) == 12
    assert bench.catalog.ledger.index(bench.kb.namespace, "building") is None


async def leave_successor(bench: Bench) -> IndexEntry:
    """Leave a successor that waits for a document to be fixed, next to a current active index."""
    fill(bench)
    await bench.ingest()
    bench.write_bytes("2.md", b"\0\xff")
    assert (await bench.ingest(strategy="replace")).status == "completed_with_failures"
    bench.write("2.md", *(paragraph(f"word2{part}") for part in "abc"))
    entry = begun(bench)
    assert entry is not None
    assert bench.index.store.count(entry.space) == 9
    return entry


def begun(bench: Bench) -> IndexEntry | None:
    return bench.catalog.ledger.index(bench.kb.namespace, "building")


def dropped(bench: Bench, entry: IndexEntry) -> bool:
    """Return whether neither the catalog nor the store has any data of an index."""
    ledger = bench.catalog.ledger
    indexes = [bench.entry, begun(bench), *ledger.retired_indexes(bench.kb.namespace)]
    assert entry.index_uid not in [index.index_uid for index in indexes if index is not None]
    assert bench.index.store.count(entry.space) == 0
    assert bench.index.uris(entry) == []
    return ledger.documents(entry.key) == {}


async def test_a_successor_is_gone_on_with(bench: Bench) -> None:
    """The next replace resumes the unfinished successor."""
    successor = await leave_successor(bench)
    report = await bench.ingest(strategy="replace")
    assert (report.documents, report.texts_embedded) == (counts(added=1, unchanged=3), 0)
    assert bench.entry.key == successor.key
    assert len(await bench.visible()) == 12


@pytest.mark.parametrize("failing", [False, True])
async def test_an_abandoned_successor(bench: Bench, failing: bool) -> None:
    """An upsert drops an unfinished successor, even if a document fails; vectors stay cached."""
    successor = await leave_successor(bench)
    old, before = bench.entry, await bench.visible()
    if failing:
        bench.write_bytes("3.md", b"\0\xff")
    report = await bench.ingest()
    assert report.status == ("completed_with_failures" if failing else "completed")
    assert dropped(bench, successor)
    assert (bench.entry, await bench.visible()) == (old, before)
    fill(bench)
    report = await bench.ingest(strategy="replace")
    assert (report.documents, report.texts_embedded) == (counts(added=4), 0)
    assert bench.entry != old


async def test_a_change_of_the_embedder_that_is_taken_back(bench: Bench) -> None:
    """After a reverted change of the embedder, the next ingest drops the unfinished index."""
    fill(bench)
    await bench.ingest()
    first, old = bench.embedder, bench.entry

    bench.embedder = CountingEmbedder(revision="2")
    bench.embedder.before_batch = fail_at(2)
    bench.change(embedder=bench.embedder)
    with pytest.raises(EmbedderError):
        await bench.ingest()
    successor = begun(bench)
    assert successor is not None
    bench.change(embedder=first)
    assert (await bench.ingest()).documents == counts(unchanged=4)
    assert dropped(bench, successor)
    assert bench.entry == old


async def test_a_successor_that_is_kept(bench: Bench) -> None:
    """A failed run, or one that reads only failed documents, keeps an unfinished successor."""
    successor = await leave_successor(bench)
    assert (await bench.ingest(only_failed=True)).status == "completed"
    assert begun(bench) == successor
    (bench.root / "docs").rename(bench.root / "away")
    assert (await bench.ingest()).status == "failed"
    assert begun(bench) == successor
    (bench.root / "away").rename(bench.root / "docs")
    assert (await bench.ingest(strategy="replace")).documents == counts(added=1, unchanged=3)


async def test_a_successor_that_was_half_dropped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partly dropped successor is never resumed; the next run drops the rest of it."""
    successor = await leave_successor(bench)

    def drop(space: Partition) -> None:
        real(space)
        raise StoreError("cut off")

    real = bench.index.store.drop
    with monkeypatch.context() as patch:
        patch.setattr(bench.index.store, "drop", drop)
        with pytest.raises(StoreError, match="cut off"):
            await bench.ingest()
    await bench.ingest(strategy="replace")
    assert dropped(bench, successor)
    assert len(await bench.visible()) == 12


async def test_a_first_ingest_that_was_cut_off_before_it_could_be_searched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next ingest activates the first index, even if it finds every document done."""
    fill(bench, 1)

    def cut_off(*_: object) -> None:
        raise StoreError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "activate_index", cut_off)
        with pytest.raises(StoreError, match="cut off"):
            await bench.ingest()
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(unchanged=1))
    assert len(await bench.ask("word0a")) == 3
