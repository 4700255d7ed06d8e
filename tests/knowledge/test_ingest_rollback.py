"""Earlier indexes, which stay after a rebuild, and the way back to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lorebind_config.errors import IndexMismatchError, IngestRunningError, UsageError
from lorebind_knowledge.catalog.indexes import STATES
from lorebind_knowledge.index import purging
from lorebind_knowledge.ingest.rollback import rollback

from .bench import Bench, CountingEmbedder, counts, fill, paragraph


def states(bench: Bench) -> dict[int, str]:
    """Return the state of each index by number, after checking that all data is of these."""
    indexes = {}
    for state in STATES:
        if state == "earlier":
            entries = bench.catalog.ledger.earlier_indexes(bench.kb.namespace)
        else:
            entry = bench.catalog.ledger.index(bench.kb.namespace, state)
            entries = [entry] if entry else []
        for entry in entries:
            indexes[entry.key.number] = state
            assert bench.index.store.count(entry.space) == bench.index.compare(entry).live
    with bench.catalog.reading() as sql:
        spaces = sql.run("select count(distinct space) from catalog_chunks")
        assert spaces == [(len(indexes),)]
    return indexes


async def rebuild(bench: Bench, word: str) -> None:
    bench.write("0.md", paragraph(word))
    await bench.ingest(strategy="replace")


async def test_back_and_forth(bench: Bench) -> None:
    """A rollback finds what was found before, at once and without embedding, and can be undone."""
    fill(bench)
    bench.change(keep=1)
    await bench.ingest()
    first = await bench.visible()
    await rebuild(bench, "fresh")
    second = await bench.visible()
    assert (first != second, states(bench)) == (True, {1: "earlier", 2: "active"})
    bench.embedder.forget()
    report = await rollback(bench.kb)
    assert (report.index, report.index_before, report.documents) == (1, 2, 4)
    assert (report.chunks, await bench.visible()) == (len(first), first)
    assert states(bench) == {1: "active", 2: "earlier"}
    with pytest.raises(UsageError, match=r"has no index before it; it has: 2.*--to 2"):
        await rollback(bench.kb)
    with pytest.raises(UsageError, match="has no index 7"):
        await rollback(bench.kb, 7)
    assert (await rollback(bench.kb, 2)).index == 2
    assert (await bench.visible(), bench.embedder.texts) == (second, [])
    with pytest.raises(UsageError, match="searches index 2"):
        await rollback(bench.kb, 2)


async def test_the_next_ingest_says_what_it_does(bench: Bench) -> None:
    """After a rollback, plan and ingest say that they update the index, the next ones do not."""
    fill(bench)
    bench.change(keep=1)
    await bench.ingest()
    await rebuild(bench, "fresh")
    await rollback(bench.kb)
    plan = await bench.plan()
    assert "index 1 is searched again since a rollback" in plan.notices[0]
    assert plan.documents == counts(updated=1, unchanged=3)
    report = await bench.ingest()
    assert (report.notices, report.documents) == (plan.notices, plan.documents)
    assert ((await bench.plan()).notices, (await bench.ingest()).notices) == ([], [])
    assert states(bench) == {1: "active", 2: "earlier"}


async def test_how_many_stay(bench: Bench) -> None:
    """`keep` earlier indexes stay, the one that was active last among them; others are dropped."""
    fill(bench)
    bench.change(keep=2)
    await bench.ingest()
    for number in range(2, 5):
        await rebuild(bench, f"fresh{number}")
    assert states(bench) == {2: "earlier", 3: "earlier", 4: "active"}
    await rollback(bench.kb, 2)
    assert states(bench) == {2: "active", 3: "earlier", 4: "earlier"}
    bench.change(keep=1)
    await rebuild(bench, "last")
    assert states(bench) == {2: "earlier", 5: "active"}
    bench.change(keep=0)
    await bench.ingest()
    assert states(bench) == {5: "active"}
    with pytest.raises(UsageError, match="no earlier index"):
        await rollback(bench.kb)


async def test_refused(bench: Bench) -> None:
    """An index of another embedder and a running ingest are refused, and change nothing."""
    fill(bench)
    bench.change(keep=1)
    await bench.ingest()
    bench.embedder, before = CountingEmbedder(revision="2"), bench.embedder
    bench.change(embedder=bench.embedder)
    await bench.ingest()
    assert states(bench) == {1: "earlier", 2: "active"}
    with pytest.raises(IndexMismatchError, match="index 1 of 'docs' was built with"):
        await rollback(bench.kb)
    with bench.catalog.lease(bench.kb.namespace), pytest.raises(IngestRunningError):
        await rollback(bench.kb)
    assert states(bench) == {1: "earlier", 2: "active"}
    # The way back to another embedder: declare it, then roll back.
    kb = replace(bench.kb, embedder=before)
    await rollback(kb)
    assert states(bench) == {1: "active", 2: "earlier"}
    with bench.catalog.lease(bench.kb.namespace) as lease:
        purging.delete_all(bench.index, lease)
    assert states(bench) == {}
