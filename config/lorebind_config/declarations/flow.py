"""The order of a list of tasks: a graph whose edges are declared or follow the order of the list.

Such lists are the tasks of a workflow, a branch of a `parallel` task and the tasks of a
`collection` for each item. If no task of the list declares an edge, the tasks run in order.
Otherwise all edges are declared, a run begins with the first task, and a path ends at a `final`
task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lorebind_config.declarations.tasks import TaskBase


class Edge(NamedTuple):
    """One task that may follow another."""

    source: str
    target: str
    field: str
    """The declaring field: `on_success`, `on_error`, `default` or `routes.<route>`. For tasks
    that run in order it is `on_success`."""


class Flow:
    """A list of tasks as a graph."""

    def __init__(self, tasks: Sequence[TaskBase]) -> None:
        self.tasks = {task.id: task for task in tasks}
        self.names = list(self.tasks)
        self.number = {name: index for index, name in enumerate(self.names)}
        self.is_written = any(task.targets() for task in tasks)
        """Whether edges are declared; otherwise the tasks run in order."""
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
        """Return the edges of a task's field; `on_success` includes the order of the list."""
        return self._after.get((name, field), [])

    def can_reach(self, source: str, target: str) -> bool:
        """Check whether edges lead from one task to another, or in a cycle back to itself."""
        return bool(self._reach[source] >> self.number[target] & 1)

    def reached_from(self, names: Iterable[str]) -> int:
        """Return these tasks and all that they can reach, as bits at their numbers."""
        reached = 0
        for name in names:
            reached |= self._reach[name] | 1 << self.number[name]
        return reached

    def precedes(self, source: str, target: str) -> bool:
        """Check whether a task runs before another in the same round, without back edges."""
        return bool(self._before[source] >> self.number[target] & 1)

    def comes_back(self, edge: Edge) -> bool:
        """Check whether an edge leads back to the start of a cycle."""
        return edge in self._back

    def is_in_round(self, name: str, head: str) -> bool:
        """Check whether a task runs between the task `head` and an edge back to `head`.

        This is a natural loop as in compilers, without the loops around it (Aho et al.,
        "Compilers", section 9.6.6). If a cycle is entered at several tasks, one of them is `head`.
        """
        return name in self._rounds.get(head, ()) and (name == head or self.precedes(head, name))

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
        """Return the edges to a task on the path from the entry to the edge's own source."""
        ahead: dict[str, list[Edge]] = {name: [] for name in self.names}
        for step in self.edges:
            ahead[step.source].append(step)
        back: set[Edge] = set()
        done: set[str] = set()
        for start in self.names:  # the entry is the first
            way = {start: iter(ahead[start])}
            while way:  # without recursion: a list may be longer than Python's stack
                name = next(reversed(way))
                edge = None if name in done else next(way[name], None)
                if edge is None:
                    done.add(name)
                    del way[name]
                elif edge.target in way:
                    back.add(edge)
                elif edge.target not in done:
                    way[edge.target] = iter(ahead[edge.target])
        return back

    def _rounds_of_circles(self) -> dict[str, set[str]]:
        """For each target of a back edge, return the tasks that lead back to it, and itself."""
        behind: dict[str, list[str]] = {name: [] for name in self.names}
        for edge in self.edges:
            behind[edge.target].append(edge.source)
        rounds: dict[str, set[str]] = {}
        for edge in self._back:
            tasks = rounds.setdefault(edge.target, {edge.target})
            ahead = [edge.source]
            while ahead:
                name = ahead.pop()
                if name not in tasks:
                    tasks.add(name)
                    ahead += behind[name]
        return rounds

    def _reachable(self, edges: Iterable[Edge]) -> dict[str, int]:
        """For each task, return the tasks that it reaches, as bits at their numbers."""
        targets: list[list[int]] = [[] for _ in self.names]
        for edge in edges:
            targets[self.number[edge.source]].append(self.number[edge.target])
        return dict(zip(self.names, reachable(targets, [0] * len(targets)), strict=True))


def reachable(targets: Sequence[Iterable[int]], reach: list[int]) -> list[int]:
    """Return the tasks that each task reaches by edges to its targets, as bits at their numbers.

    `reach` holds what each task reaches without these edges, and receives the result.
    """
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(targets))):
            bits = reach[number]
            for target in targets[number]:
                bits |= reach[target] | 1 << target
            if bits != reach[number]:
                reach[number], changed = bits, True
    return reach
