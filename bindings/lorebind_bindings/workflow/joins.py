"""Which task may run now: a join waits for every edge that was taken, however deep, and runs once.

An edge that was taken is a token at the task that it leads to. A task with a token runs as soon as
no other token, and no task that runs or waits, can still reach it. What nothing can reach any more
is skipped. This is the OR-join of workflow languages (van der Aalst et al., "Workflow Patterns",
2003, synchronising merge) on graphs whose circles are entered at one task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from lorebind_knowledge.declarations.workflows.flow import Edge, Flow

T = TypeVar("T")


class Tokens(Generic[T]):
    """The tokens of one run of a flow; each carries what happened on its way."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.rounds = dict.fromkeys(flow.names, 0)
        """How often each task was started."""
        self._here: dict[str, list[T]] = {}
        self._coming_back: set[str] = set()
        """Tasks whose tokens all came back around a circle, for its next round."""
        self._busy: set[str] = set()
        self._skipped: set[str] = set()

    def enter(self, token: T) -> None:
        """Put the first token where the flow begins."""
        self._here[self.flow.entry] = [token]

    def take(self, edge: Edge, token: T) -> None:
        """An edge is taken."""
        back = self.flow.comes_back(edge)
        if not back:
            self._coming_back.discard(edge.target)
        elif edge.target not in self._here:
            self._coming_back.add(edge.target)
        self._here.setdefault(edge.target, []).append(token)

    def ready(self) -> list[str]:
        """The tasks that may start now, in their order."""
        if not self._busy and len(self._here) == 1:
            return list(self._here)
        return [name for name in self.flow.names if name in self._here and self._may_start(name)]

    def first_held_up(self) -> str | None:
        """The first task with a token, where those left hold up each other.

        Only circles that are entered at several tasks come to that.
        """
        return min(self._here, key=self.flow.number.__getitem__, default=None)

    def start(self, name: str) -> list[T]:
        """A task starts; its tokens."""
        self._busy.add(name)
        self._coming_back.discard(name)
        self.rounds[name] += 1
        return self._here.pop(name)

    def end(self, name: str) -> None:
        """A task has ended, and the edges that it takes were taken. One that waits has not."""
        self._busy.discard(name)

    def skipped(self) -> list[str]:
        """The tasks that can no longer run, each told once."""
        live = [*self._here, *self._busy]
        found = [
            name
            for name in self.flow.names
            if not self.rounds[name]
            and name not in self._here
            and name not in self._skipped
            and not any(self.flow.can_reach(other, name) for other in live)
        ]
        self._skipped.update(found)
        return found

    def _may_start(self, name: str) -> bool:
        return name not in self._busy and not any(
            self._holds_up(other, name) for other in (*self._busy, *self._here) if other != name
        )

    def _holds_up(self, other: str, name: str) -> bool:
        """Whether what runs or has a token comes before another task that has one."""
        if name in self._coming_back and self.flow.is_in_round(other, name):
            return True  # the round is not over
        if other in self._coming_back and self.flow.is_in_round(name, other):
            return False  # its next round begins when this one is over
        return self.flow.precedes(other, name)
