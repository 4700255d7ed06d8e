"""One ingest of a knowledge base at a time; others wait, and can stop waiting."""

from __future__ import annotations

import asyncio

import pytest

from lorebind_config.errors import (
    IngestRunningError,
)
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.plumbing import bridge

from .bench import (
    Bench,
    counts,
    fill,
)


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
    """With `wait`, a second ingest starts after the first one, and finds everything done."""
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
    """A cancelled ingest that waits for another one stops waiting, and changes nothing."""
    fill(bench)
    with bench.catalog.lease(bench.kb.namespace):
        waiting = asyncio.create_task(bench.ingest(wait=True))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert bench.embedder.texts == []
    assert (await bench.ingest()).documents == counts(added=4)
