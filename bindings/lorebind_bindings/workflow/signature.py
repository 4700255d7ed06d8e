"""A fingerprint of a workflow's graph, stored with each thread to detect a changed graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lorebind_config.namespace import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_config.declarations.tasks import TaskBase
    from lorebind_config.reading.loaded import LoadedProject


def signature(loaded: LoadedProject, workflow: str) -> dict[str, str]:
    """Return a hash of the kind and the edges of each task, by the task's path.

    Prompts, models, knowledge, conditions and settings are not included: they may change while a
    thread waits.
    """
    return dict(_signed(loaded, loaded.workflow(workflow).tasks, ""))


def _signed(
    loaded: LoadedProject, tasks: Sequence[TaskBase], prefix: str
) -> Iterator[tuple[str, str]]:
    for place, task in enumerate(tasks):
        path = f"{prefix}{task.id}"
        kind = getattr(task, task.kind_key)
        graph = [kind, place, task.targets(), task.final, getattr(task, "workflow", None)]
        yield path, digest(json.dumps(graph, sort_keys=True))[:12]
        for flow in task.flows():
            yield from _signed(loaded, flow, f"{path}.")
        if kind == "composite":
            inner = loaded.workflow(graph[-1]).tasks
            yield from _signed(loaded, inner, f"{path}.")


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the paths of the tasks that were added, removed or changed."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
