"""The graph of a workflow for people: as lines of text, and as a Mermaid flowchart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_bindings.workflow.outline import (
        EdgeOutline,
        FlowOutline,
        TaskOutline,
        WorkflowOutline,
    )

_SHAPES = {
    "router": ('{"', '"}'),
    "python": ('[["', '"]]'),
    "wait": ('[/"', '"/]'),
    "aggregate": ('("', '")'),
}
_PLAIN = " _-.,:()"


def as_text(workflow: WorkflowOutline) -> list[str]:
    """Return lines of text: the tasks in declared order, with nested tasks and next tasks."""
    lines = [f"{workflow.id}: {workflow.description}" if workflow.description else workflow.id]
    if workflow.inputs:
        lines.append(f"inputs: {', '.join(workflow.inputs)}")
    return [*lines, "", *_flow_lines(workflow.flow, "", "end")]


def _flow_lines(flow: FlowOutline, indent: str, end: str) -> Iterator[str]:
    width = max(len(task.id) for task in flow.tasks)
    for task in flow.tasks:
        about = f"  {task.about}" if task.about else ""
        when = f"  if {task.condition}" if task.condition else ""
        yield f"{indent}{task.id:{width}}  {task.type}{about}{when}".rstrip()
        inside = indent + "    "
        for number, inner in enumerate(task.flows, start=1):
            if len(task.flows) > 1:
                yield f"{inside}branch {number}:"
            yield from _flow_lines(inner, f"{inside}| ", f"end of {task.id}")
        if not flow.in_order:
            yield from (f"{inside}{line}" for line in _next_lines(flow, task, end))


def _next_lines(flow: FlowOutline, task: TaskOutline, end: str) -> Iterator[str]:
    """Yield the tasks that follow a task, one line per edge label."""
    targets: dict[str, list[str]] = {}
    for edge in flow.edges:
        if edge.source == task.id:
            targets.setdefault(_by_label(edge), []).append(edge.target)
    if task.id in flow.ends:
        targets.setdefault("", []).insert(0, end)
    for label, names in targets.items():
        yield f"{label} -> {', '.join(names)}".lstrip()


def _by_label(edge: EdgeOutline) -> str:
    return {"error": "on error", "default": "otherwise"}.get(edge.on, edge.label)


def as_mermaid(workflow: WorkflowOutline) -> str:
    """Return a Mermaid flowchart in which tasks with nested tasks are subgraphs."""
    flow, ids = workflow.flow, dict[str, str]()
    lines = ["flowchart TD", '  start(["start"])', *_nodes(flow, ids, "  ", "")]
    lines += ['  finish(["end"])', f"  start --> {ids[flow.entry]}"]
    lines += [f"  {line}" for line in _edges(flow, ids, "")]
    lines += [f"  {ids[end]} --> finish" for end in flow.ends]
    return "\n".join(lines)


def _nodes(flow: FlowOutline, ids: dict[str, str], indent: str, prefix: str) -> Iterator[str]:
    """Yield the tasks with generated ids: words such as `end` are not allowed as Mermaid ids."""
    for task in flow.tasks:
        name = ids[f"{prefix}{task.id}"] = f"t{len(ids)}"
        details = [task.type, task.about, f"if {task.condition}" if task.condition else ""]
        label = "<br/>".join([escaped(task.id), *map(escaped, filter(None, details))])
        if not task.flows:
            opened, closed = _SHAPES.get(task.type, ('["', '"]'))
            yield f"{indent}{name}{opened}{label}{closed}"
            continue
        yield f'{indent}subgraph {name}["{label}"]'
        for inner in task.flows:
            yield from _nodes(inner, ids, f"{indent}  ", f"{task.path}.")
        for inner in task.flows:
            yield from (f"{indent}  {line}" for line in _edges(inner, ids, f"{task.path}."))
        yield f"{indent}end"


def _edges(flow: FlowOutline, ids: dict[str, str], prefix: str) -> Iterator[str]:
    for edge in flow.edges:
        arrow = "-.->" if edge.on == "error" else "-->"
        label = f'|"{escaped(edge.label)}"|' if edge.label else ""
        yield f"{ids[prefix + edge.source]} {arrow}{label} {ids[prefix + edge.target]}"


def escaped(text: str) -> str:
    """Escape text for a quoted label: special characters become character codes."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text)
