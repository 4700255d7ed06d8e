"""The state of knowledge bases and workers: how it is counted, and how metrics show it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lorebind_config.errors import StoreError
from lorebind_config.namespace import Namespace, tenant
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.batches import About, Batch, Batches
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.catalog.overview import read_overview
from lorebind_knowledge.extensions import prometheus_state
from lorebind_knowledge.extensions.prometheus import Prometheus
from lorebind_knowledge.extensions.prometheus_state import StateReader
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.records import BatchCounts, KnowledgeBaseState, Overview

from .every_catalog import in_postgres
from .small_project import TEXTS, small_project

DOCS = Namespace("acme", "p", "project", "docs")
MANIFEST = Manifest("hashing/x", "key-1", 64, "chunker 1")
STATES = {"ready": 5, "pending": 2, "failed": 1}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def fill(catalog: Catalog, namespace: Namespace, *ends: str, unread: int | None = None) -> None:
    """Store an index with documents in each of `STATES`, and runs that ended in this order.

    Args:
        catalog: the catalog.
        namespace: the knowledge base.
        ends: the status of each run.
        unread: the number of documents that another run, which is running, has not read.
    """
    ledger = catalog.ledger
    with catalog.lease(namespace) as lease:
        index = ledger.create_index(lease, MANIFEST)
        ledger.activate_index(lease, index.key)
        rows = [
            DocumentEntry(f"{state}/{number}", "s", state=state)
            for state, count in STATES.items()
            for number in range(count)
        ]
        ledger.put_documents(lease, index.key, rows, "r")
        for end in ends:
            ledger.finish_run(lease, ledger.start_run(lease, "upsert"), end, None)
        if unread is not None:
            run_id = ledger.start_run(lease, "upsert")
            progress = {"documents": unread + 3, "documents_read": 3}
            catalog.runs.store_progress(lease, run_id, progress)
        successor = ledger.create_index(lease, MANIFEST)  # not searched yet
        ledger.put_documents(lease, successor.key, rows[:1], "r")


def test_the_state_of_knowledge_bases(catalog: Catalog) -> None:
    """Documents of the searched index are counted, and what a run has still to do."""
    assert read_overview(catalog, "p") == Overview()
    fill(catalog, DOCS, "completed", "completed_with_failures", "failed")
    other, new = replace(DOCS, tenant="bolt"), replace(DOCS, kb="new")
    fill(catalog, other, "completed", unread=7)
    fill(catalog, replace(DOCS, project="else"), "completed")
    fill(catalog, replace(DOCS, scope="collection"), "completed")
    with catalog.lease(new) as lease:
        catalog.ledger.create_index(lease, MANIFEST)
        catalog.ledger.start_run(lease, "upsert")
    states = read_overview(catalog, "p").knowledge_bases
    assert states.keys() == {DOCS, other, new}
    assert states[new] == KnowledgeBaseState({}, 0, None)
    for namespace, backlog, good in ((DOCS, 2, 1), (other, 9, 1)):
        runs = catalog.runs.list(namespace)
        assert states[namespace] == KnowledgeBaseState(STATES, backlog, runs[good].ended_at)


def test_batches(dsn: str) -> None:
    """Batches that no worker has are waiting, and those that are done count no more."""
    catalog = in_postgres(dsn)
    assert catalog.postgres is not None
    batches = Batches(catalog.postgres)
    about = About("acme", "docs", "local/x", "1")
    ids = ["waits", "waits too", "runs", "ended"]
    with catalog.lease(DOCS) as lease:
        batches.add(lease, [Batch(name, "key", about, ["text"]) for name in ids], leases.check)
        other = Batch("z", "other", replace(about, embedder="b"), ["text"])
        batches.add(lease, [other], leases.check)
        batches.take("runs", "worker", ["key"])
        batches.take("ended", "worker", ["key"])
        batches.finish("ended")
        expected = {"key": BatchCounts("local/x", 2, 1), "other": BatchCounts("b", 1)}
        assert read_overview(catalog, "p").batches == expected
    catalog.close()


async def test_what_metrics_show(tmp_path: Path, registry: CollectorRegistry) -> None:
    """Tenants are summed, and the earliest of their ingests counts, until the project is closed."""
    extension = Prometheus(registry)
    on_disk = [{"id": "main", "type": "sqlite"}]
    service = small_project(tmp_path, extensions=[extension], vector_dbs=on_disk)
    assert "knowledge_documents{" not in generate_latest(registry).decode()
    for name in ("acme", "bolt"):
        with tenant(name):
            await ingest(service.open("docs").corpus())
    overview = service.overview()
    earliest = min(kb.last_good_ingest or 0 for kb in overview.knowledge_bases.values())
    extension.labelled = ()
    _forget(extension)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"knowledge_{name}", {"kb_id": "api", **labels})

    assert value("documents", state="ready") == 2 * len(TEXTS)
    assert value("documents", state="failed") == value("documents", state="pending") == 0
    assert value("backlog_documents") == 0
    assert value("last_ingest_timestamp_seconds") == earliest
    await service.close()
    assert value("backlog_documents") is None


def _forget(extension: Prometheus) -> None:
    for reader in extension._readers:
        reader._until = 0


class Source:
    """A project whose state is read, with a clock that only its reads move."""

    def __init__(self) -> None:
        self.now, self.seconds = 100.0, 0.0
        self.reads = 0
        self.error: Exception | None = None

    def overview(self) -> Overview:
        self.reads += 1
        self.now += self.seconds
        if self.error:
            raise self.error
        return Overview({DOCS: KnowledgeBaseState({"ready": self.reads}, 0, None)})


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source()
    monkeypatch.setattr(prometheus_state, "monotonic", lambda: source.now)
    return source


@pytest.mark.parametrize(("seconds", "pause"), [(0.0, 1.0), (2.0, 40.0)])
def test_how_often_the_state_is_read(source: Source, seconds: float, pause: float) -> None:
    """At most once a second; a read that takes long is followed by a longer pause."""
    source.seconds = seconds
    reader = StateReader(source.overview, str)
    first = reader.read()
    source.now += 0.9 * pause
    assert reader.read() is first
    source.now += 0.2 * pause
    assert reader.read() is not first
    assert source.reads == 2


def test_a_database_that_does_not_answer(
    source: Source, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """The metrics are omitted, and the log says why, once for each outage."""
    Prometheus(registry).show_state(source.overview)
    visible = []
    for error in (None, StoreError("it is away"), StoreError("it is away"), None):
        source.error = error
        source.now += 2
        visible.append("knowledge_documents{" in generate_latest(registry).decode())
    assert visible == [True, False, False, True]
    assert caplog.text.count("gauges are omitted: it is away") == 1


def test_a_read_that_hangs(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other scrapes do not wait for it: they get the previous state."""
    monkeypatch.setattr(prometheus_state, "_WAIT_SECONDS", 0.01)
    begun, may_end = threading.Event(), threading.Event()

    class Hanging(Source):
        def overview(self) -> Overview:
            if self.reads:
                begun.set()
                may_end.wait()
            return super().overview()

    hanging = Hanging()
    reader = StateReader(hanging.overview, str)
    first = reader.read()
    source.now += 2
    scrape = threading.Thread(target=reader.read)
    scrape.start()
    begun.wait()
    assert reader.read() is first
    may_end.set()
    scrape.join()
    assert reader.read() is not first


def test_a_project_that_is_gone(registry: CollectorRegistry) -> None:
    """Metrics do not keep a project alive that nobody has closed."""
    source = Source()
    Prometheus(registry).show_state(source.overview)
    del source
    assert "knowledge_documents{" not in generate_latest(registry).decode()
