"""The rule for when a task may start: a join waits for all edges taken to it, and runs once.

An edge that is taken puts a token on its target task. A task with a token starts as soon as no
other token, and no running or waiting task, can still reach it. Tasks that no token can reach any
longer are skipped. This is the OR-join of workflow languages (van der Aalst et al., "Workflow
Patterns", 2003, synchronizing merge). In a cycle with several entries, the first task in the list
breaks a tie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from lorebind_config.declarations.flow import Edge, Flow

T = TypeVar("T")


class Tokens(Generic[T]):
    """The tokens in one run of a flow; each carries what happened before it."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.rounds = dict.fromkeys(flow.names, 0)
        """The number of times each task was started."""
        self._here: dict[str, list[T]] = {}
        self._coming_back: set[str] = set()
        """Tasks whose tokens all came back through a cycle and wait for its next round."""
        self._busy: set[str] = set()
        self._left = (1 << len(flow.names)) - 1
        """The tasks that were neither started nor skipped, as bits at their numbers."""

    def enter(self, token: T) -> None:
        """Put the first token on the entry task of the flow."""
        self._here[self.flow.entry] = [token]

    def take(self, edge: Edge, token: T) -> None:
        """Take an edge: put a token on its target."""
        back = self.flow.comes_back(edge)
        if not back:
            self._coming_back.discard(edge.target)
        elif edge.target not in self._here:
            self._coming_back.add(edge.target)
        self._here.setdefault(edge.target, []).append(token)

    def ready(self) -> list[str]:
        """Return the tasks that may start now, in declared order."""
        if not self._busy and len(self._here) == 1:
            return list(self._here)
        here = [name for name in self.flow.names if name in self._here]
        ready = [name for name in here if self._may_start(name)]
        # In a cycle with several entries, tokens may wait for each other.
        return ready if ready or self._busy else here[:1]

    def start(self, name: str) -> list[T]:
        """Start a task and return its tokens."""
        self._busy.add(name)
        self._coming_back.discard(name)
        self._left &= ~(1 << self.flow.number[name])
        self.rounds[name] += 1
        return self._here.pop(name)

    def end(self, name: str) -> None:
        """End a task, after its edges were taken. A task that waits has not ended."""
        self._busy.discard(name)

    def skipped(self) -> list[str]:
        """Return the tasks that can no longer run, each only once."""
        skipped = self._left & ~self.flow.reached_from((*self._here, *self._busy))
        if not skipped:
            return []
        self._left ^= skipped
        return [name for name, number in self.flow.number.items() if skipped >> number & 1]

    def _may_start(self, name: str) -> bool:
        return name not in self._busy and not any(
            self._holds_up(other, name) for other in (*self._busy, *self._here) if other != name
        )

    def _holds_up(self, other: str, name: str) -> bool:
        """Check whether a task must wait for another task that runs or has a token too."""
        if name in self._coming_back and self.flow.is_in_round(other, name):
            return True  # the current round has not ended
        if other in self._coming_back and self.flow.is_in_round(name, other):
            return False  # the other task waits for this round to end
        return self.flow.precedes(other, name)
