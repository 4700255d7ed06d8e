"""`reindex`: changing the embedder, and the events of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from lorebind_config.errors import (
    EmbedderError,
    IndexMismatchError,
    IngestRefusedError,
    IngestRunningError,
    NotIngestedError,
)

from .bench import Bench, CountingEmbedder, counts, fail_at, fill, paragraph


def another(bench: Bench, revision: str = "2") -> CountingEmbedder:
    """Declare another embedder."""
    bench.embedder = CountingEmbedder(revision=revision, dimension=32)
    bench.change(embedder=bench.embedder)
    return bench.embedder


def heard(bench: Bench, *hooks: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(hook, event.data) for hook, event in bench.diary.entries if hook in hooks]


async def test_another_embedder(bench: Bench) -> None:
    """A query is refused with the command that fixes it; afterwards it gets a result."""
    fill(bench)
    await bench.ingest()
    before = await bench.texts()
    another(bench)
    with pytest.raises(
        IndexMismatchError, match=r"rebuild it with: lorebind knowledge reindex docs$"
    ):
        await bench.ask("word1a")
    report = await bench.reindex()
    assert (report.status, report.strategy) == ("completed", "replace")
    assert (report.documents, report.texts_embedded) == (counts(added=4), 12)
    assert (await bench.ask("word1a", top_k=1)).matches[0].text == paragraph("word1a")
    assert await bench.texts() == before


async def test_unchanged_texts_are_free(bench: Bench) -> None:
    """Every chunk is rebuilt, and cached texts are not embedded again."""
    fill(bench)
    await bench.ingest()
    old, before = bench.entry, await bench.visible()
    bench.embedder.forget()
    report = await bench.reindex()
    assert bench.embedder.batches == []
    assert (report.texts_embedded, report.cache_hits) == (0, 12)
    assert bench.entry != old
    assert await bench.visible() == before


async def test_what_was_lost_is_there_again(bench: Bench) -> None:
    """A reindex restores an index that the store has lost."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    bench.index.store.drop(bench.entry.space)
    await bench.reindex()
    assert await bench.visible() == before


async def test_readers_of_the_old_and_the_new(bench: Bench) -> None:
    """Until the swap, only readers with the old embedder get results; then only the others."""
    fill(bench, 8)
    await bench.ingest()
    everything = await bench.texts()
    old = bench.kb
    another(bench)
    new = bench.kb
    answered = {"old": 0, "new": 0}

    async def look(name: str, kb: Any) -> None:
        from lorebind_config.declarations.retrieval import RetrievalDeclaration
        from lorebind_knowledge.retrieval.search import search

        refused = name == "new"
        while True:
            try:
                hits = await search((kb,), "some more words", RetrievalDeclaration(top_k=50))
            except IndexMismatchError:
                assert refused or name == "old"
                refused = True
            else:
                assert name == "new" or not refused
                assert sorted(match.text for match in hits) == everything
                answered[name] += 1
            await asyncio.sleep(0)

    readers = [asyncio.create_task(look(*pair)) for pair in (("old", old), ("new", new))]

    async def until_answered(name: str) -> None:
        while not answered[name]:
            assert not [reader for reader in readers if reader.done()]
            await asyncio.sleep(0.001)

    await until_answered("old")
    await bench.reindex()
    await until_answered("new")
    for reader in readers:
        assert not reader.done(), reader.exception()
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


async def test_one_that_failed_is_gone_on_with(bench: Bench) -> None:
    """After a failed reindex the old index stays in use, and embedded texts stay cached."""
    fill(bench)
    await bench.ingest()
    old = bench.kb
    embedder = another(bench)

    embedder.before_batch = fail_at(3)
    with pytest.raises(EmbedderError, match="down"):
        await bench.reindex()
    new, bench.kb = bench.kb, old
    assert len((await bench.ask("some more words", top_k=50)).matches) == 12
    bench.kb = new
    embedder.before_batch = lambda _: None
    assert (await bench.reindex()).texts_embedded == 4
    assert len(await bench.visible()) == 12


# Events.


