"""The progress of a run: in its row while it runs, seen by other processes, and rarely written."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping

import pytest

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.catalog.runs import RunInfo, Runs
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.ingest import progress
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.stores.memory import MemoryStore

from .bench import Bench, fill


class Gate:
    """Holds back the embedder from a batch on, until it is opened."""

    def __init__(self, bench: Bench, batch: int) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self._batch = batch
        bench.embedder.before_batch = self._wait

    def _wait(self, number: int) -> None:
        if number >= self._batch:
            self.reached.set()
            assert self.opened.wait(30)


@pytest.fixture
def bench(catalog: Catalog, make_bench: Callable[[str], Bench]) -> Bench:
    """A bench with every kind of catalog."""
    bench = make_bench("memory")
    bench.catalog, bench.index = catalog, Index(MemoryStore(), catalog)
    bench.change(index=bench.index)
    return bench


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.01)


async def until(condition: Callable[[], object]) -> None:
    def wait() -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    await call(wait)


def last_run(bench: Bench) -> RunInfo:
    return bench.catalog.runs.list(bench.kb.namespace, 1)[0]


async def test_how_far_a_run_is(bench: Bench) -> None:
    """The row has the counts of a running ingest, and those of its end afterwards."""
    fill(bench)  # 4 documents of 3 chunks, in batches of 4
    gate = Gate(bench, 3)
    running = asyncio.create_task(bench.ingest())
    counts = {"documents": 4, "documents_read": 4, "chunks": 12}
    await until(lambda: gate.reached.is_set() and last_run(bench).progress)
    await until(lambda: last_run(bench).progress == counts | {"chunks_embedded": 8})
    assert last_run(bench).status == "running"
    assert await call(bench.catalog.runs.is_writing, bench.kb.namespace)
    gate.opened.set()
    await running
    assert last_run(bench).progress == counts | {"chunks_embedded": 12}
    assert bench.diary.data("ingest_progressed")[-1] == counts | {"chunks_embedded": 12}
    assert not await call(bench.catalog.runs.is_writing, bench.kb.namespace)


async def test_nothing_is_written_while_nothing_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest that waits for its embedder writes its progress once."""
    stored: list[Mapping[str, int]] = []
    store = Runs.store_progress

    def watched(self: Runs, lease: Lease, run_id: str, counts: Mapping[str, int]) -> None:
        stored.append(counts)
        store(self, lease, run_id, counts)

    monkeypatch.setattr(Runs, "store_progress", watched)
    fill(bench)
    gate = Gate(bench, 2)
    running = asyncio.create_task(bench.ingest())
    await until(lambda: gate.reached.is_set() and stored and stored[-1]["chunks_embedded"])
    written = len(stored)
    await asyncio.sleep(0.2)
    assert len(stored) == written
    gate.opened.set()
    await running


async def test_a_run_that_fails(bench: Bench) -> None:
    """The row shows how far a failed run came."""
    fill(bench)

    def fail(number: int) -> None:
        if number == 2:
            raise RuntimeError("down")

    bench.embedder.before_batch = fail
    with pytest.raises(Exception, match="down"):
        await bench.ingest()
    failed = last_run(bench)
    assert (failed.status, failed.progress and failed.progress["chunks_embedded"]) == ("failed", 4)


async def test_the_writer_is_not_waited_for(bench: Bench, catalog: Catalog) -> None:
    """In PostgreSQL, the progress is stored while a write of the run is under way."""
    if not catalog.is_remote:
        pytest.skip("SQLite has one writer at a time")
    with catalog.lease(bench.kb.namespace) as lease:
        run_id = catalog.ledger.start_run(lease, "upsert")
        with catalog.writing(lease):
            counts = {"documents": 1, "documents_read": 1, "chunks": 0, "chunks_embedded": 0}
            await asyncio.wait_for(call(catalog.runs.store_progress, lease, run_id, counts), 10)
        assert last_run(bench).progress == counts


async def test_a_lost_lease(bench: Bench, catalog: Catalog) -> None:
    """A writer that another one has replaced stores nothing, nor does one whose run has ended."""
    here = bench.kb.namespace
    with catalog.lease(here) as lease:
        run_id = catalog.ledger.start_run(lease, "upsert")
        catalog.runs.store_progress(replace_number(lease), run_id, {"documents": 1})
        assert last_run(bench).progress is None
        catalog.ledger.finish_run(lease, run_id, "completed", {}, {"documents": 2})
        catalog.runs.store_progress(lease, run_id, {"documents": 1})
        assert last_run(bench).progress == {"documents": 2}


def replace_number(lease: Lease) -> Lease:
    return lease._replace(number=lease.number - 1)
