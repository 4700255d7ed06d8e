"""The graph of a workflow in LangGraph's form: `graph.get_graph().draw_mermaid()`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_core.runnables.graph import Edge, Graph, Node
from langgraph.graph import END, START

from lorebind_bindings.workflow.drawing import escaped

if TYPE_CHECKING:
    from lorebind_bindings.workflow.outline import FlowOutline, TaskOutline, WorkflowOutline

_WORDS = {
    *("end", "graph", "subgraph", "flowchart", "style", "linkStyle", "class", "classDef"),
    *("click", "call", "href", "default", "interpolate"),
}
"""Reserved words of Mermaid, which LangChain does not escape."""


def drawn(workflow: WorkflowOutline, xray: int | bool = False) -> Graph:
    """Return the tasks and edges of a workflow as a LangChain graph.

    Args:
        workflow: its outline.
        xray: whether to draw nested tasks; a number is the depth.
    """
    drawing = _Drawing()
    drawing.graph.nodes[START] = Node(START, START, None, None)
    depth = 1000 if xray is True else int(xray)
    first, last = drawing.add(workflow.flow, "", depth)
    drawing.graph.nodes[END] = Node(END, END, None, None)
    drawing.connect([START], first)
    drawing.connect(last, END)
    return drawing.graph


class _Drawing:
    def __init__(self) -> None:
        self.graph = Graph()
        self._subgraphs: set[str] = set()

    def add(self, flow: FlowOutline, prefix: str, depth: int) -> tuple[str, list[str]]:
        """Add the tasks of a flow; return its first node and its last nodes."""
        begins: dict[str, str] = {}
        ends: dict[str, list[str]] = {}
        for task in flow.tasks:
            begins[task.id], ends[task.id] = self._add_task(task, prefix, depth)
        for edge in flow.edges:
            # A failure is that of the whole task, so its edge starts at the task's first node.
            sources = [begins[edge.source]] if edge.on == "error" else ends[edge.source]
            self.connect(sources, begins[edge.target], edge.label)
        return begins[flow.entry], [end for name in flow.ends for end in ends[name]]

    def connect(self, sources: list[str], target: str, label: str = "") -> None:
        for source in sources:
            self.graph.edges.append(Edge(source, target, escaped(label) or None, bool(label)))

    def _add_task(self, task: TaskOutline, prefix: str, depth: int) -> tuple[str, list[str]]:
        """Return the first and last nodes of a task; a colon in their names makes subgraphs."""
        inside = prefix
        if task.flows and depth > 0:
            # LangChain needs unique subgraph names, even in different subgraphs.
            name = _name(task.path, self._subgraphs)
            self._subgraphs.add(name)
            inside = f"{prefix}{name}:"
        key = f"{inside}{_name(task.id, {node.removeprefix(inside) for node in self.graph.nodes})}"
        self.graph.nodes[key] = Node(key, task.id, None, {"type": task.type})
        if inside == prefix:
            return key, [key]
        ends = []
        for flow in task.flows:
            first, last = self.add(flow, inside, depth - 1)
            self.connect([key], first)
            ends += last
        return key, ends


def _name(name: str, taken: set[str]) -> str:
    """Return a name that is valid in Mermaid and not taken."""
    word = re.sub(r"[^A-Za-z0-9]+", "_", name)
    while word in _WORDS or word in taken:
        word += "_"
    return word
