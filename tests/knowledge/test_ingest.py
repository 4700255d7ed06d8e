"""Ingestion: exact, safe, guarded, accountable and planned, on both embedded stores."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lorebind_knowledge import bridge
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.errors import (
    EmbedderError,
    IndexMismatchError,
    IngestRefusedError,
    IngestRunningError,
    NotIngestedError,
    StoreError,
    UsageError,
)
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.records import SearchOptions
from lorebind_knowledge.sources.files import FileSource
from lorebind_knowledge.stores import MemoryStore

from .bench import Bench, CountingEmbedder, chunk_counts, counts, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable


def fill(bench: Bench, documents: int = 4) -> None:
    """Documents `0.md` onwards, each with three chunks."""
    for number in range(documents):
        bench.write(f"{number}.md", *(paragraph(f"word{number}{part}") for part in "abc"))


async def fresh(bench: Bench, make_bench: Callable[[str], Bench]) -> list[Any]:
    """What an ingest of the same files into an empty project makes visible."""
    other = make_bench("memory")
    shutil.copytree(bench.root / "docs", other.root / "docs", symlinks=True)
    other.change(chunker=bench.kb.chunker, metadata=bench.kb.metadata)
    await other.ingest()
    return await other.visible()


# Exact.


async def test_first_run(bench: Bench) -> None:
    """The first run adds every document and chunk and embeds each text once."""
    fill(bench)
    report = await bench.ingest()
    assert (report.status, report.strategy, report.kb_id) == ("completed", "upsert", "docs")
    assert report.documents == counts(added=4)
    assert report.chunks == chunk_counts(added=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (12, 0)
    assert len(bench.embedder.texts) == 12
    assert len(await bench.visible()) == 12
    assert max(map(len, bench.embedder.batches)) == bench.embedder.batch_size


async def test_second_run(bench: Bench) -> None:
    """A run over unchanged files does nothing, and never calls the embedder."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    bench.embedder.forget()
    report = await bench.ingest()
    assert report.documents == counts(unchanged=4)
    assert report.chunks == chunk_counts(unchanged=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (0, 0)
    assert bench.embedder.batches == bench.embedder.questions == []
    assert await bench.visible() == before


async def test_one_paragraph(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Of an edited file only the changed passage is embedded, and the old one is gone."""
    fill(bench, 20)
    await bench.ingest()
    before = {match.id for match in await bench.visible()}
    bench.embedder.forget()
    bench.write("7.md", paragraph("word7a"), paragraph("new"), paragraph("word7c"))
    report = await bench.ingest()
    assert bench.embedder.texts == [f"7\n{paragraph('new')}"]
    assert report.documents == counts(updated=1, unchanged=19)
    assert report.chunks == chunk_counts(added=1, removed=1, unchanged=59, total=60)
    assert (report.texts_embedded, report.cache_hits) == (1, 2)
    after = await bench.visible()
    assert len({match.id for match in after} - before) == 1
    assert paragraph("word7b") not in [match.text for match in after]
    assert after == await fresh(bench, make_bench)


async def test_text_inserted_above(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Text that only moves down keeps its ids and gets its new place."""
    fill(bench)
    await bench.ingest()
    before = {match.id for match in await bench.visible()}
    bench.write("2.md", paragraph("top"), *(paragraph(f"word2{part}") for part in "abc"))
    report = await bench.ingest()
    assert report.texts_embedded == 1
    after = await bench.visible()
    assert before < {match.id for match in after}
    assert after == await fresh(bench, make_bench)


async def test_removed_file(bench: Bench) -> None:
    """The chunks of a removed file go, and nothing else does."""
    fill(bench)
    await bench.ingest()
    bench.remove("1.md")
    bench.diary.entries.clear()
    report = await bench.ingest()
    assert report.documents == counts(removed=1, unchanged=3)
    assert report.chunks == chunk_counts(removed=3, unchanged=9, total=9)
    assert {match.metadata["uri"] for match in await bench.visible()} == {
        "docs/0.md",
        "docs/2.md",
        "docs/3.md",
    }
    assert bench.diary.data("document_deleted") == [{"uri": "docs/1.md"}]


async def test_moved_file(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """A file under another folder, its own title kept, is not embedded again."""
    fill(bench)
    bench.write("old.md", "# Its title", paragraph("moving"))
    await bench.ingest()
    bench.embedder.forget()
    bench.write("keep.md", paragraph("keep"))
    bench.move("old.md", "deep/new.md")
    report = await bench.ingest()
    assert report.documents == counts(added=2, removed=1, unchanged=4)
    assert bench.embedder.texts == [f"keep\n{paragraph('keep')}"]
    assert await bench.visible() == await fresh(bench, make_bench)


async def test_duplicate_texts(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Equal texts are embedded once, stored each, and told apart by document and ordinal."""
    title = "---\ntitle: Same\n---"
    same = (title, paragraph("twice"), paragraph("twice"), paragraph("once"))
    bench.write("a.md", *same)
    bench.write("b.md", *same)
    report = await bench.ingest()
    visible = await bench.visible()
    assert len(visible) == report.chunks["total"] == len({match.id for match in visible})
    assert Counter(match.text for match in visible)[paragraph("twice")] == 4
    assert len(bench.embedder.texts) == len(set(bench.embedder.texts)) == report.texts_embedded
    bench.write("a.md", title, paragraph("twice"), paragraph("once"))
    report = await bench.ingest()
    assert report.texts_embedded == 0
    assert report.chunks["removed"] == 1
    assert await bench.visible() == await fresh(bench, make_bench)


async def test_metadata_alone(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """New metadata of the knowledge base reach every chunk without embedding anything."""
    fill(bench)
    await bench.ingest()
    bench.change(metadata={"tags": ["guide"], "level": 2})
    bench.embedder.forget()
    report = await bench.ingest()
    assert report.documents == counts(updated=4)
    assert report.chunks == chunk_counts(unchanged=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (0, 12)
    assert bench.embedder.batches == []
    visible = await bench.visible()
    assert all(match.metadata["tags"] == ["guide"] for match in visible)
    assert visible == await fresh(bench, make_bench)
    assert len((await bench.ask("word1a", filters={"level": 3})).matches) == 0
    assert (await bench.ingest()).documents == counts(unchanged=4)


async def test_chunk_size(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Another chunk size cuts everything anew, and leaves nothing of the old cut."""
    fill(bench)
    await bench.ingest()
    bench.change(chunker=RecursiveChunker(200, 0))
    report = await bench.ingest()
    assert report.documents == counts(updated=4)
    assert report.chunks == chunk_counts(added=4, removed=12, total=4)
    assert await bench.visible() == await fresh(bench, make_bench)
    bench.change(chunker=RecursiveChunker(64, 0))
    assert (await bench.ingest()).texts_embedded == 0


async def test_what_a_match_tells(bench: Bench) -> None:
    """A match carries its knowledge base, uri, title, headings and the exact place of its text."""
    text = f"---\ntitle: Guide\n---\n# One\n\n## Two\n\n{paragraph('target')}\n"
    bench.write("a.md", text)
    await bench.ingest()
    (match,) = (await bench.ask("target", top_k=1)).matches
    metadata = match.metadata
    assert text[metadata["start"] : metadata["end"]] == match.text
    assert match.text == paragraph("target")
    assert {key: metadata[key] for key in ("kb_id", "uri", "title", "heading")} == {
        "kb_id": "docs",
        "uri": "docs/a.md",
        "title": "Guide",
        "heading": "One > Two",
    }
    assert (metadata["line_start"], metadata["line_end"]) == (8, 8)
    assert f"Guide > One > Two\n{match.text}" in bench.embedder.texts


# Accountable.


async def test_one_bad_file(bench: Bench) -> None:
    """A file that is no text fails alone, is tried again, and its old version serves on."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    bench.write_bytes("2.md", b"caf\0\xe9")
    bench.write("3.md", paragraph("edited"))
    for attempt in (1, 2):
        report = await bench.ingest()
        assert report.status == "completed_with_failures"
        assert report.documents["failed"] == 1
        (failure,) = report.failures
        assert (failure.uri, failure.attempts) == ("docs/2.md", attempt)
        assert "looks like a binary file" in failure.reason
        entry = bench.catalog.ledger.documents(bench.index)["docs/2.md"]
        assert (entry.state, entry.reason, entry.attempts) == ("failed", failure.reason, attempt)
        assert report.chunks["total"] == len(await bench.visible()) == 10
    served = [match for match in await bench.visible() if match.metadata["uri"] == "docs/2.md"]
    assert served == [match for match in before if match.metadata["uri"] == "docs/2.md"]
    bench.write("2.md", paragraph("mended"))
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(updated=1, unchanged=3))
    entry = bench.catalog.ledger.documents(bench.index)["docs/2.md"]
    assert (entry.state, entry.reason, entry.attempts) == ("ready", "", 0)
    assert paragraph("mended") in await bench.texts()
    assert len(await bench.visible()) == 8


async def test_a_bad_file_that_was_never_good(bench: Bench) -> None:
    """A document that failed from the start has no chunks, and goes when its file goes."""
    fill(bench)
    bench.write_bytes("bad.md", b"\0\xff")
    report = await bench.ingest()
    assert report.documents == counts(added=4, failed=1)
    bench.remove("bad.md")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(removed=1, unchanged=4))
    assert report.chunks["removed"] == 0


async def test_a_bad_file_restored(bench: Bench) -> None:
    """A file that failed and is then as it was before costs no embedding."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    good = (bench.root / "docs" / "2.md").read_bytes()
    bench.write_bytes("2.md", b"\0\xff")
    await bench.ingest()
    bench.write_bytes("2.md", good)
    report = await bench.ingest()
    assert (report.status, report.texts_embedded) == ("completed", 0)
    assert bench.catalog.ledger.documents(bench.index)["docs/2.md"].state == "ready"
    assert await bench.visible() == before


async def test_empty_files(bench: Bench) -> None:
    """An empty file is a document without chunks; one that becomes empty loses its own."""
    fill(bench)
    bench.write("empty.md", "")
    bench.write("blank.md", " \n\n\t")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(added=6))
    bench.write("2.md", "")
    report = await bench.ingest()
    assert report.documents == counts(updated=1, unchanged=5)
    assert report.chunks == chunk_counts(removed=3, unchanged=9, total=9)
    assert len(await bench.visible()) == 9
    assert (await bench.ingest()).documents == counts(unchanged=6)


async def test_front_matter_cannot_break_a_run(bench: Bench) -> None:
    """A file whose front matter makes the YAML parser stumble is text, and the run goes on."""
    fill(bench)
    bench.write_bytes("odd.md", b"---\na: !!bool maybe\n---\nbody")
    bench.write_bytes("deep.md", b"---\na: " + b"[" * 1200 + b"\n---\nbody")
    assert (await bench.ingest()).status == "completed"


# Guarded.


def two_sources(bench: Bench, second: str = "more/*.md") -> None:
    bench.change(
        sources=[
            FileSource("markdown_glob", ["docs/**/*.md"], bench.root),
            FileSource("markdown_glob", [second], bench.root),
        ]
    )


async def test_a_failing_source_deletes_nothing(bench: Bench) -> None:
    """What came from a source that suddenly lists nothing stays, and the status says so."""
    fill(bench, 8)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    report = await bench.ingest()
    assert [(source.status, source.documents) for source in report.sources] == [
        ("ok", 8),
        ("ok", 1),
    ]
    (bench.root / "more" / "x.md").unlink()
    bench.remove("0.md")
    report = await bench.ingest()
    assert report.status == "completed_with_failures"
    assert report.documents["removed"] == 1
    assert [source.status for source in report.sources] == ["ok", "failed"]
    assert "no file" in report.sources[1].reason
    assert paragraph("more") in await bench.texts()


async def test_a_mistyped_pattern_deletes_nothing(bench: Bench) -> None:
    """A source declared anew that lists nothing does not cost what the former one held."""
    fill(bench, 8)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    await bench.ingest()
    two_sources(bench, "mroe/*.md")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed_with_failures", counts(unchanged=8))
    assert paragraph("more") in await bench.texts()
    two_sources(bench, "more/**/*.md")
    assert (await bench.ingest()).documents == counts(unchanged=9)


async def test_a_source_that_is_no_longer_declared(bench: Bench) -> None:
    """The documents of a source that was taken out go with it."""
    fill(bench, 8)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    await bench.ingest()
    bench.change(sources=bench.kb.sources[:1])
    assert (await bench.ingest()).documents == counts(removed=1, unchanged=8)


async def test_all_sources_failing(bench: Bench) -> None:
    """When no source can be read the run has failed, and everything serves on."""
    fill(bench)
    await bench.ingest()
    shutil.rmtree(bench.root / "docs")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("failed", counts())
    assert len(await bench.visible()) == 12


async def test_a_first_run_that_fails_serves_nothing(bench: Bench) -> None:
    """Before the first document is there, a question is told so instead of finding nothing."""
    assert (await bench.ingest()).status == "failed"
    with pytest.raises(NotIngestedError, match="run: lorebind knowledge ingest docs"):
        await bench.ask("anything")
    fill(bench)
    assert (await bench.ingest()).status == "completed"
    assert len(await bench.ask("one")) > 0


@pytest.mark.parametrize("strategy", ["upsert", "replace"])
async def test_mass_delete(bench: Bench, strategy: str) -> None:
    """More than half of the documents go only when that is allowed; half goes as it is."""
    fill(bench, 8)
    await bench.ingest()
    for number in range(5):
        bench.remove(f"{number}.md")
    before, rows = await bench.visible(), bench.catalog.ledger.documents(bench.index)
    with pytest.raises(IngestRefusedError, match=r"5 of 8 documents.*--allow-mass-delete"):
        await bench.ingest(strategy=strategy)
    assert await bench.visible() == before
    assert bench.catalog.ledger.documents(bench.index) == rows
    assert bench.catalog.ledger.index(bench.kb.namespace, "building") is None
    assert bench.diary.names()[-1] == "ingest_failed"
    await bench.ingest(strategy=strategy, allow_mass_delete=True)
    assert len(await bench.visible()) == 9
    bench.write("0.md", paragraph("back"))
    await bench.ingest()
    for number in (0, 5):
        bench.remove(f"{number}.md")
    await bench.ingest(strategy=strategy)
    assert len(await bench.visible()) == 6


async def test_documents_that_never_were_do_not_count(bench: Bench) -> None:
    """Files that could never be read may all go: nothing that is served goes with them."""
    fill(bench, 1)
    for name in ("x.md", "y.md"):
        bench.write_bytes(name, b"\0\xff")
    assert (await bench.ingest()).documents == counts(added=1, failed=2)
    for name in ("x.md", "y.md"):
        bench.remove(name)
    assert (await bench.ingest()).documents == counts(removed=2, unchanged=1)


async def test_only_one_ingest_at_a_time(bench: Bench) -> None:
    """A second ingest of the same knowledge base is refused while the first one runs."""
    fill(bench)
    refused: list[str] = []

    def again(_: int) -> None:
        with pytest.raises(IngestRunningError) as caught:
            bridge.run(bench.ingest())
        refused.append(str(caught.value))

    bench.embedder.before_batch = again
    assert (await bench.ingest()).status == "completed"
    assert len(refused) == 3
    assert "under way" in refused[0]


async def test_a_second_ingest_may_wait(bench: Bench) -> None:
    """Asked to wait, a second ingest begins when the first has ended, and finds all done."""
    fill(bench)
    started: list[asyncio.Task[IngestReport]] = []
    loop = asyncio.get_running_loop()

    def again(number: int) -> None:
        if number == 1:
            waiting = bench.ingest(wait=True)
            loop.call_soon_threadsafe(lambda: started.append(asyncio.create_task(waiting)))

    bench.embedder.before_batch = again
    first = await bench.ingest()
    second = await started[0]
    assert (first.documents, second.documents) == (counts(added=4), counts(unchanged=4))
    assert len(bench.embedder.texts) == 12


async def test_waiting_can_be_cancelled(bench: Bench) -> None:
    """Who waits for another ingest and is cancelled stops waiting, and changes nothing."""
    fill(bench)
    with bench.catalog.ingest_lock(bench.kb.namespace):
        waiting = asyncio.create_task(bench.ingest(wait=True))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert bench.embedder.texts == []
    assert (await bench.ingest()).documents == counts(added=4)


async def test_unknown_strategy(bench: Bench) -> None:
    """A strategy that is not there is refused with the nearest that is."""
    with pytest.raises(UsageError, match="did you mean 'replace'"):
        await bench.ingest(strategy="replcae")


# Replace and reindex.


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


# Outages.


async def test_embedder_fails_in_the_middle(bench: Bench) -> None:
    """What was finished stays and is found; the rerun embeds only the rest."""
    fill(bench, 10)

    def fail(number: int) -> None:
        if number == 5:
            raise RuntimeError("quota")

    bench.embedder.before_batch = fail
    with pytest.raises(EmbedderError, match="quota"):
        await bench.ingest()
    (run,) = bench.catalog.ledger.last_runs(bench.kb.namespace, 1)
    assert run["status"] == "failed"
    assert bench.diary.names()[-1] == "ingest_failed"
    assert "quota" in bench.diary.data("ingest_failed")[0]["reason"]
    uris = Counter(match.metadata["uri"] for match in await bench.visible())
    assert set(uris.values()) <= {3}
    bench.embedder.forget()
    bench.embedder.before_batch = lambda number: None
    report = await bench.ingest()
    assert len(bench.embedder.texts) == report.texts_embedded == 30 - 16
    assert len(await bench.visible()) == 30


class FailingStore(MemoryStore):
    """The memory store, with an outage in a method after so many calls, a document at a time."""

    replace_documents: Any = None

    def __init__(self, method: str, calls: int) -> None:
        super().__init__()
        self.method, self.left = method, calls

    def _call(self, method: str, *arguments: Any) -> Any:
        if method == self.method:
            self.left -= 1
            if self.left < 0:
                raise StoreError("the disk is full")
        return getattr(super(), method)(*arguments)

    def open(self, *arguments: Any) -> Any:
        return self._call("open", *arguments)

    def upsert(self, *arguments: Any) -> Any:
        return self._call("upsert", *arguments)

    def publish(self, *arguments: Any) -> Any:
        return self._call("publish", *arguments)

    def delete_by_filter(self, *arguments: Any) -> Any:
        return self._call("delete_by_filter", *arguments)


class FailingBulkStore(FailingStore):
    """The same, with many documents at a time."""

    def replace_documents(self, *arguments: Any) -> Any:
        if self.method == "replace_documents":
            self.left -= 1
            if self.left < 0:
                raise StoreError("the disk is full")
        return MemoryStore.replace_documents(self, *arguments)


@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize(
    "method", ["open", "upsert", "publish", "delete_by_filter", "replace_documents"]
)
async def test_the_store_fails(make_bench: Callable[[str], Bench], method: str, calls: int) -> None:
    """Whichever call to the store fails, a rerun ends where an undisturbed run ends."""
    bench = make_bench("memory")
    fill(bench, 6)
    kind = FailingBulkStore if method == "replace_documents" else FailingStore
    store = kind("none", 0)
    bench.store = store
    bench.change(store=store)
    await bench.ingest()
    for number in range(4):
        bench.write(f"{number}.md", paragraph(f"fresh{number}"), paragraph(f"word{number}a"))
    bench.remove("5.md")
    store.method, store.left = method, calls
    with suppress(StoreError):  # `open` is called only once
        await bench.ingest()
    store.method = "none"
    bench.embedder.forget()
    await bench.ingest()
    assert await bench.visible() == await fresh(bench, make_bench)
    assert len(bench.embedder.texts) <= bench.embedder.batch_size
    assert (await bench.ingest()).documents == counts(unchanged=5)


async def test_an_edit_taken_back_after_an_outage(make_bench: Callable[[str], Bench]) -> None:
    """A document whose new version was found already, and whose file is the old one again, is not
    taken for unchanged."""
    bench = make_bench("memory")
    fill(bench)
    store = FailingStore("none", 0)
    bench.store = store
    bench.change(store=store)
    await bench.ingest()
    before, good = await bench.visible(), (bench.root / "docs" / "1.md").read_bytes()
    bench.write("1.md", paragraph("hasty"))
    store.method = "delete_by_filter"
    with pytest.raises(StoreError):
        await bench.ingest()
    assert paragraph("hasty") in await bench.texts()
    store.method = "none"
    bench.write_bytes("1.md", good)
    report = await bench.ingest()
    assert (report.documents, report.texts_embedded) == (counts(updated=1, unchanged=3), 0)
    assert await bench.visible() == before


@pytest.mark.parametrize("batch", [1, 3, 6])
async def test_cancelled_in_the_middle(
    bench: Bench, make_bench: Callable[[str], Bench], batch: int
) -> None:
    """A cancelled run says so, leaves nothing running, and the next one completes it."""
    fill(bench, 8)
    reached = threading.Event()

    def wait(number: int) -> None:
        if number == batch:
            reached.set()
            threading.Event().wait(0.05)

    bench.embedder.before_batch = wait
    task = asyncio.create_task(bench.ingest())
    await asyncio.to_thread(reached.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = bench.catalog.ledger.last_runs(bench.kb.namespace, 1)
    assert run["status"] == "cancelled"
    assert bench.diary.names()[-1] == "ingest_failed"
    spent = len(bench.embedder.texts)
    bench.embedder.before_batch = lambda number: None
    report = await bench.ingest()
    assert report.status == "completed"
    assert spent + report.texts_embedded <= 24 + bench.embedder.batch_size
    assert await bench.visible() == await fresh(bench, make_bench)


async def test_nothing_works_on_after_a_cancellation(make_bench: Callable[[str], Bench]) -> None:
    """The lock is held until the last call to the store has returned."""
    bench = make_bench("memory")
    fill(bench)
    begun, done = threading.Event(), []

    class Slow(MemoryStore):
        def upsert(self, *arguments: Any) -> None:
            begun.set()
            threading.Event().wait(0.1)
            super().upsert(*arguments)
            done.append(True)

    bench.change(store=Slow())
    task = asyncio.create_task(bench.ingest())
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0.02)
    with pytest.raises(IngestRefusedError):
        await bench.ingest()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


# What it reports, announces and plans.


async def test_the_shape_of_a_report(bench: Bench) -> None:
    """Field names that other programs rely on are there, and JSON holds all of them."""
    fill(bench)
    bench.write_bytes("bad.md", b"\0\xff")
    report = await bench.ingest()
    assert {field.name for field in fields(IngestReport)} >= {
        *("kb_id", "strategy", "run_id", "status", "documents", "chunks", "texts_embedded"),
        *("cache_hits", "seconds", "failures", "sources"),
    }
    data = asdict(report)
    assert set(data["documents"]) == {"added", "updated", "removed", "unchanged", "failed"}
    assert set(data["chunks"]) == {"added", "removed", "unchanged", "total"}
    assert set(data["failures"][0]) == {"uri", "reason", "attempts"}
    assert data["seconds"] > 0
    (run,) = bench.catalog.ledger.last_runs(bench.kb.namespace, 1)
    assert (run["run_id"], run["status"]) == (report.run_id, report.status)


async def test_events(bench: Bench) -> None:
    """Events come in order, of one run, and their counts add up to the report's."""
    fill(bench, 6)
    await bench.ingest()
    bench.diary.entries.clear()
    bench.write("1.md", paragraph("x"), paragraph("y"))
    bench.write("new.md", paragraph("z"))
    bench.write_bytes("bad.md", b"\0\xff")
    bench.remove("5.md")
    report = await bench.ingest()
    names = bench.diary.names()
    assert (names[0], names[-1]) == ("ingest_started", "ingest_completed")
    assert {event.run_id for _, event in bench.diary.entries} == {report.run_id}
    chunked = bench.diary.data("ingest_chunked")
    actions = Counter(data["action"] for data in chunked)
    assert actions == {"updated": 1, "added": 1, "failed": 1, "unchanged": 4}
    embedded = bench.diary.data("ingest_embedded")
    assert sum(data["chunks"] for data in chunked) == sum(data["chunks"] for data in embedded) == 3
    assert sum(data["texts_embedded"] for data in embedded) == report.texts_embedded
    assert sum(data["cache_hits"] for data in embedded) == report.cache_hits
    assert names.count("document_deleted") == report.documents["removed"] == 1
    assert names.index("document_deleted") > max(
        place for place, name in enumerate(names) if name == "ingest_embedded"
    )
    assert bench.diary.data("ingest_completed") == [{"report": report}]


def snapshot(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


async def test_plan_of_a_new_project(bench: Bench) -> None:
    """A plan before the first ingest makes no file and never calls the embedder."""
    fill(bench)
    before = snapshot(bench.root)
    planned = await bench.plan()
    assert snapshot(bench.root) == before
    assert not (bench.root / ".lorebind").exists()
    assert bench.embedder.batches == bench.embedder.questions == bench.diary.entries == []
    assert planned.documents == counts(added=4)
    assert (planned.texts_to_embed, planned.cache_hits) == (12, 0)


async def test_the_plan_comes_true(bench: Bench) -> None:
    """Every count of a plan is that of the ingest that follows."""
    fill(bench, 8)
    await bench.ingest()

    async def compare() -> None:
        before = await bench.visible()
        planned = await bench.plan()
        assert await bench.visible() == before
        report = await bench.ingest()
        assert planned.documents == report.documents
        assert planned.chunks == report.chunks
        assert planned.texts_to_embed == report.texts_embedded
        assert planned.cache_hits == report.cache_hits
        assert planned.failures == report.failures
        assert planned.sources == report.sources

    bench.write("1.md", paragraph("x"), paragraph("x"), paragraph("word1c"))
    bench.write("same.md", "# Same", paragraph("copy"))
    bench.write("same2.md", "# Same", paragraph("copy"))
    bench.write_bytes("2.md", b"\0\xff")
    bench.write("3.md", "")
    bench.remove("4.md")
    bench.move("5.md", "moved/5.md")
    await compare()
    await compare()
    bench.change(metadata={"a": 1})
    await compare()
    bench.change(chunker=RecursiveChunker(200, 0))
    await compare()


async def test_the_plan_of_an_interrupted_rebuild(bench: Bench) -> None:
    """A plan counts what a rebuild for a new embedder has done already."""
    fill(bench, 6)
    await bench.ingest()
    bench.embedder = CountingEmbedder(revision="2")
    bench.change(embedder=bench.embedder)

    def fail(number: int) -> None:
        if number == 4:
            raise RuntimeError("down")

    bench.embedder.before_batch = fail
    with pytest.raises(EmbedderError):
        await bench.ingest()
    bench.embedder.before_batch = lambda number: None
    planned = await bench.plan()
    report = await bench.ingest()
    assert (planned.documents, planned.chunks) == (report.documents, report.chunks)
    assert planned.texts_to_embed == report.texts_embedded == 18 - 12


# What readers see meanwhile.


@pytest.mark.parametrize("strategy", ["upsert", "replace"])
async def test_readers_never_see_a_mixture(bench: Bench, strategy: str) -> None:
    """During an ingest every document is found whole, either as it was or as it is now."""
    versions: dict[str, list[set[str]]] = {}

    def write(version: int) -> None:
        for number in range(6):
            texts = [paragraph(f"v{version}d{number}{part}") for part in "abcde"]
            bench.write(f"{number}.md", *texts)
            versions.setdefault(f"docs/{number}.md", []).append(set(texts))

    write(1)
    await bench.ingest()
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            found: dict[str, set[str]] = {uri: set() for uri in versions}
            for match in (await bench.ask("some more words", top_k=50)).matches:
                found[match.metadata["uri"]].add(match.text)
            for uri, texts in found.items():
                assert texts in versions[uri]
            if strategy == "replace":
                assert len({versions[uri].index(texts) for uri, texts in found.items()}) == 1
            looks += 1

    readers = [asyncio.create_task(look()) for _ in range(2)]
    bench.embedder.before_batch = lambda number: threading.Event().wait(0.002) and None
    for version in range(2, 6):
        write(version)
        await bench.ingest(strategy=strategy)
    for reader in readers:
        assert not reader.done(), reader.exception()
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    assert looks > 10


# Any sequence of edits.

WORDS = st.sampled_from("abcdefgh")
NAMES = st.sampled_from(["1.md", "2.md", "sub/3.md", "sub/4.md"])


class EditScripts(RuleBasedStateMachine):
    """Whatever is edited between two ingests, the index is that of a fresh one, at its price."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.bench = self.new("project")
        self.seen: set[str] = set()
        self.made = 0

    def new(self, name: str) -> Bench:
        root = Path(self.folder.name) / name
        root.mkdir()
        return Bench(root, lambda: (MemoryStore(), Catalog()))

    def teardown(self) -> None:
        self.bench.catalog.close()
        self.folder.cleanup()

    def there(self, name: str) -> bool:
        return (self.bench.root / "docs" / name).exists()

    @initialize()
    def begin(self) -> None:
        self.bench.write("always.md", paragraph("always"))

    @rule(name=NAMES, words=st.lists(WORDS, max_size=4), heading=st.booleans())
    def write(self, name: str, words: list[str], heading: bool) -> None:
        self.bench.write(name, *(["# Shared"] if heading else []), *map(paragraph, words))

    @rule(name=NAMES, word=WORDS)
    def append(self, name: str, word: str) -> None:
        if self.there(name):
            path = self.bench.root / "docs" / name
            path.write_text(path.read_text() + "\n\n" + paragraph(word))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.there(name):
            self.bench.remove(name)

    @rule(old=NAMES, new=NAMES)
    def move(self, old: str, new: str) -> None:
        if self.there(old):
            self.bench.move(old, new)

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if self.there(name):
            os.utime(self.bench.root / "docs" / name, (1, 1))

    @rule(level=st.integers(0, 2))
    def change_metadata(self, level: int) -> None:
        self.bench.change(metadata={"level": level})

    @rule(size=st.sampled_from([64, 100, 200]), overlap=st.sampled_from([0, 30]))
    def change_chunking(self, size: int, overlap: int) -> None:
        self.bench.change(chunker=RecursiveChunker(size, overlap))

    @rule(strategy=st.sampled_from(["upsert", "upsert", "replace"]))
    def ingest(self, strategy: str) -> None:
        bridge.run(self._ingest(strategy))

    async def _ingest(self, strategy: str) -> None:
        bench = self.bench
        self.made += 1
        fresh_bench = self.new(f"fresh{self.made}")
        shutil.copytree(bench.root / "docs", fresh_bench.root / "docs")
        fresh_bench.change(chunker=bench.kb.chunker, metadata=bench.kb.metadata)
        await fresh_bench.ingest()
        needed = set(fresh_bench.embedder.texts)

        bench.embedder.forget()
        report = await bench.ingest(strategy=strategy, allow_mass_delete=True)
        assert report.status == "completed"
        assert Counter(bench.embedder.texts) == Counter(needed - self.seen)
        assert report.texts_embedded == len(needed - self.seen)
        self.seen |= needed
        visible = await bench.visible()
        assert visible == await fresh_bench.visible()
        assert report.chunks["total"] == len(visible)
        again = await bench.ingest()
        assert again.documents == counts(
            unchanged=sum(report.documents.values()) - report.documents["removed"]
        )
        assert again.chunks == chunk_counts(unchanged=len(visible), total=len(visible))
        assert (again.texts_embedded, again.cache_hits) == (0, 0)
        fresh_bench.catalog.close()


EditScripts.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestEditScripts = EditScripts.TestCase


# The store is asked for what the index holds, not for more.


async def test_generations_do_not_pile_up(make_bench: Callable[[str], Bench]) -> None:
    """After many edits the store holds one generation of each document, staged ones included."""
    bench = make_bench("memory")
    fill(bench)
    for version in range(5):
        bench.write("1.md", paragraph(f"version{version}"))
        await bench.ingest()
    store = bench.store
    assert isinstance(store, MemoryStore)
    documents = store._index(bench.index).documents
    assert sum(len(document.live) for document in documents.values()) == 10
    assert sum(len(document.staged) for document in documents.values()) == 0
    options = SearchOptions(bench.index, top_k=50)
    assert len(store.similarity_search(bench.embedder.embed_query("x"), options)) == 10
