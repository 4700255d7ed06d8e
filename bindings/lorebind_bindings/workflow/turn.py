"""One turn of a thread: the node of the LangGraph graph that every workflow compiles to.

LangGraph stores the thread, handles interrupts, and ends the turn. All tasks of a turn are one
superstep, and each finished task is a pending write of its checkpoint. So a join never waits for
unrelated tasks, and each finished task is stored once.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from lorebind_bindings.workflow.running import Frame, NotKept, Run, Suspended
from lorebind_bindings.workflow.schedule import outputs_of, run_tasks
from lorebind_bindings.workflow.state import Channels
from lorebind_bindings.workflow.tasks.basic import basic
from lorebind_bindings.workflow.tasks.control import aggregate, router, wait
from lorebind_bindings.workflow.tasks.nested import collection, composite, parallel
from lorebind_bindings.workflow.tasks.python import python
from lorebind_config.plugins import import_extra

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_bindings.workflow.events.bus import EventBus
    from lorebind_bindings.workflow.results import Done
    from lorebind_bindings.workflow.running import Parts
    from lorebind_bindings.workflow.threads.threads import Thread, ThreadStore
    from lorebind_config.declarations.workflows import WorkflowDeclaration


_WORK = {
    "aggregate": aggregate,
    "basic": basic,
    "collection": collection,
    "composite": composite,
    "parallel": parallel,
    "python": python,
    "router": router,
    "wait": wait,
}
"""The function that runs the tasks of each kind."""


class TurnState(TypedDict, total=False):
    """The state of a thread that LangGraph stores between turns; plain JSON."""

    status: str
    """`running`, and `completed` at the end."""
    input: dict[str, Any]
    output: Any
    messages: list[dict[str, Any]]
    extra: dict[str, Any]
    errors: list[dict[str, Any]]
    channels: dict[str, Any]
    """The channels that the workflow declares."""


@dataclass(slots=True)
class Turn:
    """The objects that a turn needs in addition to its state."""

    parts: Parts
    store: ThreadStore
    thread: Thread
    declared: WorkflowDeclaration
    bus: EventBus
    interrupt_before: Collection[str] = ()
    seed: Sequence[dict[str, Any]] = ()
    """Records to start with: the answers of a resume, or the tasks that a replay reuses."""
    tasks: dict[str, Done] = field(default_factory=dict)
    """The records of the tasks, available when the turn has ended."""

    async def play(self, state: TurnState) -> TurnState:
        """Run the workflow from its current position to its end.

        Raises:
            GraphInterrupt: the workflow waits for answers, or is paused.
            TaskFailed: a task failed.
        """
        journal = await self.store.journal(self.thread)
        # Together, so that one write stores all of them.
        await asyncio.gather(*map(journal.put, self.seed))
        run = Run(self.parts, _WORK, journal, self.bus, journal.turn, self.interrupt_before)
        channels = Channels(self.declared, run.environment)
        frame = Frame(self.declared, state["input"], channels, channels.start(state))
        try:
            result = await run_tasks(run, frame)
        except NotKept as error:
            raise error.__cause__ or error from None
        except Suspended as suspended:
            _suspend(suspended)
        self.tasks = result.tasks
        declared = {name: result.state[name] for name in self.declared.channels}
        return {
            "status": "completed",
            "output": outputs_of(run, frame, result),
            "messages": result.state["messages"],
            "extra": result.state["extra"],
            "errors": result.state["errors"],
            "channels": declared,
        }


def _suspend(suspended: Suspended) -> NoReturn:
    """End the node until a question is answered or paused tasks may start.

    Raises:
        GraphInterrupt: always. `Workflows.resume` stores answers as records of the turn, so
            LangGraph itself receives no answers.
    """
    from langgraph.types import interrupt

    interrupt({"waiting": suspended.waiting, "paused": suspended.paused})
    raise suspended


playing: ContextVar[Turn] = ContextVar("playing")
"""The turn that the node in this context runs."""


def compile_host(declared: WorkflowDeclaration, saver: Any) -> Any:
    """Return the LangGraph graph that hosts a workflow's runs.

    Raises:
        MissingDependencyError: LangGraph is not installed.
    """
    graphs = import_extra("langgraph.graph", extra="workflow", purpose="running a workflow")

    async def tasks(state: TurnState) -> TurnState:
        return await playing.get().play(state)

    graph = graphs.StateGraph(TurnState)
    graph.add_node("tasks", tasks)
    graph.add_edge(graphs.START, "tasks")
    graph.add_edge("tasks", graphs.END)
    return graph.compile(checkpointer=saver, name=declared.id)
