"""Generate the reference of events and metrics, one Markdown page, from the code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from lorebind_bindings import event_schema
from lorebind_knowledge import Extension
from lorebind_knowledge.extensions.prometheus import Prometheus

PAGE = "docs/reference/events.md"

_INTRODUCTION = """\
# Events and metrics

Lorebind reports its work in three ways: *hooks* call your code for each step of an ingest or
search, *run events* describe the run of a workflow, and *metrics* count both for Prometheus. None
of them contains secrets. [Operate a project](../how-to/operating.md) shows how to use them.

## Hooks

Inherit `Extension` and implement any of these methods. Each gets an `Event` with `kb_id`, `run_id`,
`namespace` (tenant, project, scope and id of the knowledge base) and `data`. Texts of documents and
questions, and the reasons of failures, which may quote them, are part of `data` only if the
extension sets `content = True`.
"""

_RUNS = """\
## Run events

`project.run_stream` yields a `RunEvent` for each step of a run; `lorebind run --stream` prints
them, `--events FILE` writes one JSON object per line, and the server sends them as server-sent
events. Each has `type`, `version`, `seq` (counts the events of a run from 1), `thread_id`, `task`,
`path` and `data`. `event_schema()` returns the JSON Schema.
"""

_METRICS = """\
## Metrics

The extension `prometheus` (extra `telemetry`) provides these. `lorebind serve` adds them to
`/metrics`.
"""


def event_reference() -> str:
    """Return the page: hooks, run events and metrics, a table each."""
    return "\n".join(
        [
            _INTRODUCTION,
            *_table(("hook", "when, and what `data` contains"), _hooks()),
            _RUNS,
            *_table(("type", "meaning", "keys of `data`"), _run_events()),
            _METRICS,
            *_table(("metric", "type", "meaning", "labels"), _metrics()),
        ]
    )


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _hooks() -> Iterator[tuple[str, str]]:
    for name, hook in vars(Extension).items():
        if inspect.isfunction(hook):
            yield f"`{name}`", " ".join((inspect.getdoc(hook) or "").split())


def _run_events() -> Iterator[tuple[str, str, str]]:
    schema = event_schema()
    for name in schema["properties"]["type"]["enum"]:
        data = schema["$defs"][name]
        keys = (_key(key, value) for key, value in data.get("properties", {}).items())
        yield f"`{name}`", data["description"], "; ".join(keys) or "any"


def _key(name: str, value: Mapping[str, Any]) -> str:
    text = value.get("description", "").removesuffix(".")
    return f"`{name}` ({text[:1].lower()}{text[1:]})" if text else f"`{name}`"


def _metrics() -> Iterator[tuple[str, str, str, str]]:
    registry = CollectorRegistry()
    Prometheus(registry)
    collectors: list[Any] = list(registry._collector_to_names)
    for collector in collectors:
        for family in collector.describe():
            name = family.name + "_total" * (family.type == "counter")
            labels = getattr(collector, "_labelnames", ()) or family._labelnames
            quoted = ", ".join(f"`{label}`" for label in labels)
            yield f"`{name}`", family.type, family.documentation, quoted
