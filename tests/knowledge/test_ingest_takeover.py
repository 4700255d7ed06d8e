"""An ingest that was suspended for so long that another one has taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest

from lorebind_config.errors import LeaseLostError
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.plumbing import bridge
from lorebind_knowledge.stores.memory import MemoryStore

from .bench import Bench, fill, fresh, paragraph

STEPS = (
    *((Index, name) for name in ("stage", "publish", "remove", "sweep", "drop", "restore")),
    *((MemoryStore, name) for name in ("add", "delete", "drop")),
    *((Ledger, name) for name in ("start_run", "create_index", "put_documents", "set_manifest")),
    *((Ledger, name) for name in ("activate_index", "retire_index", "finish_run")),
)
"""Calls whose effects other processes can see. A test suspends the ingest around each of them."""


class Stopped:
    """Suspends an ingest at one of its steps, and runs something before it continues."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: object = None
        """The return value of the function that ran in the meantime."""
        self._at = self._taken = 0
        self._meanwhile: Callable[[], Coroutine[Any, Any, object]]
        for owner, name in STEPS:
            patch.setattr(owner, name, self._watched(getattr(owner, name)))

    def stop_at(
        self, step: int, meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None
    ) -> None:
        """Suspend at a step, counted from 1 and from now; 0 means never."""
        self._at, self._taken = step, 0
        if meanwhile is not None:
            self._meanwhile = meanwhile

    @property
    def reached(self) -> bool:
        return self._taken >= self._at

    def step(self) -> None:
        if not self.reached:
            self._taken += 1
            if self.reached:
                self.seen = bridge.run(self._meanwhile())

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **settings: Any) -> Any:
            self.step()
            done = real(*arguments, **settings)
            self.step()
            return done

        return watched


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    """Let leases expire immediately, as those of a suspended process."""
    monkeypatch.setattr(leases, "SECONDS", 0.0)
    monkeypatch.setattr(leases, "renewed", lambda *_: nullcontext())
    return Stopped(monkeypatch)


def edit(bench: Bench) -> None:
    """Add, change and remove a document, and lose all vectors of another one."""
    bench.write("1.md", paragraph("word1a"), paragraph("new"))
    bench.write("4.md", paragraph("fourth"))
    bench.remove("2.md")


async def everything(bench: Bench) -> object:
    """Return everything that an ingest writes, except the embedding cache."""
    ledger, here = bench.catalog.ledger, bench.kb.namespace
    states = ("building", "active", "retired")
    indexes = [ledger.index(here, state) for state in states]
    documents = [ledger.documents(index.key) for index in indexes if index]
    counts = [bench.index.store.count(index.space) for index in indexes if index]
    return await bench.visible(), indexes, documents, counts, bench.catalog.runs.list(here, 9)


async def lost(ingest: Awaitable[object]) -> str:
    """Return the error of an ingest that has lost its lease, or an empty text."""
    try:
        await ingest
    except LeaseLostError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("first", "second"), [("upsert", "upsert"), ("replace", "replace"), ("replace", "upsert")]
)
async def test_at_any_step(
    make_bench: Callable[[str], Bench], stopped: Stopped, first: str, second: str
) -> None:
    """A suspended ingest fails and changes nothing after another one has started."""
    failed = 0
    expected: list[Any] = []
    for at in count(1):
        stopped.stop_at(0)
        bench = make_bench("memory")
        fill(bench)
        await bench.ingest()
        edit(bench)
        bench.index.store.delete(bench.entry.space, [1, 2])

        async def take_over(bench: Bench = bench) -> object:
            await asyncio.sleep(0.001)
            await bench.ingest(strategy=second)
            return await everything(bench)

        stopped.stop_at(at, take_over)
        error = await lost(bench.ingest(strategy=first))
        if not stopped.reached:
            break
        stopped.stop_at(0)
        assert await everything(bench) == stopped.seen
        expected = expected or await fresh(bench, make_bench)
        await check_whole(bench, expected)
        failed += bool(error)
        assert not error or "'docs': another process took over" in error
        if error and at > 1:  # at the first step there was no run yet
            runs = bench.catalog.runs.list(bench.kb.namespace, 2)
            assert [run.status for run in runs] == ["completed", "failed"]
            assert bench.diary.names()[-1] == "ingest_failed"
    assert failed > 20


async def check_whole(bench: Bench, expected: list[Any]) -> None:
    """Check that the only index, in catalog and store, is that of a new ingest."""
    ledger, here = bench.catalog.ledger, bench.kb.namespace
    visible = await bench.visible()
    assert visible == expected
    assert (ledger.index(here, "building"), ledger.retired_indexes(here)) == (None, [])
    assert bench.index.store.count(bench.entry.space) == len(visible)
    assert bench.index.compare(bench.entry, deep=True).lost == []
