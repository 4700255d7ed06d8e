"""The results of a workflow run, and the stored records of its tasks."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from lorebind_bindings.retrieving import best_of
from lorebind_prompts import Citation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lorebind_bindings.retrieving import Verdict

_MOST = 1024
"""Maximum number of outcomes that a project caches."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task of a run."""

    output: Any
    """Plain JSON. None if the task was skipped, or failed and its failure was handled."""
    verdict: str
    """The verdict of the task's searches, see `Verdict`."""
    citations: list[Citation]
    """The passages that the task cites."""
    unknown_markers: list[str]
    """Markers in its answer that belong to no passage."""
    status: str = "completed"
    """`completed`, `skipped`, `failed` if an `on_error` or a strategy has handled the failure, or
    `cancelled` if a strategy continued without it."""
    error: dict[str, str] | None = None
    """`task`, `path`, `type` and `message` of the failure."""
    attempts: int = 1
    """Number of attempts; 0 if the task was skipped."""
    items: list[TaskResult] = field(default_factory=list)
    """The result of each item of a collection, in the order of the items."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a workflow run."""

    output: Any
    """The declared outputs by name; the output of the last task that ran if none is declared."""
    tasks: dict[str, TaskResult]
    """The results of all tasks of the workflow and of its parallel branches, by id."""
    citations: list[Citation]
    """The citations of all tasks, without duplicates."""
    thread_id: str
    """The id with which the run can be resumed and its history read."""
    usage: dict[str, Any]
    """The prompt tokens, and the usage that the model reported, by task id."""
    status: str = "completed"
    """`completed`, `waiting` for answers, or `paused` before a task."""
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """`task`, `path`, `prompt` and `schema` of each open question."""
    paused: list[str] = field(default_factory=list)
    """The paths of the tasks of `interrupt_before` that the run paused before."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a task's own work, before it is stored."""

    output: Any = None
    verdict: Verdict = "none"
    citations: list[Citation] = field(default_factory=list)
    unknown_markers: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)
    """The values that it writes into channels, in order."""
    blocks: dict[str, str] = field(default_factory=dict)
    """Blocks of passages by name, which later tasks can use as `{{ .workflow.vars.x }}`."""
    parts: dict[str, Done] = field(default_factory=dict)
    """The nested tasks that ran once, by id."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """The record of each item of a collection, see `JobResult.as_item`; also its `output` if the
    collection failed as a whole."""
    route: str = ""
    """The field of a router that names the next tasks."""


@dataclass(frozen=True, slots=True)
class Update:
    """A value for a channel."""

    channel: str
    value: Any
    path: str
    """The path of the task that wrote it."""


@dataclass(slots=True)
class Done:
    """The stored record of a task that has ended; plain JSON."""

    key: str
    status: str
    outcome: Outcome
    error: dict[str, str] | None = None
    attempts: int = 1
    seconds: float = 0.0
    at: str = ""
    """The time at which it ended, in UTC."""
    step: int = 0
    """Number of tasks that had ended before in the same turn."""

    def result(self) -> TaskResult:
        outcome = self.outcome
        items = [
            TaskResult(
                item["output"] if self.error else outcome.output[at],
                item["verdict"],
                list(map(Citation.from_data, item["citations"])),
                item["unknown_markers"],
                item["status"],
                item["error"],
                item["attempts"],
            )
            for at, item in enumerate(outcome.items)
        ]
        return TaskResult(
            outcome.output,
            outcome.verdict,
            outcome.citations,
            outcome.unknown_markers,
            self.status,
            self.error,
            self.attempts,
            items,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the record as plain JSON; values are not copied."""
        outcome = self.outcome
        written = {name: getattr(outcome, name) for name in _OUTCOME}
        written["citations"] = [asdict(citation) for citation in outcome.citations]
        written["updates"] = [asdict(update) for update in outcome.updates]
        written["parts"] = {name: done.as_json() for name, done in outcome.parts.items()}
        return {name: getattr(self, name) for name in _DONE} | {"outcome": written}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Done:
        """Return the record that `as_json` was called on.

        Raises:
            KeyError, TypeError: the data has another form.
        """
        written = dict(data["outcome"])
        written["citations"] = list(map(Citation.from_data, written["citations"]))
        written["updates"] = [Update(**update) for update in written["updates"]]
        written["parts"] = {name: cls.from_json(part) for name, part in written["parts"].items()}
        return cls(**{**data, "outcome": Outcome(**written)})


_OUTCOME = [field.name for field in fields(Outcome)]
_DONE = [field.name for field in fields(Done)]


def skipped(key: str) -> Done:
    """Return the record of a task that did not run."""
    return Done(key, "skipped", Outcome(), attempts=0)


def together(parts: Iterable[Outcome]) -> Outcome:
    """Combine the outcomes of several tasks."""
    every = list(parts)
    cited = {citation.id: citation for part in every for citation in part.citations}
    return Outcome(
        verdict=best_of(part.verdict for part in every),
        citations=list(cited.values()),
        unknown_markers=[marker for part in every for marker in part.unknown_markers],
        updates=[update for part in every for update in part.updates],
        blocks={name: text for part in every for name, text in part.blocks.items()},
    )


class TaskCache:
    """Outcomes by cache key, each with an expiry time."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, Outcome]] = {}

    def get(self, key: str) -> Outcome | None:
        until, outcome = self._entries.get(key, (0.0, None))
        return outcome if until > time.monotonic() else None

    def put(self, key: str, outcome: Outcome, seconds: float) -> None:
        # Puts it at the end, because the first entries are dropped.
        self._entries.pop(key, None)
        self._entries[key] = time.monotonic() + seconds, outcome
        while len(self._entries) > _MOST:
            del self._entries[next(iter(self._entries))]
