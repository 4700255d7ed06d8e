"""What follows what in a list of tasks: a graph, whose edges are written or follow the order.

A workflow's tasks are such a list, and so is a branch of a `parallel` and what a `collection` does
for each item. Where no task of the list says what follows it, they run in order. Otherwise every
edge is written, the first task is where a run begins, and a path ends at a task that is `final`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind_knowledge.declarations.workflows.base import TaskBase


class Edge(NamedTuple):
    """One task that may follow another."""

    source: str
    target: str
    field: str
    """What says so: `on_success`, `on_error`, `default`, `routes.<route>`; empty for the order."""


class Flow:
    """A list of tasks as a graph."""

    def __init__(self, tasks: Sequence[TaskBase]) -> None:
        self.tasks = {task.id: task for task in tasks}
        self.names = list(self.tasks)
        self.number = {name: index for index, name in enumerate(self.names)}
        self.is_written = any(task.targets() for task in tasks)
        """Whether edges are written; the tasks run in order otherwise."""
        self.edges = [edge for task in tasks for edge in self._edges(task)]
        self._after: dict[tuple[str, str], list[Edge]] = {}
        for edge in self.edges:
            self._after.setdefault((edge.source, edge.field), []).append(edge)
        self._reach = self._reachable(self.edges)
        self._back = self._back_edges()
        self._rounds = self._rounds_of_circles()
        self._before = self._reachable([edge for edge in self.edges if edge not in self._back])

    @property
    def entry(self) -> str:
        """The task that runs first."""
        return self.names[0]

    def after(self, name: str, field: str) -> list[Edge]:
        """The edges that a field of a task names; `on_success` is also the order."""
        return self._after.get((name, field), [])

    def can_reach(self, source: str, target: str) -> bool:
        """Whether edges lead from one task to another, or in a circle to itself."""
        return bool(self._reach[source] >> self.number[target] & 1)

    def precedes(self, source: str, target: str) -> bool:
        """The same without coming back: whether one task is before another in the same round."""
        return bool(self._before[source] >> self.number[target] & 1)

    def comes_back(self, edge: Edge) -> bool:
        """Whether an edge leads back to where a circle begins."""
        return edge in self._back

    def is_in_round(self, name: str, head: str) -> bool:
        """Whether a task is one of those that run between a task and an edge back to it.

        It is the natural loop of compilers, without those around it (Aho et al., "Compilers",
        section 9.6.6). Where a circle is entered at several tasks, it is that of one of them.
        """
        return name in self._rounds.get(head, ()) and (name == head or self.precedes(head, name))

    def circles(self) -> list[list[str]]:
        """The tasks that can come back to themselves, those together that are in one circle."""
        groups: dict[int, list[str]] = {}
        for name in self.names:
            if self.can_reach(name, name):
                # Those in one circle reach the same tasks.
                groups.setdefault(self._reach[name], []).append(name)
        return list(groups.values())

    def _edges(self, task: TaskBase) -> list[Edge]:
        if self.is_written:
            return [
                Edge(task.id, target, field)
                for field, targets in task.targets().items()
                for target in dict.fromkeys(targets)
                if target in self.tasks
            ]
        at = self.number[task.id] + 1
        return [Edge(task.id, self.names[at], "on_success")] if at < len(self.names) else []

    def _back_edges(self) -> set[Edge]:
        """The edges that lead to a task on the way from the entry to where they begin."""
        ahead: dict[str, list[Edge]] = {name: [] for name in self.names}
        for one in self.edges:
            ahead[one.source].append(one)
        found: set[Edge] = set()
        done: set[str] = set()
        for start in self.names:  # the entry is the first
            way = {start: iter(ahead[start])}
            while way:  # not by recursion: a list may be longer than Python's stack
                name = next(reversed(way))
                edge = None if name in done else next(way[name], None)
                if edge is None:
                    done.add(name)
                    del way[name]
                elif edge.target in way:
                    found.add(edge)
                elif edge.target not in done:
                    way[edge.target] = iter(ahead[edge.target])
        return found

    def _rounds_of_circles(self) -> dict[str, set[str]]:
        """For each task that edges come back to: those that lead back to it, and itself."""
        behind: dict[str, list[str]] = {name: [] for name in self.names}
        for edge in self.edges:
            behind[edge.target].append(edge.source)
        rounds: dict[str, set[str]] = {}
        for edge in self._back:
            found = rounds.setdefault(edge.target, {edge.target})
            ahead = [edge.source]
            while ahead:
                name = ahead.pop()
                if name not in found:
                    found.add(name)
                    ahead += behind[name]
        return rounds

    def _reachable(self, edges: Iterable[Edge]) -> dict[str, int]:
        """For each task those that edges lead to from it, as bits by their numbers."""
        targets: dict[str, list[str]] = {name: [] for name in self.names}
        for edge in edges:
            targets[edge.source].append(edge.target)
        reach = dict.fromkeys(self.names, 0)
        changed = True
        while changed:
            changed = False
            for name in reversed(self.names):
                found = reach[name]
                for target in targets[name]:
                    found |= reach[target] | 1 << self.number[target]
                if found != reach[name]:
                    reach[name], changed = found, True
        return reach
