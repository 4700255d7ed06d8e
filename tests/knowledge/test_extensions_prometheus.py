"""The extension `prometheus`: its metrics, their labels, and where they can be read."""

from __future__ import annotations

import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lorebind_config.errors import ConfigurationError, EmbedderError, NotIngestedError, UsageError
from lorebind_config.namespace import tenant
from lorebind_knowledge.events import Event, Events
from lorebind_knowledge.extensions.prometheus import Prometheus
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.reindexing import reindex

from .bench import Bench
from .documents import pdf_bytes
from .small_project import QUESTION, TEXTS, small_project
from .sparse_words import SparseWords, with_sparse

LABELS = {"kb_id", "strategy", "outcome", "operation", "vectors", "kind", "cache", "le", "state"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, kb_id: str = "docs", **labels: str) -> float:
    return registry.get_sample_value(f"knowledge_{name}", {"kb_id": kb_id, **labels}) or 0.0


def check_names(exposed: str) -> set[str]:
    """Check that each metric has a unit or `_total`, a help text, and bounded labels only."""
    families = [family for family in text_string_to_metric_families(exposed) if family.samples]
    ours = [family for family in families if family.name.startswith("knowledge_")]
    for family in ours:
        assert family.documentation
        if family.type == "counter":
            assert f"# TYPE {family.name}_total counter" in exposed
        elif family.type == "histogram":
            assert family.name.endswith("_seconds")
        assert {label for sample in family.samples for label in sample.labels} <= LABELS
    return {family.name for family in ours if not family.name.endswith("_created")}


async def test_what_is_counted(tmp_path: Path, registry: CollectorRegistry) -> None:
    """Ingests, searches and cached searches are counted, also for an ingest without changes."""
    extensions = [Prometheus(registry)]
    cache = [{"type": "cache"}]
    service = small_project(tmp_path, extensions=extensions, wrappers=cache)
    docs = service.open("docs")
    await ingest(docs.corpus())
    await docs.query(QUESTION)
    await docs.query(QUESTION)
    await ingest(docs.corpus())
    await reindex(docs.corpus())
    await service.close()

    assert value(registry, "ingests_total", outcome="completed") == 3
    assert value(registry, "ingest_duration_seconds_count") == 3
    assert 0 < value(registry, "ingest_duration_seconds_sum") < 60
    assert value(registry, "chunks_total") == 4
    assert value(registry, "cache_hits_total", cache="embedding") == 2
    assert value(registry, "cache_hits_total", cache="query") == 1
    assert (
        value(registry, "embedder_calls_total", operation="embed_documents", vectors="dense") == 1
    )
    assert value(registry, "embedder_calls_total", operation="embed_query", vectors="dense") == 1
    hits = value(registry, "queries_total", strategy="hybrid", outcome="hit")
    weak = value(registry, "queries_total", strategy="hybrid", outcome="weak")
    assert hits + weak == 2
    assert value(registry, "query_latency_seconds_count") == 2
    assert check_names(generate_latest(registry).decode()) == {
        "knowledge_ingest_duration_seconds",
        "knowledge_ingests",
        "knowledge_chunks",
        "knowledge_chunks_with_terms",
        "knowledge_query_latency_seconds",
        "knowledge_queries",
        "knowledge_embedder_calls",
        "knowledge_cache_hits",
    }


@pytest.mark.usefixtures("without_ocr")
async def test_parts_without_text(bench: Bench, registry: CollectorRegistry) -> None:
    """Pages without text count when an ingest reads their document."""
    bench.change(events=Events([Prometheus(registry)]))
    bench.write_bytes("a.md", pdf_bytes(["Keys", "", ""]))
    for _ in range(2):
        await bench.ingest()
    assert value(registry, "textless_parts_total", kind="page") == 2


async def test_passages_with_terms(bench: Bench, registry: CollectorRegistry) -> None:
    """Passages count when an ingest gives them terms, those of earlier ingests too."""
    bench.change(events=Events([Prometheus(registry)]))
    bench.write("a.md", "alpha")
    await bench.ingest()
    assert value(registry, "chunks_with_terms_total") == 0
    with_sparse(bench, SparseWords())
    bench.write("b.md", "beta")
    await bench.ingest()
    await bench.ingest()
    assert value(registry, "chunks_with_terms_total") == 2


