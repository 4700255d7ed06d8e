"""The events of a run, and their JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, TypeAlias

EventType: TypeAlias = Literal[
    "run_start",
    "task_start",
    "task_retry",
    "task_skipped",
    "task_end",
    "model_chunk",
    "model_end",
    "retrieval",
    "tool_call",
    "custom",
    "waiting",
    "diagnostic",
    "run_end",
]

EVENT_BUFFER = 1024
"""Default maximum number of unread events of a subscriber."""

VERSION = 1
"""Version of the event format. It changes when programs that read events have to change."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event in a run of a workflow.

    Events contain the outputs of tasks and the texts of models, so subscribers see what the run
    produces. They do not contain input values, nor secrets that no task outputs.
    """

    type: EventType
    version: int
    seq: int
    """Number of the event in the run, counted from 1. A notice of lost events has the number of the
    last lost event."""
    thread_id: str
    task: str
    """The id of the task; empty for events of the run."""
    path: str
    """Path of the task, as in `answers[3].answer`."""
    data: Mapping[str, Any]
    """Plain JSON; `event_schema()` describes it for each type."""

    def as_json(self) -> dict[str, Any]:
        """Return the event as plain JSON data, as `event_schema` describes it."""
        return {name: getattr(self, name) for name in self.__slots__} | {"data": dict(self.data)}

    @property
    def dropped(self) -> int:
        """Number of events that the subscriber lost before this notice; 0 for other events."""
        return int(self.data.get("dropped", 0)) if self.type == "diagnostic" else 0


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an event, with the `data` of each type."""
    text = (files(__package__) / "event_schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
