"""A folder that cannot be listed loses no document, and does not stop the others."""

from __future__ import annotations

import pytest

from lorebind_knowledge.ingest.report import Unlisted

from .bench import Bench, counts, fill, paragraph, served
from .folders import shut

SHUT = Unlisted("docs/shut/", "Permission denied")


async def test_its_documents_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its documents stay, the others are ingested and removed as usual, and the report names it."""
    fill(bench, 6)
    for name in ("shut/a.md", "shut/deep/b.md", "shutters.md"):
        bench.write(name, paragraph(name[:-3]))
    await bench.ingest()
    with monkeypatch.context() as shutting:
        shut(bench.root / "docs" / "shut", shutting)
        bench.remove("0.md")
        bench.remove("shutters.md")
        bench.write("new.md", paragraph("new"))
        planned = await bench.plan()
        assert planned.documents == counts(added=1, removed=2, unchanged=5)
        assert planned.sources[0].unlisted == [SHUT]
        report = await bench.ingest()
        assert report.documents == planned.documents
        assert report.status == "completed_with_failures"
        assert [(source.status, source.unlisted) for source in report.sources] == [("ok", [SHUT])]
        assert {"docs/shut/a.md", "docs/shut/deep/b.md", "docs/new.md"} < await served(bench)
        assert len((await bench.ask("shut/a", top_k=1)).matches) == 1
        assert (await bench.ingest(only_failed=True)).status == "completed_with_failures"
    bench.remove("shut/a.md")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(removed=1, unchanged=7))


async def test_it_holds_all_documents(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing else is found, the source fails, and says which folder it could not list."""
    bench.write("shut/a.md", paragraph("a"))
    await bench.ingest()
    shut(bench.root / "docs" / "shut", monkeypatch)
    report = await bench.ingest()
    assert (report.status, report.documents) == ("failed", counts())
    assert report.sources[0].reason == "docs/shut/ cannot be listed: Permission denied"
    assert await served(bench) == {"docs/shut/a.md"}


async def test_a_rebuild_waits_for_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old index stays in use as long as the new one would lack documents of the folder."""
    fill(bench)
    bench.write("shut/a.md", paragraph("a"))
    await bench.ingest()
    old, before = bench.entry, await bench.visible()
    with monkeypatch.context() as shutting:
        shut(bench.root / "docs" / "shut", shutting)
        report = await bench.reindex()
        assert "(1 could not be read, 0 sources failed)" in report.notices[0]
        assert (bench.entry, await bench.visible()) == (old, before)
    assert (await bench.reindex()).status == "completed"
    assert bench.entry != old
    assert await bench.visible() == before


async def test_a_rebuild_that_loses_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a document in the old index does not hold up its successor."""
    fill(bench)
    bench.write("shut/a.md", paragraph("a"))
    shut(bench.root / "docs" / "shut", monkeypatch)
    await bench.ingest()
    old = bench.entry
    assert (await bench.reindex()).status == "completed_with_failures"
    assert bench.entry != old


async def test_a_rebuild_that_read_it_before(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor that was begun while the folder was open has its documents, so it is used."""
    fill(bench)
    bench.write("shut/a.md", paragraph("a"))
    await bench.ingest()
    old, before = bench.entry, await bench.visible()
    bench.write_bytes("0.md", b"\0\xff")
    assert (await bench.reindex()).status == "completed_with_failures"
    assert bench.entry == old
    fill(bench)
    shut(bench.root / "docs" / "shut", monkeypatch)
    await bench.reindex()
    assert bench.entry != old
    assert await bench.visible() == before
