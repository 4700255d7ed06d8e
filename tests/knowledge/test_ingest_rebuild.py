"""A new index built beside the one in use, and the switch to it."""

from __future__ import annotations

import shutil

import pytest

from lorebind_knowledge import bridge
from lorebind_knowledge.errors import (
    EmbedderError,
    IndexMismatchError,
    StoreError,
)

from .bench import Bench, CountingEmbedder, chunk_counts, counts, fill, paragraph, two_sources


async def test_replace_serves_the_old_until_the_new_is_complete(bench: Bench) -> None:
    """During a replace searches find the old index whole; then the new one, and the old is gone."""
    fill(bench)
    await bench.ingest()
    old, before = bench.index, await bench.visible()
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
    assert bench.index != old
    assert await bench.texts() == [paragraph(f"fresh{number}") for number in range(4)]
    with pytest.raises(StoreError):
        bench.store.count(old)
    assert bench.catalog.ledger.retired_indexes(bench.kb.namespace) == []


async def test_replace_embeds_nothing_twice(bench: Bench) -> None:
    """Unchanged texts come from the cache when the index is built anew."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    report = await bench.ingest(strategy="replace")
    assert (report.texts_embedded, report.cache_hits) == (0, 12)
    assert await bench.visible() == before


async def test_replace_that_would_lose_a_document(bench: Bench) -> None:
    """Where a served document fails the old index stays in use, with a notice; mending ends it."""
    fill(bench)
    await bench.ingest()
    old, before = bench.index, await bench.visible()
    bench.write_bytes("2.md", b"\0\xff")
    report = await bench.ingest(strategy="replace")
    assert report.status == "completed_with_failures"
    assert "stays in use" in report.notices[0]
    assert (bench.index, await bench.visible()) == (old, before)
    bench.write("2.md", paragraph("mended"))
    bench.embedder.forget()
    report = await bench.ingest(strategy="replace")
    assert (report.status, report.notices) == ("completed", [])
    assert len(bench.embedder.texts) == 1
    assert bench.index != old
    assert len(await bench.visible()) == 10


async def test_replace_with_a_failing_source(bench: Bench) -> None:
    """A source that cannot be read keeps the old index in use."""
    fill(bench)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    await bench.ingest()
    old = bench.index
    shutil.rmtree(bench.root / "more")
    report = await bench.ingest(strategy="replace")
    assert (report.status, bench.index) == ("completed_with_failures", old)
    assert paragraph("more") in await bench.texts()


async def test_another_embedder(bench: Bench) -> None:
    """Vectors of two embedders are never mixed: queries say what to do, an ingest does it."""
    fill(bench)
    await bench.ingest()
    old = bench.index
    bench.embedder = CountingEmbedder(revision="2", dimension=32)
    bench.change(embedder=bench.embedder)
    with pytest.raises(IndexMismatchError, match="lorebind knowledge ingest docs"):
        await bench.ask("word1a")
    report = await bench.ingest()
    assert (report.documents, report.texts_embedded) == (counts(added=4), 12)
    assert bench.index != old
    assert (await bench.ask("word1a", top_k=1)).matches[0].text == paragraph("word1a")
    with pytest.raises(StoreError):
        bench.store.count(old)


async def test_a_rebuild_that_was_interrupted(bench: Bench) -> None:
    """A successor that was begun is gone on with; one of yet another embedder is thrown away."""
    fill(bench)
    await bench.ingest()
    for revision, spent in (("2", 4), ("3", 4), ("3", 8)):
        bench.embedder = CountingEmbedder(revision=revision)
        bench.change(embedder=bench.embedder)
        if spent == 4:

            def fail(number: int) -> None:
                if number == 2:
                    raise RuntimeError("down")

            bench.embedder.before_batch = fail
            with pytest.raises(EmbedderError):
                await bench.ingest()
        else:
            assert (await bench.ingest()).texts_embedded == spent
    assert len(await bench.visible()) == 12
    assert bench.catalog.ledger.index(bench.kb.namespace, "building") is None
