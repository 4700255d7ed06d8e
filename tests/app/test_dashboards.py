"""The metrics that dashboards and alerts query exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from lorebind_knowledge.extensions.prometheus import Prometheus

ENDS = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
}
DOCS = Path(__file__).resolve().parents[2] / "docs"


def metrics() -> dict[str, set[str]]:
    """Return the labels of each metric, by all names under which it can be queried."""
    registry = CollectorRegistry()
    Prometheus(registry)
    by_name: dict[str, set[str]] = {"up": {"job", "instance"}}
    collectors: list[Any] = list(registry._collector_to_names)
    for collector in collectors:
        for family in collector.describe():
            labels = set(getattr(collector, "_labelnames", ()) or family._labelnames)
            for end in ENDS[family.type]:
                by_name[family.name + end] = labels | ({"le"} if end == "_bucket" else set())
    return by_name


def expressions() -> list[str]:
    panels = json.loads((DOCS / "grafana.json").read_text())["panels"]
    groups = yaml.safe_load((DOCS / "alerts.yaml").read_text())["groups"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    return queries + [rule["expr"] for group in groups for rule in group["rules"]]


def test_metrics_and_labels_are_there() -> None:
    by_name = metrics()
    queries = expressions()
    assert len(queries) > 10
    for expression in queries:
        names = re.findall(r"\b(?:up|knowledge_\w+|lorebind_\w+)\b", expression)
        assert names, expression
        assert set(names) <= by_name.keys(), expression
        labels = {label for name in names for label in by_name[name]}
        grouped = re.findall(r"by \(([^)]*)\)", expression)
        used = {label.strip() for group in grouped for label in group.split(",")}
        used |= set(re.findall(r"(\w+)=~?\"", expression))
        assert used <= labels, expression
