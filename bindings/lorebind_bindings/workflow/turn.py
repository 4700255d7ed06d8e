"""One turn of a thread: the node of the LangGraph graph that every workflow compiles to.

LangGraph keeps the thread, carries interrupts, and ends the turn. All tasks of a turn are one
superstep of it, each finished one a pending write of its checkpoint: so a join never waits for
tasks that have nothing to do with it, and what has ended is written once.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from lorebind_bindings.workflow.run_workflow import outputs_of, run_tasks
from lorebind_bindings.workflow.running import Frame, NotKept, Run, Suspended
from lorebind_bindings.workflow.state import Channels
from lorebind_knowledge.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_bindings.workflow.events.bus import EventBus
    from lorebind_bindings.workflow.results import Done
    from lorebind_bindings.workflow.running import Parts
    from lorebind_bindings.workflow.threads.threads import Thread, ThreadStore
    from lorebind_knowledge.declarations import WorkflowDeclaration


class TurnState(TypedDict, total=False):
    """What LangGraph keeps of a thread between turns; plain JSON."""

    status: str
    """`running`, and `completed` at the end."""
    input: dict[str, Any]
    output: Any
    messages: list[dict[str, Any]]
    extra: dict[str, Any]
    errors: list[dict[str, Any]]
    channels: dict[str, Any]
    """Those that the workflow declares."""


@dataclass(slots=True)
class Turn:
    """What a turn needs beside its state."""

    parts: Parts
    store: ThreadStore
    thread: Thread
    declared: WorkflowDeclaration
    bus: EventBus
    interrupt_before: Collection[str] = ()
    seed: Sequence[dict[str, Any]] = ()
    """Records to begin with: the answers of a resume, the tasks that a replay keeps."""
    tasks: dict[str, Done] = field(default_factory=dict)
    """What the tasks gave, once it has ended."""

    async def play(self, state: TurnState) -> TurnState:
        """Run the workflow from wherever it is to its end.

        Raises:
            GraphInterrupt: it waits for answers, or is paused.
            TaskFailed: a task failed.
        """
        journal = await self.store.journal(self.thread)
        await asyncio.gather(*map(journal.put, self.seed))
        run = Run(self.parts, journal, self.bus, journal.turn, self.interrupt_before)
        channels = Channels(self.declared, run.environment)
        frame = Frame(self.declared, state["input"], channels, channels.start(state))
        try:
            found = await run_tasks(run, frame)
        except NotKept as error:
            raise error.__cause__ or error from None
        except Suspended as suspended:
            _suspend(suspended)
        self.tasks = found.tasks
        own = {name: found.state[name] for name in self.declared.channels}
        return {
            "status": "completed",
            "output": outputs_of(run, frame, found),
            "messages": found.state["messages"],
            "extra": found.state["extra"],
            "errors": found.state["errors"],
            "channels": own,
        }


def _suspend(suspended: Suspended) -> NoReturn:
    """End the node until somebody answers, or lets the tasks begin.

    Raises:
        GraphInterrupt: always. What is answered is a record of the turn that goes on, see
            `Workflows.resume`; so LangGraph is told no answers.
    """
    from langgraph.types import interrupt

    interrupt({"waiting": suspended.waiting, "paused": suspended.paused})
    raise suspended


playing: ContextVar[Turn] = ContextVar("playing")
"""The turn that the node of this context plays."""


def compile_host(declared: WorkflowDeclaration, saver: Any) -> Any:
    """The graph of LangGraph that hosts a workflow's runs.

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
