"""The extension `prometheus`: metrics of ingests and searches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.wrappers import ExtensionBase
from lorebind_config.errors import UsageError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.events import Event, Extension
from lorebind_knowledge.extensions.prometheus_state import StateCollector, StateReader

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Overview

log = logging.getLogger("lorebind.extensions")

_LOOPBACK = "127.0.0.1"


class PrometheusExtension(ExtensionBase):
    """Metrics for Prometheus, in the registry of the process. It needs the extra `telemetry`."""

    provider: Literal["prometheus"] = Field(description="Metrics for Prometheus.")
    port: int | None = Field(
        None, ge=1, le=65535, description="Serve the metrics on this port, under `/metrics`."
    )
    address: str = Field(
        _LOOPBACK, min_length=1, description="The address to serve them on, if `port` is set."
    )
    textfile: str | None = Field(
        None,
        min_length=1,
        description="A file `*.prom`, relative to the project folder, for the textfile collector "
        "of node_exporter. It is written when the project is closed, if it has ingested.",
    )

    @property
    def written_to(self) -> str:
        return self.textfile or "the registry of the process"

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.port is not None and self.address not in (_LOOPBACK, "::1", "localhost"):
            yield "address", "reach", "other machines, which can read the metrics"
        yield "textfile", "write", OUTSIDE


Declaration = PrometheusExtension


def make(declaration: PrometheusExtension, environment: PartEnvironment) -> Prometheus:
    file = declaration.textfile
    return Prometheus(
        textfile=None if file is None else environment.root / file,
        port=declaration.port,
        address=declaration.address,
    )


class Prometheus(Extension):
    """Counts and times events, and shows the state of catalogs.

    Labels are ids of knowledge bases and words of small, fixed sets. Values are summed over all
    tenants, and over all projects that share a registry.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        textfile: Path | str | None = None,
        port: int | None = None,
        address: str = _LOOPBACK,
    ) -> None:
        """
        Args:
            registry: the registry of the metrics. None means a new one if there is a `textfile`,
                and `prometheus_client.REGISTRY` otherwise.
            textfile: a file that the whole registry is written to at shutdown, if anything was
                ingested.
            port: the port that serves the whole registry until shutdown. If it is not available,
                a warning is logged.
            address: the address of that port.

        Raises:
            MissingDependencyError: the extra `telemetry` is not installed.
            ValueError: the registry has other metrics with the same names.
            UsageError: the textfile is a folder.
        """
        if textfile is not None and Path(textfile).is_dir():
            raise UsageError(
                f"the textfile {textfile} is a folder; name a file, such as "
                f"{textfile}/lorebind.prom"
            )
        self._client: Any = import_extra(
            "prometheus_client", extra="telemetry", purpose="the extension prometheus"
        )
        if registry is None:
            # node_exporter already reports the resources of the process.
            registry = self._client.CollectorRegistry() if textfile else self._client.REGISTRY
        self.registry = registry
        """The registry of the metrics."""
        self.labelled: Collection[str] | None = None
        """The ids that become labels; all other knowledge bases are counted as `api`. None means
        that every id is a label, which is too many if callers of a server choose ids."""
        self._metrics = _metrics_in(registry, self._client)
        self._readers: list[StateReader] = []
        self._textfile = None if textfile is None else Path(textfile)
        self._has_ingested = False
        self._server: Any = None
        if port is not None:
            try:
                self._server, _ = self._client.start_http_server(port, address, registry)
            except OSError as error:  # another process of this project may serve on this port
                log.warning("metrics are not served at %s port %s: %s", address, port, error)

    def show_state(self, overview: Callable[[], Overview]) -> None:
        """Show the state of a project or a server too, until the project is closed.

        Args:
            overview: the method that reads the state, in the thread of each scrape.
        """
        self._readers.append(StateReader(overview, self._label))
        self._metrics.state.readers.append(self._readers[-1])

    def ingest_chunked(self, event: Event) -> None:
        if event.data["action"] == "failed":
            self._count_failure(event, "document")
        elif event.data["action"] != "unchanged":
            for kind, count in event.data["textless_parts"].items():
                self._metrics.textless.labels(self._label(event.kb_id), kind).inc(count)

    def ingest_embedded(self, event: Event) -> None:
        self._metrics.chunks.labels(self._label(event.kb_id)).inc(event.data["chunks"])
        self._metrics.cache_hits.labels(self._label(event.kb_id), "embedding").inc(
            event.data["cache_hits"]
        )

    def embedder_called(self, event: Event) -> None:
        operation, vectors = event.data["operation"], event.data["vectors"]
        self._metrics.embedder_calls.labels(self._label(event.kb_id), operation, vectors).inc()
        if event.data["kind"]:
            self._count_failure(event, "embedder")

    def ingest_completed(self, event: Event) -> None:
        report = event.data["report"]
        self._has_ingested = True
        self._metrics.ingests.labels(self._label(event.kb_id), report.status).inc()
        self._metrics.ingest_seconds.labels(self._label(event.kb_id)).observe(report.seconds)
        self._metrics.terms.labels(self._label(event.kb_id)).inc(report.terms_added)
        for source in report.sources:
            if source.status == "failed":
                self._metrics.failures.labels(
                    self._label(event.kb_id), "source", "SourceError"
                ).inc()

    def ingest_failed(self, event: Event) -> None:
        self._has_ingested = True
        cancelled = event.data["kind"] == "cancelled"
        self._metrics.ingests.labels(
            self._label(event.kb_id), "cancelled" if cancelled else "failed"
        ).inc()
        self._count_failure(event, "ingest")

    def reindex_failed(self, event: Event) -> None:
        self._count_failure(event, "reindex")

    def retrieval_completed(self, event: Event) -> None:
        data = event.data
        self._metrics.queries.labels(
            self._label(event.kb_id), data["strategy"], data["verdict"]
        ).inc()
        self._metrics.query_seconds.labels(self._label(event.kb_id)).observe(data["seconds"])
        if data["cached"]:
            self._metrics.cache_hits.labels(self._label(event.kb_id), "query").inc()

    def retrieval_failed(self, event: Event) -> None:
        self._metrics.queries.labels(
            self._label(event.kb_id), event.data["strategy"], "failed"
        ).inc()
        self._count_failure(event, "query")

    def workflow_ended(self, event: Event) -> None:
        data, metrics = event.data, self._metrics
        metrics.runs.labels(data["workflow"], data["status"]).inc()
        metrics.run_seconds.labels(data["workflow"]).observe(data["seconds"])

    def task_ended(self, event: Event) -> None:
        data, labels = event.data, (event.data["workflow"], event.data["task"])
        self._metrics.tasks.labels(*labels, data["status"]).inc()
        self._metrics.task_seconds.labels(*labels).observe(data["seconds"])

    def model_called(self, event: Event) -> None:
        data, labels = event.data, (event.data["provider"], event.data["model"])
        self._metrics.model_calls.labels(*labels, _outcome(data["kind"])).inc()
        self._metrics.model_seconds.labels(*labels).observe(data["seconds"])
        for kind in ("input", "output"):
            self._metrics.tokens.labels(*labels, kind).inc(data[f"{kind}_tokens"])

    def tool_called(self, event: Event) -> None:
        data = event.data
        outcome = _outcome(data["kind"]) if data["kind"] else data["status"]
        self._metrics.tool_calls.labels(data["tool"], outcome).inc()
        self._metrics.tool_seconds.labels(data["tool"]).observe(data["seconds"])

    def shutdown(self, event: Event) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._textfile is not None and self._has_ingested:
            try:
                self._textfile.parent.mkdir(parents=True, exist_ok=True)
                self._client.write_to_textfile(str(self._textfile), self.registry)
            except OSError as error:
                log.warning("metrics are not written to %s: %s", self._textfile, error)
        for reader in self._readers:
            self._metrics.state.readers.remove(reader)
        self._readers.clear()

    def _label(self, kb_id: str) -> str:
        return kb_id if self.labelled is None or kb_id in self.labelled else "api"

    def _count_failure(self, event: Event, operation: str) -> None:
        if event.data["kind"] != "cancelled":
            self._metrics.failures.labels(
                self._label(event.kb_id), operation, event.data["kind"]
            ).inc()


