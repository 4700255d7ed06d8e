"""A workflow as a graph of LangGraph: for a node of the user's own graph, or to be run itself.

Its steps are `run` and `resume`, which let the workflow run until it completes or waits, and `ask`
between them, which is LangGraph's `interrupt`. Each is a superstep of its own, so that one that
LangGraph executes again finds what the thread of the workflow has come to, and does nothing twice.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage  # noqa: TC002  # LangGraph reads the annotations
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import RunnableConfig  # noqa: TC002  # the same
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt

from lorebind_bindings.workflow.answers import answers_by_path
from lorebind_bindings.workflow.langgraph_drawing import drawn
from lorebind_bindings.workflow.outline import outline
from lorebind_knowledge.bridge import run as run_blocking
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables.graph import Graph
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from lorebind_bindings.workflow.outline import WorkflowOutline
    from lorebind_bindings.workflow.runtime import Workflows
    from lorebind_knowledge.configuration import LoadedProject

_LONGEST = 100


class GraphInput(TypedDict, total=False):
    """What the graph is given."""

    input: dict[str, Any]
    """The inputs of the workflow, by name."""
    messages: Annotated[list[AnyMessage], add_messages]
    """What was said before: `{{ .state.messages }}` of the workflow."""


class GraphOutput(TypedDict, total=False):
    """What the graph gives."""

    output: Any
    """The workflow's output."""
    messages: Annotated[list[AnyMessage], add_messages]
    """The same messages, and those that tasks have added."""


class _Thread(TypedDict):
    """How far the workflow has come."""

    id: str
    waiting: list[dict[str, Any]]
    """What is asked; empty once it has completed."""
    answers: dict[str, Any]
    """What was answered, by path."""


class _State(GraphInput, GraphOutput, total=False):
    lorebind: _Thread


def workflow_graph(
    loaded: LoadedProject,
    workflows: Workflows,
    workflow: str,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph of a workflow, see `Project.graph`.

    Raises:
        NotFoundError: no such workflow.
    """
    steps = _Steps(workflows, workflow)
    graph = StateGraph(_State, input_schema=GraphInput, output_schema=GraphOutput)
    for name, step in {"run": steps.run, "resume": steps.resume}.items():
        graph.add_node(name, RunnableLambda(_blocking(step), step, name=name))
        graph.add_conditional_edges(name, _asks, ["ask", END])
    graph.add_node("ask", steps.ask)
    graph.add_edge(START, "run")
    graph.add_edge("ask", "resume")
    compiled = graph.compile(checkpointer=checkpointer, name=workflow)
    compiled.__class__ = _class_drawn_as(outline(loaded, workflow))
    return compiled


def _asks(state: _State) -> str:
    return "ask" if state["lorebind"]["waiting"] else END


class _Steps:
    """The nodes of a workflow's graph."""

    def __init__(self, workflows: Workflows, workflow: str) -> None:
        self._workflows = workflows
        self._workflow = workflow

    async def run(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        """Begin a thread; or go on with it, where this was executed before."""
        return await self._until_it_stops(state, _thread_id(config), {})

    async def resume(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        thread = state["lorebind"]
        return await self._until_it_stops(state, thread["id"], thread["answers"])

    def ask(self, state: _State) -> dict[str, Any]:
        """Wait for answers, until there are some that fit."""
        thread, problem = state["lorebind"], ""
        asked = {
            "workflow": self._workflow,
            "thread_id": thread["id"],
            "waiting": thread["waiting"],
        }
        while True:
            # LangGraph gives what was answered before once more, the ones that did not fit too.
            given = interrupt({**asked, "problem": problem} if problem else asked)
            try:
                answers = _answers(thread["waiting"], given)
            except UsageError as error:
                problem = str(error)
            else:
                return {"lorebind": {**thread, "answers": answers}}

    async def _until_it_stops(
        self, state: _State, thread_id: str, answers: dict[str, Any]
    ) -> dict[str, Any]:
        """Let the workflow run until it completes or waits, from wherever its thread is.

        Raises:
            LorebindError: as `Project.arun` and `Project.aresume`.
        """
        workflows, name = self._workflows, self._workflow
        info = await workflows.find(name, thread_id)
        waiting = []
        if info is None:
            kept = {"messages": _plain(state.get("messages", []))}
            result = await workflows.run(name, _inputs(state), thread_id=thread_id, kept=kept)
            waiting = result.waiting
        elif info.status != "completed":
            paths = {one["path"] for one in info.waiting}
            left = {path: answer for path, answer in answers.items() if path in paths}
            if left or info.status != "waiting":
                result = await workflows.resume(name, thread_id, left)
                waiting = result.waiting
            else:
                waiting = info.waiting
        thread: _Thread = {"id": thread_id, "waiting": waiting, "answers": {}}
        if waiting:
            return {"lorebind": thread}
        end = await workflows.state(name, thread_id)
        before = _plain(state.get("messages", []))
        added = [one for one in end["messages"] if one not in before]
        return {"lorebind": thread, "output": end["output"], "messages": added}


def _blocking(step: Any) -> Any:
    """The same for callers that block."""

    def blocking(state: _State, config: RunnableConfig) -> dict[str, Any]:
        found: dict[str, Any] = run_blocking(step(state, config))
        return found

    return blocking


def _inputs(state: _State) -> dict[str, Any]:
    given = state.get("input") or {}
    if not isinstance(given, dict):
        raise UsageError(
            f"`input` in the state of a workflow's graph maps inputs to values, got a "
            f"{type(given).__name__}"
        )
    return given


def _thread_id(config: RunnableConfig) -> str:
    """The id of the workflow's thread: the same whenever LangGraph executes this node again.

    The namespace of a node names each of its executions; so every turn of the caller's thread, and
    every branch of it, has a thread of its own.
    """
    place = config.get("configurable", {})
    around = str(place.get("thread_id") or uuid.uuid4().hex)
    number = digest(around, str(place.get("checkpoint_ns", "")))[:16]
    readable = around if around.isprintable() and len(around) <= _LONGEST else "graph"
    return f"{readable}.{number}"


def _answers(waiting: Sequence[dict[str, Any]], given: Any) -> dict[str, Any]:
    """What `Command(resume=...)` holds, by paths.

    Raises:
        UsageError: it answers nothing, or does not fit.
    """
    form = f"Command(resume={{{waiting[0]['path']!r}: ...}})"
    if not isinstance(given, dict):
        raise UsageError(f"answers are a mapping by task, as in {form}")
    if not given:
        raise UsageError(f"there is no answer in it; give one, as in {form}")
    return answers_by_path(waiting, given)


_ROLES = {"human": "user", "ai": "assistant"}


def _plain(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Messages as workflows keep them."""
    return [
        {"role": _ROLES.get(one.type, one.type), "content": str(one.text), "id": one.id}
        for one in messages
    ]


def _class_drawn_as(workflow: WorkflowOutline) -> type[CompiledStateGraph[Any, Any, Any, Any]]:
    """Compiled graphs that are drawn as the tasks of a workflow.

    This needs a class: LangGraph copies a graph by making another one of its class.
    """

    class WorkflowGraph(CompiledStateGraph[Any, Any, Any, Any]):
        def get_graph(
            self, config: RunnableConfig | None = None, *, xray: int | bool = False
        ) -> Graph:
            return drawn(workflow, xray)

        async def aget_graph(
            self, config: RunnableConfig | None = None, *, xray: int | bool = False
        ) -> Graph:
            return drawn(workflow, xray)

    return WorkflowGraph
