"""A list of tasks as a graph that may contain mistakes, for the checks while a project is loaded.

For a valid list, it is the same graph as `declarations.flow`. Here, a task may lead to
an unknown task, two tasks may have the same id, and a part that could not be read may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lorebind_config.declarations.base import Path
from lorebind_config.declarations.flow import reachable
from lorebind_config.declarations.tasks import RouterTask, TaskBase
from lorebind_config.templates import ANYTHING


@dataclass(frozen=True, slots=True)
class Named:
    """A task that a field of another task names as its next task."""

    source: int
    name: str
    field: Path
    """The field that names the task, or the list in it."""
    path: Path
    """The path of the name itself."""


class Edge(NamedTuple):
    """A task that may follow another one, by their numbers in the list."""

    source: int
    target: int
    path: Path
    """The path of the name that makes the edge; empty if the edge is the order of the list."""


class TaskGraph:
    """The tasks of one list by their numbers in it; the first task runs first."""

    def __init__(self, tasks: Sequence[TaskBase]) -> None:
        self.tasks = list(tasks)
        self.numbers: dict[str, list[int]] = {}
        for number, task in enumerate(tasks):
            if isinstance(task.id, str):
                self.numbers.setdefault(task.id, []).append(number)
        self.knows_ids = all(isinstance(task.id, str) for task in tasks)
        """Whether all ids could be read; otherwise, a name may belong to any task."""
        self.is_written = any(task.targets() for task in tasks)
        self.named = [target for number in range(len(tasks)) for target in self._named(number)]
        self.unknown = [target for target in self.named if target.name not in self.numbers]
        self.anywhere = {target.source for target in self.unknown}
        """The tasks that may lead to any other task."""
        self.anywhere |= {n for n, task in enumerate(tasks) if not _is_readable(task)}
        self.is_known = self.is_written or not self.anywhere
        """Whether the followers are known; without edges, an unreadable part may be one."""
        self.edges = list(self._edges())

    def followers(self, number: int) -> list[int]:
        """Return the tasks that can directly follow a task."""
        return self._followers[number]

    def is_end(self, number: int) -> bool:
        """Check whether a path can end at a task."""
        task = self.tasks[number]
        if number in self.anywhere or task.final is not False:
            return True
        return not self.is_written and number == len(self.tasks) - 1

    def leads_nowhere(self, number: int) -> bool:
        """Check whether a successful task has no next task although it is not final."""
        task = self.tasks[number]
        if not self.is_written or isinstance(task, RouterTask):
            return False
        return not self.is_end(number) and task.on_success is None

    def can_reach(self, source: int, target: int) -> bool:
        """Check whether one task can run before another; for the same task, in a loop."""
        return not self.is_known or bool(self.reach[source] >> target & 1)

    def is_lost(self, number: int) -> bool:
        """Check whether no path leads from the first task to this one."""
        return self.is_known and number > 0 and not self.reach[0] >> number & 1

    def may_name(self, number: int, other: int) -> bool:
        """Check whether a task may refer to another one, because that can run before it.

        A task that cannot be reached may refer and be referred to: its problem is the missing edge.
        """
        lost = self.is_lost(number) or self.is_lost(other)
        return lost or self.can_reach(other, number)

    def can_follow_error(self, number: int) -> bool:
        """Check whether a task can run because another one failed."""
        reachable_known = self.is_known and not self.is_lost(number)
        return not reachable_known or bool(self._after_errors >> number & 1)

    @cached_property
    def _after_errors(self) -> int:
        bits = 0
        for edge in self.edges:
            if edge.path[:1] == ("on_error",):
                bits |= self.reach[edge.target] | 1 << edge.target
        for number in self.anywhere:
            task = self.tasks[number]
            names = task.targets().get("on_error", ())
            if getattr(task, "type", None) is ANYTHING or not self.numbers.keys() >= set(names):
                bits |= self.reach[number]
        return bits

    @cached_property
    def reach(self) -> list[int]:
        """For each task, the tasks that can follow it directly or later, as bits by number."""
        every = (1 << len(self.tasks)) - 1
        return reachable(
            self._followers, [every if n in self.anywhere else 0 for n in range(len(self.tasks))]
        )

    @cached_property
    def _followers(self) -> list[list[int]]:
        followers: list[list[int]] = [[] for _ in self.tasks]
        for edge in self.edges:
            followers[edge.source].append(edge.target)
        return followers

    def _named(self, source: int) -> Iterator[Named]:
        task = self.tasks[source]
        for field, names in task.targets().items():
            kind, _, route = field.partition(".")
            inner: Path = (route,) if route else ("next",) if kind.startswith("on_") else ()
            for index, name in enumerate(names):
                if isinstance(name, str):
                    yield Named(source, name, (kind, *inner), (kind, *inner, index))

    def _edges(self) -> Iterator[Edge]:
        if self.is_written:
            for link in self.named:
                for target in self.numbers.get(link.name, ()):
                    yield Edge(link.source, target, link.path)
        elif self.is_known:
            for number in range(len(self.tasks) - 1):
                yield Edge(number, number + 1, ())


def circle(start: int, edges: Iterable[Edge]) -> list[Edge]:
    """Return a shortest path from a task back to itself."""
    ahead: dict[int, list[Edge]] = {}
    for edge in edges:
        ahead.setdefault(edge.source, []).append(edge)
    came: dict[int, Edge] = {}
    todo = [start]
    for number in todo:
        for edge in ahead.get(number, ()):
            if edge.target not in came:
                came[edge.target] = edge
                todo.append(edge.target)
    way = [came[start]]
    while way[-1].source != start:
        way.append(came[way[-1].source])
    return way[::-1]


def _is_readable(task: TaskBase) -> bool:
    """Return whether the next tasks of a task could be read."""
    if getattr(task, "type", None) is ANYTHING or task.final is ANYTHING:
        return False
    if isinstance(task, RouterTask) and not isinstance(task.routes, dict):
        return False
    return all(isinstance(name, str) for names in task.targets().values() for name in names)
