"""Ingestion during outages of embedder or store, and cancelled ingestion."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import EmbedderError, IngestRefusedError, StoreError
from lorebind_knowledge.catalog.versions import Versions
from lorebind_knowledge.index import index as index_module
from lorebind_knowledge.ingest import preparation
from lorebind_knowledge.records import Partition
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.memory import MemoryStore
from tests.processes import run_program

from .bench import Bench, counts, fail_at, fill, fresh, paragraph
from .sparse_words import SparseWords


async def test_embedder_fails_in_the_middle(bench: Bench) -> None:
    """Finished documents stay and are found; the rerun embeds only the rest."""
    bench.diary.content = True
    fill(bench, 10)

    bench.embedder.before_batch = fail_at(5)
    with pytest.raises(EmbedderError, match="down"):
        await bench.ingest()
    (run,) = bench.catalog.runs.list(bench.kb.namespace, 1)
    assert run.status == "failed"
    assert bench.diary.names()[-1] == "ingest_failed"
    assert "down" in bench.diary.data("ingest_failed")[0]["reason"]
    uris = Counter(match.metadata["uri"] for match in await bench.visible())
    assert set(uris.values()) <= {3}
    bench.embedder.forget()
    bench.embedder.before_batch = lambda number: None
    report = await bench.ingest()
    assert len(bench.embedder.texts) == report.texts_embedded == 30 - 16
    assert len(await bench.visible()) == 30


async def test_a_failure_is_recorded_beside_the_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that hangs while the end of a failed run is recorded does not stop the loop."""
    fill(bench)
    ledger = bench.catalog.ledger
    record, going = ledger.finish_run, threading.Event()
    loop = asyncio.get_running_loop()

    def hang_and_record(*args: Any) -> None:
        loop.call_soon_threadsafe(going.set)
        assert going.wait(10)
        record(*args)

    def fail(number: int) -> None:
        raise RuntimeError("quota")

    monkeypatch.setattr(ledger, "finish_run", hang_and_record)
    bench.embedder.before_batch = fail
    with pytest.raises(EmbedderError, match="quota"):
        await bench.ingest()
    (run,) = bench.catalog.runs.list(bench.kb.namespace, 1)
    assert run.status == "failed"