async def test_failures_by_kind(bench: Bench, registry: CollectorRegistry) -> None:
    """Searches without an index, unreadable documents and embedder outages are counted by kind."""
    bench.change(events=Events([Prometheus(registry)]))
    with pytest.raises(NotIngestedError):
        await bench.ask("alpha")
    bench.write("a.md", "alpha")
    bench.write_bytes("b.md", b"\xff\xfe\xfa")
    await bench.ingest()

    def fail(number: int) -> None:
        raise EmbedderError("gone")

    bench.embedder.before_batch = fail
    bench.write("c.md", "gamma")
    with pytest.raises(EmbedderError):
        await bench.reindex()

    def failures(operation: str, kind: str) -> float:
        return value(registry, "failures_total", operation=operation, kind=kind)

    assert failures("query", "NotIngestedError") == 1
    assert value(registry, "queries_total", strategy="hybrid", outcome="failed") == 1
    assert value(registry, "query_latency_seconds_count") == 0
    assert failures("document", "SourceError") == 2  # the reindex tries it again
    assert value(registry, "ingests_total", outcome="completed_with_failures") == 1
    assert failures("ingest", "EmbedderError") == 1
    assert failures("reindex", "EmbedderError") == 1
    assert value(registry, "ingests_total", outcome="failed") == 1
    check_names(generate_latest(registry).decode())


async def test_calls_of_the_embedder_that_fail(tmp_path: Path, registry: CollectorRegistry) -> None:
    """A call that fails is counted as a call and as a failure."""
    (tmp_path / "own.py").write_text(
        "from langchain_core.embeddings import Embeddings\n"
        "class Gone(Embeddings):\n"
        "    def embed_documents(self, texts): raise ConnectionError\n"
        "    def embed_query(self, text): raise ConnectionError\n",
        encoding="utf-8",
    )
    gone = [{"id": "gone", "provider": "langchain", "class": "own:Gone", "retry": {"attempts": 1}}]
    service = small_project(tmp_path, extensions=[Prometheus(registry)], embedders=gone)
    with pytest.raises(EmbedderError):
        await ingest(service.open("docs").corpus())
    await service.close()
    calls = value(registry, "embedder_calls_total", operation="embed_query", vectors="dense")
    assert calls == 1  # the call that measures the dimension
    assert value(registry, "failures_total", operation="embedder", kind="EmbedderError") == 1
    assert value(registry, "failures_total", operation="ingest", kind="EmbedderError") == 1


def test_what_is_cancelled_is_no_failure(registry: CollectorRegistry) -> None:
    """A cancelled ingest has its own outcome."""
    data = {"reason": "cancelled", "kind": "cancelled"}
    Events([Prometheus(registry)]).emit("ingest_failed", Event("docs", data=data))
    assert value(registry, "ingests_total", outcome="cancelled") == 1
    assert "knowledge_failures_total{" not in generate_latest(registry).decode()


async def test_sources_that_fail(tmp_path: Path, registry: CollectorRegistry) -> None:
    """An ingest that can read none of its sources counts as failed."""
    bases = [{"id": "docs", "sources": [{"type": "markdown_glob", "path": "none/*.md"}]}]
    service = small_project(tmp_path, extensions=[Prometheus(registry)], knowledge_bases=bases)
    report = await ingest(service.open("docs").corpus())
    await service.close()
    assert report.status == "failed"
    assert value(registry, "ingests_total", outcome="failed") == 1
    assert value(registry, "failures_total", operation="source", kind="SourceError") == 1


async def test_tenants_and_texts_are_no_labels(tmp_path: Path, registry: CollectorRegistry) -> None:
    """Values of two tenants are summed; neither tenants nor texts are visible."""
    extension = Prometheus(registry)
    extension.content = True
    service = small_project(tmp_path, extensions=[extension])
    docs = service.open("docs")
    for name in ("acme", "bolt"):
        with tenant(name):
            await ingest(docs.corpus())
            await docs.query(QUESTION)
    await service.close()
    assert value(registry, "ingests_total", outcome="completed") == 2
    exposed = generate_latest(registry).decode()
    for word in ("acme", "bolt", "zebra", *TEXTS, QUESTION, "inline:"):
        assert word not in exposed