def _outcome(kind: str) -> str:
    return kind if kind == "cancelled" else "failed" if kind else "completed"


_OF_RUNS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


class _Metrics:
    """The metrics in one registry."""

    def __init__(self, registry: CollectorRegistry, client: Any) -> None:
        def counter(name: str, about: str, *labels: str) -> Any:
            by = labels if name.startswith("lorebind_") else ("kb_id", *labels)
            return client.Counter(name, about, by, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Any:
            by = labels or ("kb_id",)
            return client.Histogram(name, about, by, buckets=buckets, registry=registry)

        self.ingest_seconds = histogram(
            "knowledge_ingest_duration_seconds",
            "Duration of ingests that completed, in seconds",
            (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400),
        )
        self.query_seconds = histogram(
            "knowledge_query_latency_seconds",
            "Duration of searches that did not fail, in seconds",
            (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.chunks = counter("knowledge_chunks_total", "Chunks that ingests gave vectors")
        self.terms = counter(
            "knowledge_chunks_with_terms_total", "Chunks that completed ingests gave terms"
        )
        self.textless = counter(
            "knowledge_textless_parts_total",
            "Pages, slides and other parts without text in documents that ingests read",
            "kind",
        )
        self.ingests = counter("knowledge_ingests_total", "Ingests that ended", "outcome")
        self.queries = counter("knowledge_queries_total", "Searches", "strategy", "outcome")
        self.embedder_calls = counter(
            "knowledge_embedder_calls_total", "Calls to embedders", "operation", "vectors"
        )
        self.cache_hits = counter(
            "knowledge_cache_hits_total", "Vectors and searches found in a cache", "cache"
        )
        self.failures = counter("knowledge_failures_total", "Failures", "operation", "kind")
        by_model = ("provider", "model")
        self.runs = counter(
            "lorebind_workflow_runs_total",
            "Runs of workflows that ended or wait",
            *("workflow", "outcome"),
        )
        self.run_seconds = histogram(
            "lorebind_workflow_run_duration_seconds",
            "Duration of runs of workflows, in seconds",
            _OF_RUNS,
            "workflow",
        )
        self.tasks = counter(
            "lorebind_tasks_total",
            "Tasks of workflows that ended or wait",
            *("workflow", "task", "outcome"),
        )
        self.task_seconds = histogram(
            "lorebind_task_duration_seconds",
            "Duration of tasks of workflows, in seconds",
            _OF_RUNS,
            *("workflow", "task"),
        )
        self.model_calls = counter(
            "lorebind_model_calls_total", "Calls to chat models", *by_model, "outcome"
        )
        self.model_seconds = histogram(
            "lorebind_model_call_duration_seconds",
            "Duration of calls to chat models, in seconds",
            _OF_RUNS,
            *by_model,
        )
        self.tokens = counter(
            "lorebind_model_tokens_total", "Tokens that chat models reported", *by_model, "kind"
        )
        self.tool_calls = counter(
            "lorebind_tool_calls_total", "Calls of tools by chat models", "tool", "outcome"
        )
        self.tool_seconds = histogram(
            "lorebind_tool_call_duration_seconds",
            "Duration of calls of tools by chat models, in seconds",
            _OF_RUNS,
            "tool",
        )
        self.state = StateCollector(client)
        registry.register(self.state)


_by_registry: WeakKeyDictionary[CollectorRegistry, _Metrics] = WeakKeyDictionary()
_making = threading.Lock()  # two projects may begin to share a registry at once


def _metrics_in(registry: CollectorRegistry, client: Any) -> _Metrics:
    """Return the metrics of a registry, which accepts metrics of the same name only once."""
    with _making:
        if registry not in _by_registry:
            _by_registry[registry] = _Metrics(registry, client)
        return _by_registry[registry]
