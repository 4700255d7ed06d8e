"""A workflow as a LangGraph graph: to be a node of your own graph, or to run by itself.

Its steps are `run` and `resume`, which run the workflow until it completes or waits, and `ask`
between them, which is LangGraph's `interrupt`. Each is a separate superstep. When LangGraph
executes a step again, the step reads the status of the workflow's thread and repeats nothing.
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
from lorebind_config.errors import UsageError
from lorebind_config.namespace import digest
from lorebind_knowledge.plumbing.bridge import run as run_blocking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables.graph import Graph
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from lorebind_bindings.workflow.outline import WorkflowOutline
    from lorebind_bindings.workflow.runtime import Workflows
    from lorebind_config.reading.loaded import LoadedProject

_LONGEST = 100
"""Maximum length of a caller's thread id within ours, which may have 200 characters."""


class GraphInput(TypedDict, total=False):
    """The input of the graph."""

    input: dict[str, Any]
    """The inputs of the workflow, by name."""
    messages: Annotated[list[AnyMessage], add_messages]
    """Earlier messages, which the workflow sees as `{{ .state.messages }}`."""


class GraphOutput(TypedDict, total=False):
    """The output of the graph."""

    output: Any
    """The output of the workflow."""
    messages: Annotated[list[AnyMessage], add_messages]
    """The input messages and those that tasks have added."""


class _Thread(TypedDict):
    """The progress of the workflow's thread."""

    id: str
    waiting: list[dict[str, Any]]
    """The open questions; empty when the workflow has completed."""
    answers: dict[str, Any]
    """The answers, by path."""


class _State(GraphInput, GraphOutput, total=False):
    lorebind: _Thread


def workflow_graph(
    loaded: LoadedProject,
    workflows: Workflows,
    workflow: str,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph of a workflow, see `Project.graph`.

    Raises:
        NotFoundError: there is no such workflow.
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
        """Start a thread, or resume it if this step was executed before."""
        return await self._until_it_stops(state, _thread_id(config), {})

    async def resume(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        thread = state["lorebind"]
        return await self._until_it_stops(state, thread["id"], thread["answers"])

    def ask(self, state: _State) -> dict[str, Any]:
        """Wait until all given answers are valid."""
        thread, problem = state["lorebind"], ""
        request = {
            "workflow": self._workflow,
            "thread_id": thread["id"],
            "waiting": thread["waiting"],
        }
        while True:
            # LangGraph returns earlier answers again, including those that were invalid.
            answer = interrupt({**request, "problem": problem} if problem else request)
            try:
                answers = _answers(thread["waiting"], answer)
            except UsageError as error:
                problem = str(error)
            else:
                return {"lorebind": {**thread, "answers": answers}}

    async def _until_it_stops(
        self, state: _State, thread_id: str, answers: dict[str, Any]
    ) -> dict[str, Any]:
        """Run the workflow until it completes or waits, from the current state of its thread."""
        workflows, name = self._workflows, self._workflow
        info = await workflows.find(name, thread_id)
        waiting = []
        if info is None:
            start = {"messages": _plain(state.get("messages", []))}
            result = await workflows.run(name, _inputs(state), thread_id=thread_id, state=start)
            waiting = result.waiting
        elif info.status != "completed":
            paths = {question["path"] for question in info.waiting}
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
        added = [message for message in end["messages"] if message not in before]
        return {"lorebind": thread, "output": end["output"], "messages": added}


def _blocking(step: Any) -> Any:
    """Return a sync version of a step."""

    def blocking(state: _State, config: RunnableConfig) -> dict[str, Any]:
        update: dict[str, Any] = run_blocking(step(state, config))
        return update

    return blocking


def _inputs(state: _State) -> dict[str, Any]:
    inputs = state.get("input") or {}
    if not isinstance(inputs, dict):
        raise UsageError(
            f"`input` in the state of a workflow's graph must map inputs to values, got a "
            f"{type(inputs).__name__}"
        )
    return inputs


def _thread_id(config: RunnableConfig) -> str:
    """Return the id of the workflow's thread: the same each time LangGraph executes this node.

    The checkpoint namespace differs per execution of a node. So every turn of the caller's thread,
    and every branch of it, has its own workflow thread.
    """
    place = config.get("configurable", {})
    around = str(place.get("thread_id") or uuid.uuid4().hex)
    number = digest(around, str(place.get("checkpoint_ns", "")))[:16]
    readable = around if around.isprintable() and len(around) <= _LONGEST else "graph"
    return f"{readable}.{number}"


def _answers(waiting: Sequence[dict[str, Any]], answers: Any) -> dict[str, Any]:
    """Return the answers in `Command(resume=...)` by path, after checking them."""
    form = f"Command(resume={{{waiting[0]['path']!r}: ...}})"
    if not isinstance(answers, dict):
        raise UsageError(f"answers must be a mapping by task, as in {form}")
    if not answers:
        raise UsageError(f"the mapping contains no answer; give one, as in {form}")
    return answers_by_path(waiting, answers)


_ROLES = {"human": "user", "ai": "assistant"}


def _plain(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return messages in the form that workflows store."""
    return [
        {
            "role": _ROLES.get(message.type, message.type),
            "content": str(message.text),
            "id": message.id,
        }
        for message in messages
    ]


def _class_drawn_as(workflow: WorkflowOutline) -> type[CompiledStateGraph[Any, Any, Any, Any]]:
    """Return a class of compiled graphs that are drawn as the tasks of a workflow.

    It has to be a class: LangGraph copies a graph by creating another instance of its class.
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
