"""Which task may run now: a join waits for every edge that was taken, however deep, and runs once.

A taken edge puts a token on the task that it leads to. A task with a token starts as soon as no
other token, and no running or waiting task, can still reach it. Tasks that no token can reach any
more are skipped. This is the OR-join of workflow languages (van der Aalst et al., "Workflow
Patterns", 2003, synchronising merge). In a cycle with several entries, the first task in the list
breaks a tie.
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
        here = [name for name in self.flow.names if name in self._here]
        found = [name for name in here if self._may_start(name)]
        # In a cycle with several entries, tokens may wait for each other.
        return found if found or self._busy else here[:1]

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
        """Whether a task must wait for another one, which runs or has a token too."""
        if name in self._coming_back and self.flow.is_in_round(other, name):
            return True  # the round is not over
        if other in self._coming_back and self.flow.is_in_round(name, other):
            return False  # its next round begins when this one is over
        return self.flow.precedes(other, name)
