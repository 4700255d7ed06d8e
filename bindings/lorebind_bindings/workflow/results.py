"""What a run of a workflow gives, and what is kept of each of its tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from lorebind_bindings.retrieving import best_of
from lorebind_prompts import Citation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lorebind_bindings.retrieving import Verdict


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task of a run gave."""

    output: Any
    """Plain JSON; None where the task was skipped, or failed and was handled."""
    verdict: str
    citations: list[Citation]
    unknown_markers: list[str]
    status: str = "completed"
    """`completed`, `skipped`, `failed` where an `on_error` or a strategy has handled it, or
    `cancelled` where a strategy went on without it."""
    error: dict[str, str] | None = None
    """`task`, `path`, `type` and `message` of the failure."""
    attempts: int = 1
    items: list[TaskResult] = field(default_factory=list)
    """What each item of a collection gave, in their order."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a workflow's run gave."""

    output: Any
    """The declared outputs by name; without any, the output of the last task that ran."""
    tasks: dict[str, TaskResult]
    """By id, all tasks of the workflow, and those in its parallel tasks."""
    citations: list[Citation]
    """All that the tasks cite, each once."""
    thread_id: str
    """By which the run is resumed, and its history is told."""
    usage: dict[str, Any]
    """By task id: the prompt's tokens, and what the model reported."""
    status: str = "completed"
    """`completed`; `waiting` for answers; `paused` before a task."""
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """What is waited for: `task`, `path`, `prompt` and `schema` of each question."""
    paused: list[str] = field(default_factory=list)
    """The paths of the tasks before which it was asked to pause."""


@dataclass(slots=True)
class Outcome:
    """What a task's own work gives, before it is written down."""

    output: Any = None
    verdict: Verdict = "none"
    citations: list[Citation] = field(default_factory=list)
    unknown_markers: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)
    """What it writes into channels, in order."""
    blocks: dict[str, str] = field(default_factory=dict)
    """Passages that later tasks may name as `{{ .workflow.vars.x }}`, by name."""
    parts: dict[str, Done] = field(default_factory=dict)
    """The tasks that it holds, by id, where each ran once."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """For each item of a collection: `status`, `error`, `attempts`, and of one that failed as a
    whole `output`."""
    route: str = ""
    """The field of a router that names what follows."""


@dataclass(frozen=True, slots=True)
class Update:
    """A value for a channel."""

    channel: str
    value: Any
    path: str
    """The task that wrote it."""


@dataclass(slots=True)
class Done:
    """A task that has ended, as it is written down: plain JSON."""

    key: str
    status: str
    outcome: Outcome
    error: dict[str, str] | None = None
    attempts: int = 1
    seconds: float = 0.0
    at: str = ""
    """When it ended, in UTC."""
    step: int = 0
    """How many had ended before in the same turn."""

    def result(self) -> TaskResult:
        outcome = self.outcome
        items = [
            TaskResult(
                one["output"] if self.error else outcome.output[at],
                "none",
                [],
                [],
                one["status"],
                one["error"],
                one["attempts"],
            )
            for at, one in enumerate(outcome.items)
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
        """Plain JSON, not copied."""
        outcome = self.outcome
        written = {name: getattr(outcome, name) for name in _OUTCOME}
        written["citations"] = [asdict(one) for one in outcome.citations]
        written["updates"] = [asdict(one) for one in outcome.updates]
        written["parts"] = {name: one.as_json() for name, one in outcome.parts.items()}
        return {name: getattr(self, name) for name in _DONE} | {"outcome": written}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Done:
        """What `as_json` gave.

        Raises:
            KeyError, TypeError: it is something else.
        """
        written = dict(data["outcome"])
        written["citations"] = [_citation(one) for one in written["citations"]]
        written["updates"] = [Update(**one) for one in written["updates"]]
        written["parts"] = {name: cls.from_json(one) for name, one in written["parts"].items()}
        return cls(**{**data, "outcome": Outcome(**written)})


_OUTCOME = [one.name for one in fields(Outcome)]
_DONE = [one.name for one in fields(Done)]


def _citation(data: Mapping[str, Any]) -> Citation:
    return Citation(**{**data, "also": [_citation(one) for one in data["also"]]})


def skipped(key: str) -> Done:
    """A task that did not run."""
    return Done(key, "skipped", Outcome(), attempts=0)


def together(parts: Iterable[Outcome]) -> Outcome:
    """What several tasks found, as far as it can be said of all of them."""
    every = list(parts)
    cited = {one.id: one for part in every for one in part.citations}
    return Outcome(
        verdict=best_of(part.verdict for part in every),
        citations=list(cited.values()),
        unknown_markers=[marker for part in every for marker in part.unknown_markers],
        updates=[update for part in every for update in part.updates],
        blocks={name: text for part in every for name, text in part.blocks.items()},
    )
