"""Metrics of knowledge bases, workers and background runs, whose state is read at each scrape."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from lorebind_config.errors import LorebindError
from lorebind_knowledge.records import Overview

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = logging.getLogger("lorebind.extensions")

_CACHE_SECONDS = 1.0
"""How long a state counts, so that many scrapes read no more often."""
_SHARE = 20
"""A read that takes a second is followed by this many seconds without one, so that the count of
many documents costs a database at most a twentieth of its time."""
_WAIT_SECONDS = 5.0
"""Seconds that a scrape waits for the read of another one."""


class StateReader:
    """Reads the state of a project, at most once at a time, and keeps it for a while."""

    def __init__(self, overview: Callable[[], Overview], label: Callable[[str], str]) -> None:
        """
        Args:
            overview: the method that reads the state; its object is not kept alive.
            label: returns the label of the id of a knowledge base.
        """
        self.label = label
        self._overview = WeakMethod(overview)
        self._lock = threading.Lock()
        self._state: Overview | None = None
        self._until = float("-inf")
        self._fails = False

    def read(self) -> Overview | None:
        """Return the state; None during an outage, and when its owner is gone.

        While another thread reads, it returns the previous state after some seconds.
        """
        overview = self._overview()
        if overview is None:
            return None
        if not self._lock.acquire(timeout=_WAIT_SECONDS):
            return self._state
        try:
            begun = monotonic()
            if begun >= self._until:
                self._state = self._read(overview)
                now = monotonic()
                self._until = now + max(_CACHE_SECONDS, _SHARE * (now - begun))
            return self._state
        finally:
            self._lock.release()

    def _read(self, overview: Callable[[], Overview]) -> Overview | None:
        try:
            state = overview()
        except LorebindError as error:
            if not self._fails:
                log.warning("gauges are omitted: %s", error)
            self._fails = True
            return None
        self._fails = False
        return state


class StateCollector:
    """A collector for the registry of `prometheus_client`."""

    def __init__(self, client: Any) -> None:
        self._core = client.metrics_core
        self.readers: list[StateReader] = []

    def describe(self) -> Collection[Metric]:
        return list(self._families().values())

    def collect(self) -> Iterator[Metric]:
        families = self._families()
        documents: Counter[tuple[str, str]] = Counter()
        backlog: Counter[str] = Counter()
        ended: defaultdict[str, list[float]] = defaultdict(list)
        batches: defaultdict[str, Counter[str]] = defaultdict(Counter)
        runs: Counter[tuple[str, str]] = Counter()
        for reader in list(self.readers):
            state = reader.read() or Overview()
            for namespace, kb in state.knowledge_bases.items():
                label = reader.label(namespace.kb)
                backlog[label] += kb.backlog
                for name in ("ready", "pending", "failed"):
                    documents[label, name] += kb.documents.get(name, 0)
                if kb.last_good_ingest is not None:
                    ended[label].append(kb.last_good_ingest)
            runs.update(state.background_runs)
            for counts in state.batches.values():
                about = vars(counts)
                batches[counts.embedder].update({name: about[name] for name in _OF_BATCHES})
        for labels, count in documents.items():
            families["documents"].add_metric(labels, count)
        for label, count in backlog.items():
            families["backlog"].add_metric([label], count)
        for label, times in ended.items():
            families["ended"].add_metric([label], min(times))
        for embedder, numbers in batches.items():
            for name in ("waiting", "running"):
                families["batches"].add_metric([embedder, name], numbers[name])
            families["failed"].add_metric([embedder], numbers["failed"])
            families["slots"].add_metric([embedder], numbers["slots"])
        for labels, count in runs.items():
            families["runs"].add_metric(labels, count)
        yield from families.values()

    def _families(self) -> dict[str, Any]:
        gauge, counter = self._core.GaugeMetricFamily, self._core.CounterMetricFamily
        return {
            "documents": gauge(
                "knowledge_documents", "Documents by state", labels=["kb_id", "state"]
            ),
            "backlog": gauge(
                "knowledge_backlog_documents",
                "Documents that ingests have listed and not made searchable yet",
                labels=["kb_id"],
            ),
            "ended": gauge(
                "knowledge_last_ingest_timestamp_seconds",
                "Time at which the last ingest that was not aborted ended, in seconds since 1970; "
                "with several tenants, the earliest",
                labels=["kb_id"],
            ),
            "batches": gauge(
                "knowledge_batches",
                "Batches of texts that wait for workers, or that workers embed",
                labels=["embedder", "state"],
            ),
            "failed": counter(
                "knowledge_batches_failed",
                "Batches of texts of ingests of this process that workers could not embed",
                labels=["embedder"],
            ),
            "slots": gauge(
                "knowledge_worker_slots",
                "Batches of texts that the live workers can embed at the same time",
                labels=["embedder"],
            ),
            "runs": gauge(
                "lorebind_background_runs",
                "Background runs of workflows that have not ended, or that wait for an answer",
                labels=["workflow", "state"],
            ),
        }


_OF_BATCHES = ("waiting", "running", "failed", "slots")
