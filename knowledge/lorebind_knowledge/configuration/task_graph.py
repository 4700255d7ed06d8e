"""A list of tasks as a graph, as far as it can be read: what loading knows before all is valid.

Of a list without problems it is the same as `declarations.workflows.flow`. Here a task may lead to
one that is not there, two may have one id, and of what cannot be read anything is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.configuration.templates import ANYTHING
from lorebind_knowledge.declarations.workflows import RouterTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lorebind_knowledge.declarations.base import Path
    from lorebind_knowledge.declarations.workflows import TaskBase


@dataclass(frozen=True, slots=True)
class Named:
    """A task that a field of another names as its follower."""

    source: int
    name: str
    field: Path
    """The field that names it, or the list of followers that holds it."""
    path: Path
    """Where exactly it is named."""


class Edge(NamedTuple):
    """One task that may follow another, by their numbers in the list."""

    source: int
    target: int
    path: Path
    """What says so; empty for the order."""


class TaskGraph:
    """The tasks of one list by their numbers in it; the first runs first."""

    def __init__(self, tasks: Sequence[TaskBase]) -> None:
        self.tasks = list(tasks)
        self.numbers: dict[str, list[int]] = {}
        for number, task in enumerate(tasks):
            if isinstance(task.id, str):
                self.numbers.setdefault(task.id, []).append(number)
        self.knows_ids = all(isinstance(task.id, str) for task in tasks)
        """Whether all ids can be read; a name may be of any task otherwise."""
        self.is_written = any(task.targets() for task in tasks)
        self.named = [one for number in range(len(tasks)) for one in self._named(number)]
        self.unknown = [one for one in self.named if one.name not in self.numbers]
        self.anywhere = {one.source for one in self.unknown}
        """The tasks of which it is not known where they lead."""
        self.anywhere |= {n for n, task in enumerate(tasks) if not _is_readable(task)}
        self.is_known = self.is_written or not self.anywhere
        """Whether edges or the order say what follows; what cannot be read may be an edge."""
        self.edges = list(self._edges())

    def followers(self, number: int) -> list[int]:
        """The tasks that can follow one at once."""
        return self._followers[number]

    def is_end(self, number: int) -> bool:
        """Whether a path can end at a task."""
        task = self.tasks[number]
        if number in self.anywhere or task.final is not False:
            return True
        return not self.is_written and number == len(self.tasks) - 1

    def leads_nowhere(self, number: int) -> bool:
        """Whether nothing follows a task that succeeds, which is not said to be final."""
        task = self.tasks[number]
        if not self.is_written or isinstance(task, RouterTask):
            return False
        return not self.is_end(number) and task.on_success is None

    def can_reach(self, source: int, target: int) -> bool:
        """Whether one task can come before another, or in a circle before itself."""
        return not self.is_known or bool(self.reach[source] >> target & 1)

    def is_lost(self, number: int) -> bool:
        """Whether no edges lead to a task from the first."""
        return self.is_known and number > 0 and not self.reach[0] >> number & 1

    def may_name(self, number: int, other: int) -> bool:
        """Whether a task may name another, as what can come before it.

        A task that is lost may name and be named: what is wrong is that no edge leads to it.
        """
        lost = self.is_lost(number) or self.is_lost(other)
        return lost or self.can_reach(other, number)

    def can_follow_error(self, number: int) -> bool:
        """Whether a task can run because another has failed."""
        known = self.is_known and not self.is_lost(number)
        return not known or bool(self._after_errors >> number & 1)

    @cached_property
    def _after_errors(self) -> int:
        found = 0
        for edge in self.edges:
            if edge.path[:1] == ("on_error",):
                found |= self.reach[edge.target] | 1 << edge.target
        for number in self.anywhere:
            task = self.tasks[number]
            if not _is_readable(task) or task.on_error is not None:
                found |= self.reach[number]
        return found

    @cached_property
    def reach(self) -> list[int]:
        """For each task those that can follow it, however late, as bits by their numbers."""
        every = (1 << len(self.tasks)) - 1
        reach = [every if n in self.anywhere else 0 for n in range(len(self.tasks))]
        changed = True
        while changed:
            changed = False
            for number in reversed(range(len(self.tasks))):
                found = reach[number]
                for target in self.followers(number):
                    found |= reach[target] | 1 << target
                if found != reach[number]:
                    reach[number], changed = found, True
        return reach

    @cached_property
    def _followers(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.tasks]
        for edge in self.edges:
            found[edge.source].append(edge.target)
        return found

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
            for one in self.named:
                for target in self.numbers.get(one.name, ()):
                    yield Edge(one.source, target, one.path)
        elif self.is_known:
            for number in range(len(self.tasks) - 1):
                yield Edge(number, number + 1, ())


def circle(start: int, edges: Iterable[Edge]) -> list[Edge]:
    """A shortest way from a task back to itself."""
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
    """Whether it is known what follows a task."""
    if getattr(task, "type", None) is ANYTHING or task.final is ANYTHING:
        return False
    if isinstance(task, RouterTask) and not isinstance(task.routes, dict):
        return False
    return all(isinstance(name, str) for names in task.targets().values() for name in names)