async def test_the_first_index_is_announced_once(bench: Bench) -> None:
    """Only the first index of a knowledge base sends the event `collection_created`."""
    fill(bench)
    await bench.ingest()
    await bench.ingest()
    await bench.reindex()
    another(bench)
    await bench.ingest()
    created = heard(bench, "collection_created")
    assert created == [
        ("collection_created", {"embedder": "counting/bag-of-words", "dimension": 64})
    ]
    assert bench.diary.names()[:2] == ["ingest_started", "collection_created"]


REINDEX = ("reindex_started", "reindex_completed", "reindex_failed")


async def test_it_is_announced(bench: Bench) -> None:
    """The events of a reindex enclose those of the ingest, and name both embedders."""
    fill(bench)
    await bench.reindex()
    bench.diary.entries.clear()
    report = await bench.reindex()
    names = bench.diary.names()
    assert names[:2] == ["reindex_started", "ingest_started"]
    assert names[-2:] == ["ingest_completed", "reindex_completed"]
    assert bench.diary.entries[-1][1].run_id == report.run_id
    name = "counting/bag-of-words"
    about = {"embedder": name, "embedder_before": name}
    assert heard(bench, *REINDEX) == [
        ("reindex_started", about),
        ("reindex_completed", {**about, "report": report}),
    ]


async def test_the_first_one(bench: Bench) -> None:
    """A first reindex has no previous embedder; without documents it fails."""
    bench.diary.content = True
    assert (await bench.reindex()).status == "failed"
    with pytest.raises(NotIngestedError):
        await bench.ask("anything")
    fill(bench)
    assert (await bench.reindex()).documents == counts(added=4)
    data = heard(bench, *REINDEX)
    assert [hook for hook, _ in data] == [*REINDEX[::2], *REINDEX[:2]]
    assert {event["embedder_before"] for _, event in data} == {""}
    assert "docs/**/*.md" in data[1][1]["reason"]


async def test_failures_are_announced(bench: Bench) -> None:
    """An outage, a refusal, and a new index that would lose documents each send their reason."""
    bench.diary.content = True
    fill(bench)
    await bench.ingest()

    def reason() -> str:
        hooks = heard(bench, *REINDEX)
        assert [hook for hook, _ in hooks] == ["reindex_started", "reindex_failed"]
        bench.diary.entries.clear()
        return str(hooks[1][1]["reason"])

    def fail(number: int) -> None:
        raise RuntimeError("overloaded")

    bench.write("new.md", paragraph("new"))
    bench.embedder.before_batch = fail
    with pytest.raises(EmbedderError):
        await bench.reindex()
    assert "overloaded" in reason()
    bench.embedder.before_batch = lambda _: None
    with bench.catalog.lease(bench.kb.namespace):
        with pytest.raises(IngestRunningError):
            await bench.reindex()
        assert "under way" in reason()
    bench.write_bytes("1.md", b"\0\xff")
    assert (await bench.reindex()).status == "completed_with_failures"
    assert "stays in use" in reason()
    for number in range(4):
        bench.remove(f"{number}.md")
    with pytest.raises(IngestRefusedError):
        await bench.reindex()
    assert "--allow-mass-delete" in reason()


async def test_a_bad_document_that_is_new_does_not_stop_it(bench: Bench) -> None:
    """A new document that fails does not prevent the swap."""
    fill(bench)
    await bench.ingest()
    old = bench.entry
    bench.write_bytes("bad.md", b"\0\xff")
    assert (await bench.reindex()).status == "completed_with_failures"
    assert bench.entry != old
    assert bench.diary.names()[-1] == "reindex_completed"


async def test_a_cancelled_one(bench: Bench) -> None:
    """A cancelled reindex reports it, and the old index stays in use."""
    bench.diary.content = True
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    old = bench.entry
    bench.write("new.md", paragraph("new"))
    begun, go_on = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        begun.set()
        go_on.wait(10)

    bench.embedder.before_batch = hold
    task = asyncio.create_task(bench.reindex())
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard(bench, "reindex_failed")[0][1]["reason"] == "cancelled"
    assert (bench.entry, await bench.visible()) == (old, before)
