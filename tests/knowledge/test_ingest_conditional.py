"""Sources that know the version of a document are asked only for documents that changed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.sources.base import Content, SourceItem

from .bench import Bench, counts, paragraph

URI = "page.md"


class VersionedSource:
    """A source with one unchanging document of version `one`; it records each request."""

    key = "versioned"

    def __init__(self) -> None:
        self.requests: list[str] = []

    def items(self) -> Iterator[SourceItem]:
        yield SourceItem(URI, self._read)

    def _read(self, version: str) -> Content | None:
        self.requests.append(version)
        return None if version == "one" else Content(paragraph("text").encode(), version="one")


@pytest.fixture
def source(bench: Bench) -> VersionedSource:
    source = VersionedSource()
    bench.change(sources=[source])
    return source


async def test_what_did_not_change(bench: Bench, source: VersionedSource) -> None:
    """The source receives the version of the last read, and an unchanged document stays."""
    await bench.ingest()
    report = await bench.ingest()
    assert source.requests == ["", "one"]
    assert report.documents == counts(unchanged=1)
    assert len(await bench.visible()) == 1


async def test_a_plan_asks_for_the_ingest(bench: Bench, source: VersionedSource) -> None:
    """An ingest does not ask again for documents that its plan already asked for."""
    plan = await bench.plan()
    assert (await bench.ingest(plan=plan)).documents == counts(added=1)
    assert source.requests == [""]
    plan = await bench.plan()
    assert (await bench.ingest(plan=plan)).documents == counts(unchanged=1)
    assert source.requests == ["", "one"]
    await bench.ingest(plan=plan)
    assert source.requests == ["", "one", "one"]


class RemotePages:
    """A source with three pages of ten kilobytes and one that fails first; it records requests."""

    key = "remote"

    def __init__(self) -> None:
        self.requests: list[str] = []

    def items(self) -> Iterator[SourceItem]:
        for uri in ("a.md", "b.md", "c.md", "gone.md"):
            yield SourceItem(uri, partial(self._read, uri))

    async def _read(self, uri: str, version: str) -> Content:
        self.requests.append(uri)
        if uri == "gone.md" and self.requests.count(uri) == 1:
            raise SourceError("gone.md: HTTP 404")
        return Content(f"# {uri}\n\nText.\n".encode() + b" " * 10_000)


async def test_pages_are_fetched_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest does not fetch pages that its plan has fetched, or has just failed to fetch."""
    monkeypatch.setattr("lorebind_knowledge.ingest.prepared._MOST_KEPT", 10_000)
    source = RemotePages()
    bench.change(sources=[source])
    report = await bench.ingest(plan=await bench.plan())
    assert report.documents == counts(added=3, failed=1)
    assert sorted(source.requests) == ["a.md", "b.md", "c.md", "gone.md"]

    source.requests.clear()
    plan = await bench.plan()
    monkeypatch.setattr("lorebind_knowledge.ingest.prepared._FAILURE_SECONDS", 0)
    assert (await bench.ingest(plan=plan)).documents == counts(unchanged=3, added=1)
    assert source.requests.count("a.md") == 1


@pytest.mark.parametrize("reason", ["limit", "disk"])
async def test_pages_without_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Pages for which the disk has no room are fetched again, with the same result."""
    if reason == "limit":
        monkeypatch.setattr("lorebind_knowledge.ingest.prepared._MOST_SPOOLED", 15_000)
    else:
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    source = RemotePages()
    bench.change(sources=[source])
    report = await bench.ingest(plan=await bench.plan())
    assert report.documents == counts(added=3, failed=1)
    assert len(source.requests) == (6 if reason == "limit" else 7)


async def test_a_plan_of_another_strategy(bench: Bench, source: VersionedSource) -> None:
    """A new index needs the document, so it is read again even if it is unchanged."""
    await bench.ingest()
    plan = await bench.plan()
    report = await bench.ingest(strategy="replace", plan=plan)
    assert report.documents == counts(added=1)
    assert source.requests == ["", "one", ""]


async def test_another_recipe(bench: Bench, source: VersionedSource) -> None:
    """After a change of the chunker, a document is read again once, whatever its version."""
    await bench.ingest()
    bench.change(chunker=RecursiveChunker(32, 0))
    await bench.ingest()
    await bench.ingest()
    assert source.requests == ["", "", "one"]


async def test_rows_without_a_recipe(bench: Bench, source: VersionedSource) -> None:
    """A document stored before recipes existed is read again once, not in every run."""
    await bench.ingest()
    ledger, key = bench.catalog.ledger, bench.entry.key
    entry = ledger.documents(key)[URI]
    assert entry.recipe
    with bench.catalog.lease(bench.kb.namespace) as lease:
        ledger.put_documents(lease, key, [entry._replace(recipe="")], "earlier")
    assert (await bench.ingest()).documents == counts(unchanged=1)
    assert ledger.documents(key)[URI]._replace(updated_at=0.0) == entry._replace(updated_at=0.0)
    await bench.ingest()
    assert source.requests == ["", "", "one"]
    assert len(bench.index.chunk_ids(bench.entry, URI)) == 1
