"""Ingestion when embedder or store fail, or it is cancelled."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from lorebind_knowledge.errors import (
    EmbedderError,
    IngestRefusedError,
    StoreError,
)
from lorebind_knowledge.stores import MemoryStore

from .bench import Bench, counts, fill, fresh, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
    begun, refused, done = threading.Event(), threading.Event(), []

    class Slow(MemoryStore):
        def upsert(self, *arguments: Any) -> None:
            begun.set()
            refused.wait(60)
            super().upsert(*arguments)
            done.append(True)

    bench.change(store=Slow())
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
    """The file is named with what to do; with room again, the same project goes on."""
    (tmp_path / "docs").mkdir()
    for number in range(200):
        text = " ".join(f"Rotate key {number} often, says page {at}." for at in range(60))
        (tmp_path / "docs" / f"{number}.txt").write_text(text)
    command = [sys.executable, "-W", "error", "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    said, end = done.stdout.splitlines()
    assert "lorebind.db: " in said, done.stderr
    assert "room" in said or "free space" in said  # the catalog's words, or the store's
    assert end == "completed 600 5"