async def test_projects_of_one_process(tmp_path: Path) -> None:
    """Two projects, one of them loaded twice, share the metrics of the process."""
    documents = [{"id": "a", "text": "alpha"}]
    for name in ("one", "one", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        bases = [{"id": f"kb-{name}", "sources": [{"type": "inline", "documents": documents}]}]
        service = small_project(tmp_path / name, {"provider": "prometheus"}, knowledge_bases=bases)
        await ingest(service.open(f"kb-{name}").corpus())
        await service.close()
    assert value(REGISTRY, "chunks_total", "kb-one") == 2
    assert value(REGISTRY, "chunks_total", "kb-two") == 1


def test_names_that_are_taken(registry: CollectorRegistry) -> None:
    """A registry that has another metric with such a name raises an error that names it."""
    Counter("knowledge_chunks", "of another program", registry=registry)
    with pytest.raises(ValueError, match="knowledge_chunks"):
        Prometheus(registry)


async def test_the_textfile(tmp_path: Path) -> None:
    """A project that has ingested writes the file when closed, without process metrics."""
    declared = {"provider": "prometheus", "textfile": "metrics/lore.prom"}
    file = tmp_path / "metrics" / "lore.prom"
    on_disk = [{"id": "main", "type": "sqlite"}]
    service = small_project(tmp_path, declared, vector_dbs=on_disk)
    await ingest(service.open("docs").corpus())
    assert not file.exists()
    await service.close()
    written = file.read_text(encoding="utf-8")
    assert 'knowledge_chunks_total{kb_id="docs"} 2.0' in written
    assert "python_info" not in written
    check_names(written)
    assert list(file.parent.iterdir()) == [file]

    service = small_project(tmp_path, declared, vector_dbs=on_disk)
    await service.open("docs").query(QUESTION)
    await service.close()
    assert file.read_text(encoding="utf-8") == written


async def test_an_ingest_that_fails_is_in_the_textfile(tmp_path: Path) -> None:
    """A failed ingest is written to the file, so that a failing cron job is visible."""
    extension = Prometheus(textfile=tmp_path / "lore.prom")
    failed = Event("docs", data={"reason": "gone", "kind": "EmbedderError"})
    events = Events([extension])
    events.emit("ingest_failed", failed)
    events.emit("shutdown", Event(""))
    written = (tmp_path / "lore.prom").read_text(encoding="utf-8")
    assert 'knowledge_ingests_total{kb_id="docs",outcome="failed"} 1.0' in written


def test_a_textfile_that_is_a_folder(tmp_path: Path) -> None:
    """If the textfile names a folder, loading the project says so."""
    (tmp_path / "metrics").mkdir()
    expected = f"the textfile {tmp_path}/metrics is a folder; name a file, such as "
    with pytest.raises(UsageError, match=expected):
        small_project(tmp_path, {"provider": "prometheus", "textfile": "metrics"})


async def test_a_textfile_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that cannot be written when the project is closed is a warning, without traceback."""
    (tmp_path / "metrics").write_text("a file, not a folder")
    declared = {"provider": "prometheus", "textfile": "metrics/lore.prom"}
    service = small_project(tmp_path, declared)
    await ingest(service.open("docs").corpus())
    await service.close()
    (record,) = caplog.records
    assert record.getMessage().startswith("metrics are not written to ")
    assert record.exc_info is None


@pytest.mark.parametrize(
    ("declared", "output"),
    [
        ([{"provider": "logging"}, {"provider": "logging", "format": "json"}], "the loggers below"),
        ([{"provider": "prometheus"}, {"provider": "prometheus", "port": 9464}], "the registry of"),
        ([{"provider": "prometheus", "textfile": "a.prom"}] * 2, "a.prom"),
    ],
    ids=["logging", "registry", "textfile"],
)
def test_two_with_one_output(tmp_path: Path, declared: list[Any], output: str) -> None:
    """Two extensions that would count or log each event twice are refused."""
    with pytest.raises(ConfigurationError, match=f"two extensions .* write to {output}") as caught:
        small_project(tmp_path, *declared)
    assert "keep one of them; the first is at " in str(caught.value)


def test_two_textfiles(tmp_path: Path) -> None:
    """Each textfile has its own metrics, so a project may have several."""
    files = [{"provider": "prometheus", "textfile": f"{name}.prom"} for name in "ab"]
    assert len(small_project(tmp_path, *files).events.extensions) == 2


@pytest.mark.enable_socket
async def test_the_port(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Metrics are served on loopback until closed; a taken port is only a warning."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    declared = {"provider": "prometheus", "port": port}
    service = small_project(tmp_path, declared)
    other = small_project(tmp_path, declared)
    assert f"not served at 127.0.0.1 port {port}" in caplog.text
    await ingest(service.open("docs").corpus())
    assert 'knowledge_chunks_total{kb_id="docs"}' in _served(port)
    await other.close()
    await service.close()
    with pytest.raises(OSError, match="refused"):
        _served(port)


def _served(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, loading the project says what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"lorebind\[telemetry\]"):
        small_project(tmp_path, {"provider": "prometheus"})