class FailingStore(MemoryStore):
    """The memory store, in which a method fails half-way after a number of calls."""

    method, left = "none", 0

    def _fails(self, method: str) -> bool:
        if method == self.method:
            self.left -= 1
        return method == self.method and self.left < 0

    def _done(self, do: Callable[..., Any], space: Partition, batch: Sequence[Any]) -> None:
        failed = self._fails(do.__name__)
        do(space, batch[: len(batch) // 2] if failed else batch)
        if failed:
            raise StoreError("the disk is full")

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        self._done(super().add, space, vectors)

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        self._done(super().delete, space, list(numbers))

    def count(self, space: Partition) -> int:
        if self._fails("count"):
            raise StoreError("the disk is full")
        return super().count(space)


def failing(bench: Bench) -> FailingStore:
    """Give a bench a store that can fail."""
    bench.index.store = store = FailingStore()
    return store


async def edit_and_fail(bench: Bench) -> None:
    """Edit an ingested bench, and run an ingest that may fail."""
    for number in range(4):
        bench.write(f"{number}.md", paragraph(f"fresh{number}"), paragraph(f"word{number}a"))
    bench.remove("5.md")
    with suppress(StoreError):  # some methods are called less often, and do not fail
        await bench.ingest()


async def check_rerun(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Check that a rerun gives the same result as an undisturbed run, for at most one batch."""
    bench.embedder.forget()
    await bench.ingest()
    assert await bench.visible() == await fresh(bench, make_bench)
    assert len(bench.embedder.texts) <= bench.embedder.batch_size
    assert (await bench.ingest()).documents == counts(unchanged=5)
    assert bench.index.store.count(bench.entry.space) == len(await bench.visible())


@pytest.fixture
def sweeping_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep after every publication instead of every few seconds."""
    monkeypatch.setattr(index_module, "_SECONDS_BETWEEN_SWEEPS", 0.0)


@pytest.mark.usefixtures("sweeping_often")
@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("method", ["add", "delete", "count"])
async def test_the_store_fails(make_bench: Callable[[str], Bench], method: str, calls: int) -> None:
    """After a failure in any call of the store, a rerun gives the result of an undisturbed run."""
    bench = make_bench("memory")
    fill(bench, 6)
    store = failing(bench)
    await bench.ingest()
    store.method, store.left = method, calls
    await edit_and_fail(bench)
    store.method = "none"
    await check_rerun(bench, make_bench)


@pytest.mark.usefixtures("sweeping_often")
@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize(
    "step", ["stage", "publish", "collect_dead", "forget", "remove", "abandon"]
)
async def test_the_catalog_fails(
    make_bench: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch, step: str, calls: int
) -> None:
    """After a crash at any step of a writer, a rerun gives the result of an undisturbed run."""
    bench = make_bench("sqlite")
    fill(bench, 6)
    await bench.ingest()
    real, left = getattr(Versions, step), iter(range(calls))

    def fail(*arguments: Any) -> Any:
        done = real(*arguments)
        if next(left, None) is None:
            raise StoreError("the disk is full")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Versions, step, fail)
        await edit_and_fail(bench)
    await check_rerun(bench, make_bench)


async def test_an_edit_taken_back_after_an_outage(make_bench: Callable[[str], Bench]) -> None:
    """A document that was reverted after its new version was published is not unchanged."""
    bench = make_bench("memory")
    fill(bench)
    store = failing(bench)
    await bench.ingest()
    before, good = await bench.visible(), (bench.root / "docs" / "1.md").read_bytes()
    bench.write("1.md", paragraph("hasty"))
    store.method = "delete"
    with pytest.raises(StoreError):
        await bench.ingest()
    assert paragraph("hasty") in await bench.texts()
    store.method = "none"
    bench.write_bytes("1.md", good)
    report = await bench.ingest()
    assert (report.documents, report.texts_embedded) == (counts(updated=1, unchanged=3), 0)
    assert await bench.visible() == before


class Blocking:
    """A source of short documents; reading the last one waits until it is told to end."""

    key = "blocking"

    def __init__(self) -> None:
        self.end = threading.Event()

    def items(self) -> list[SourceItem]:
        return [SourceItem(f"{number}.md", partial(self._read, number)) for number in range(6)]

    def _read(self, number: int, version: str) -> Content:
        if number == 5:
            self.end.wait(60)
        return Content("\n\n".join(paragraph(f"word{number}{part}") for part in "abc").encode())


@pytest.mark.parametrize("of_terms", [False, True])
async def test_a_cancelled_run_makes_no_further_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, of_terms: bool
) -> None:
    """After a cancellation, waiting batches call no embedder, even while documents are read."""
    monkeypatch.setattr(preparation, "_TEXT_AT_ONCE", 1)
    source, sparse = Blocking(), SparseWords()
    bench.change(sources=[source], sparse=sparse)
    reached, cancelled = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        reached.set()
        cancelled.wait(60)

    slow = sparse if of_terms else bench.embedder
    slow.before_batch = wait
    task = asyncio.create_task(bench.ingest())
    await asyncio.to_thread(reached.wait, 60)
    await asyncio.sleep(0.3)  # further batches wait for the first one
    task.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    await asyncio.sleep(0.3)
    calls = len(slow.batches)
    source.end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == 1


@pytest.mark.parametrize("batch", [1, 3, 6])
async def test_cancelled_in_the_middle(
    bench: Bench, make_bench: Callable[[str], Bench], batch: int
) -> None:
    """A cancelled run reports it and leaves nothing running; the next one completes it."""
    fill(bench, 8)
    reached, cancelled = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if number == batch:
            reached.set()
            cancelled.wait(60)

    bench.embedder.before_batch = wait
    task = asyncio.create_task(bench.ingest())
    await asyncio.to_thread(reached.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = bench.catalog.runs.list(bench.kb.namespace, 1)
    assert run.status == "cancelled"
    assert bench.diary.names()[-1] == "ingest_failed"
    spent = len(bench.embedder.texts)
    bench.embedder.before_batch = lambda number: None
    report = await bench.ingest()
    assert report.status == "completed"
    assert spent + report.texts_embedded <= 24 + bench.embedder.batch_size
    assert await bench.visible() == await fresh(bench, make_bench)


async def test_nothing_works_on_after_a_cancellation(make_bench: Callable[[str], Bench]) -> None:
    """The lease is held until the last call of the store has returned."""
    bench = make_bench("memory")
    fill(bench)
    begun, refused, done = threading.Event(), threading.Event(), []

    class Slow(MemoryStore):
        def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
            begun.set()
            refused.wait(60)
            super().add(space, vectors)
            done.append(True)

    bench.index.store = Slow()
    task = asyncio.create_task(bench.ingest())
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    with pytest.raises(IngestRefusedError):
        await bench.ingest()
    refused.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


FULL = """
import resource, signal, sys
from lorebind import Project, StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sources = [{"type": "file_glob", "path": "docs/*.txt"}]
declared = {
    "name": "full",
    "embedders": [{"id": "words", "provider": "hashing"}],
    "knowledge_bases": [{"id": "docs", "sources": sources}],
}
unlimited = resource.RLIM_INFINITY
with Project.build(declared, root=sys.argv[1]) as project:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, unlimited))
    try:
        project.ingest("docs")
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
    report = project.ingest("docs")
    print(report.status, report.chunks["total"], len(project.query("docs", "rotate key 7").matches))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit of a file's size here")
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """A full disk is an error with the file and a suggested fix; the project recovers later."""
    (tmp_path / "docs").mkdir()
    for number in range(200):
        text = " ".join(f"Rotate key {number} often, says page {at}." for at in range(60))
        (tmp_path / "docs" / f"{number}.txt").write_text(text)
    command = [sys.executable, "-W", "error", "-c", FULL, str(tmp_path)]
    done = run_program(command)
    line, end = done.stdout.splitlines()
    assert "lorebind.db: " in line, done.stderr
    assert "free some space" in line
    assert end == "completed 600 5"
