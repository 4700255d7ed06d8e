"""Which chunks and documents an ingest writes in one transaction."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.ingest import batches
from lorebind_knowledge.ingest.batches import CHUNKS_PER_WRITE, in_groups, written_together

from .bench import Bench, fill


class Queued:
    """A queue of batches, and the chunks that were written together so far."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.writes: list[list[str]] = []

    def put(self, *chunks: str) -> asyncio.Future[Any]:
        batch = asyncio.get_running_loop().create_future()
        self.queue.put_nowait(batch)
        if chunks:
            self.finish(batch, *chunks)
        return batch

    def finish(self, batch: asyncio.Future[Any], *chunks: str) -> None:
        batch.set_result(list(chunks))

    async def write(self) -> None:
        async for chunks in written_together(self.queue):
            self.writes.append([str(chunk) for chunk in chunks])


async def test_batches_that_are_ready() -> None:
    """They are written together, in order, and do not wait for a batch that is not ready."""
    queued = Queued()
    queued.put("a", "b")
    queued.put("c")
    later = queued.put()
    queued.put("e")
    writing = asyncio.create_task(queued.write())
    await asyncio.sleep(0)
    assert queued.writes == [["a", "b", "c"]]
    queued.finish(later, "d")
    queued.queue.put_nowait(None)
    await writing
    assert queued.writes == [["a", "b", "c"], ["d", "e"]]


async def test_no_more_batches_yet() -> None:
    """Batches that are ready are written before the end of the queue is known."""
    queued = Queued()
    queued.put("a")
    writing = asyncio.create_task(queued.write())
    await asyncio.sleep(0)
    assert queued.writes == [["a"]]
    queued.queue.put_nowait(None)
    await writing
    assert queued.writes == [["a"]]


async def test_a_failed_batch() -> None:
    """The batches before it are written; then its error is raised."""
    queued = Queued()
    queued.put("a")
    queued.put().set_exception(EmbedderError("down"))
    with pytest.raises(EmbedderError, match="down"):
        await queued.write()
    assert queued.writes == [["a"]]


async def test_large_batches() -> None:
    """A write is limited in chunks; a batch is never divided."""
    queued = Queued()
    size = CHUNKS_PER_WRITE // 2
    for _ in range(3):
        queued.put(*["x"] * size)
    queued.put(*["x"] * (CHUNKS_PER_WRITE + 1))
    queued.queue.put_nowait(None)
    await queued.write()
    assert [len(chunks) for chunks in queued.writes] == [2 * size, size, CHUNKS_PER_WRITE + 1]


@given(st.lists(st.integers(0, 3 * CHUNKS_PER_WRITE)))
def test_groups_of_documents(sizes: list[int]) -> None:
    """Groups hold all documents in order, and only a single document exceeds the limit."""
    documents = [(str(number), size) for number, size in enumerate(sizes)]
    groups = list(in_groups(documents))
    assert [uri for group in groups for uri in group] == [uri for uri, _ in documents]
    for group in groups:
        assert len(group) == 1 or sum(sizes[int(uri)] for uri in group) <= CHUNKS_PER_WRITE
    for group, following in pairwise(groups):
        together = [*group, following[0]]
        assert sum(sizes[int(uri)] + 1 for uri in together) > CHUNKS_PER_WRITE


async def test_documents_are_published_while_others_are_staged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write waits only for the write before the last one to be published."""
    monkeypatch.setattr(batches, "CHUNKS_PER_WRITE", 1)
    fill(bench)
    stage, publish = bench.index.stage, bench.index.publish
    writes = 0
    is_second = threading.Event()

    def staging(*arguments: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 2:
            is_second.set()
        stage(*arguments)

    def publishing(*arguments: Any) -> Any:
        assert is_second.wait(20)
        return publish(*arguments)

    monkeypatch.setattr(bench.index, "stage", staging)
    monkeypatch.setattr(bench.index, "publish", publishing)
    report = await bench.ingest()
    assert (report.documents["added"], writes) == (4, 3)
