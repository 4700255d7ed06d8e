"""What an event of a run is, and its JSON Schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

EventType: TypeAlias = Literal[
    "run_start",
    "task_start",
    "task_retry",
    "task_skipped",
    "task_end",
    "model_chunk",
    "model_end",
    "retrieval",
    "custom",
    "waiting",
    "diagnostic",
    "run_end",
]

VERSION = 1
"""Of the shape of events. It changes when a program that reads them has to change."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened in a run of a workflow.

    Events hold the outputs of tasks and the texts of models: whoever asks for events sees what the
    run produces. They hold no values of inputs, and no secret that a task does not output.
    """

    type: EventType
    version: int
    seq: int
    """Counts the events of a run from 1. A notice of lost events has the number of the last one
    that was lost."""
    thread_id: str
    task: str
    """The id of the task; empty for events of the run."""
    path: str
    """Where the task runs, as in `answers[3].answer`."""
    data: Mapping[str, Any]
    """Plain JSON; `event_schema()` describes it for each type."""

    def as_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "version": self.version,
            "seq": self.seq,
            "thread_id": self.thread_id,
            "task": self.task,
            "path": self.path,
            "data": dict(self.data),
        }

    @property
    def dropped(self) -> int:
        """How many events the subscriber lost before this one; 0 unless this is such a notice."""
        return int(self.data.get("dropped", 0)) if self.type == "diagnostic" else 0


def event_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one event, with what `data` holds for each type."""
    text = (files(__package__) / "event_schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
