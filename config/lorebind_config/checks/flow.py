"""Checks the order of tasks: each edge leads to a task, and each path reaches an end.

A workflow begins with the first task of its list. The declarations already refuse a list without
tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lorebind_config.checks.task_graph import Edge, TaskGraph, circle
from lorebind_config.declarations.flow import reachable
from lorebind_config.declarations.tasks import CompositeTask, RouterTask, TaskBase, with_nested
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import Problem, did_you_mean


def flows(workflows: Sequence[WorkflowDeclaration]) -> Iterator[Problem]:
    """Find the problems of the edges of workflows, in all lists of tasks, at any depth."""
    for workflow in workflows:
        tasks = list(with_nested(workflow.tasks))
        every = {task.id for task in tasks if isinstance(task.id, str)}
        for flow in [workflow.tasks, *(flow for task in tasks for flow in task.flows())]:
            graph = TaskGraph(flow)
            yield from _targets(graph, every)
            if graph.is_known:
                yield from _ends(graph)
                yield from _unreachable(graph)
                yield from _circles(graph)
                yield from _traps(graph)


def _targets(graph: TaskGraph, every: set[str]) -> Iterator[Problem]:
    """Find edges that lead to an unknown task, or twice to the same task."""
    for edge in graph.unknown if graph.knows_ids else ():
        task = graph.tasks[edge.source]
        where, hint = f"unknown task {edge.name!r}", did_you_mean(edge.name, graph.numbers)
        if edge.name in every:
            where = f"task {edge.name!r}, which is in another list of tasks"
            hint = f"known: {', '.join(sorted(graph.numbers))}"
        yield task.problem(edge.path, f"{task.title} leads to {where}", hint)
    times = Counter((edge.source, edge.field, edge.name) for edge in graph.named)
    for edge in graph.named:
        if times.pop((edge.source, edge.field, edge.name), 1) > 1:
            task = graph.tasks[edge.source]
            message = f"{task.title} leads to task {edge.name!r} twice"
            yield task.problem(edge.field, message, "name it once")


def _ends(graph: TaskGraph) -> Iterator[Problem]:
    """Find tasks that need a next task but have none, and final tasks that have one."""
    for number, task in enumerate(graph.tasks):
        if graph.leads_nowhere(number):
            yield task.problem(("id",), *_dead_end(graph, task))
        elif task.final is True and task.on_success is not None:
            message = f"{task.title} is final, but has on_success"
            yield task.problem(("on_success",), message, "remove one of them")
        elif task.final is True and not graph.is_written and number + 1 < len(graph.tasks):
            after = graph.tasks[number + 1].title
            message = f"{task.title} is final, so {after} never runs"
            yield task.problem(("final",), message, "write on_success, or remove final")


def _dead_end(graph: TaskGraph, task: TaskBase) -> tuple[str, str]:
    """Return the message and the hint for a task without a next task.

    Either the task has an edge for errors only, or it has none while other tasks have edges.
    """
    hint = "write on_success or final: true"
    if task.targets():
        return f"{task.title} has on_error but no on_success", hint
    other = next(task for task in graph.tasks if task.targets())
    line = other.position("id").line
    where = f" (line {line})" if line else ""
    why = f"{other.title}{where} has edges, so the order of the list does not apply"
    return f"{task.title} has no next task", f"{why}: {hint}"


def _unreachable(graph: TaskGraph) -> Iterator[Problem]:
    """Find tasks that the first cannot reach, without those that only follow such a task."""
    reach = graph.reach
    lost = [number for number in range(len(graph.tasks)) if graph.is_lost(number)]
    if not graph.knows_ids:  # an unreadable id may be the one that an edge names
        return
    for number in lost:
        before = [n for n in lost if n != number and reach[n] >> number & 1]
        if all(reach[number] >> n & 1 and n > number for n in before):
            message = f"{graph.tasks[number].title} is never reached"
            hint = f"add an edge to it from {graph.tasks[0].title}, or remove it"
            yield graph.tasks[number].problem(("id",), message, hint)


def _circles(graph: TaskGraph) -> Iterator[Problem]:
    """Find loops without a router that could leave them."""
    for edge in graph.edges:
        if edge.source == edge.target:
            task = graph.tasks[edge.source]
            message = f"{task.title} is its own next task"
            yield task.problem(edge.path, message, "add a router to the loop")
    plain = [
        edge
        for edge in _in_circles(graph)
        if edge.source != edge.target
        and not isinstance(graph.tasks[edge.source], RouterTask)
        and not isinstance(graph.tasks[edge.target], RouterTask)
    ]
    for group in _groups(plain):
        way = circle(group[0], plain)
        message = f"{graph.tasks[group[0]].title} is in a loop without a router"
        yield graph.tasks[way[-1].source].problem(
            way[-1].path,
            f"{message}: {_arrows(graph, way)}",
            "add a router to the loop",
        )


def _traps(graph: TaskGraph) -> Iterator[Problem]:
    """Find loops that contain a router but never leave."""
    numbers = range(len(graph.tasks))
    ends = [n for n in numbers if graph.is_end(n) or graph.leads_nowhere(n)]
    trapped = {n for n in numbers if n not in ends and not any(graph.can_reach(n, e) for e in ends)}
    edges = [e for e in _in_circles(graph) if e.source in trapped and e.source != e.target]
    for group in _groups(edges):
        leads_out = any(target not in group for n in group for target in graph.followers(n))
        routed = any(isinstance(graph.tasks[n], RouterTask) for n in group)
        if leads_out or not routed:
            continue  # reported for the tasks that follow, or for the edges
        task = graph.tasks[group[0]]
        way = _arrows(graph, circle(group[0], edges))
        message = f"{task.title} never reaches an end: {way}"
        yield task.problem(("id",), message, "add a route to a final task")


def _in_circles(graph: TaskGraph) -> list[Edge]:
    """Return the edges between tasks that are part of a loop; most graphs have none."""
    inside = {n for n in range(len(graph.tasks)) if graph.can_reach(n, n)}
    return [edge for edge in graph.edges if edge.source in inside and edge.target in inside]


def _groups(edges: Sequence[Edge]) -> list[list[int]]:
    """Return the loops, each as the list of tasks that can all reach each other."""
    after: dict[int, list[int]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
    count = 1 + max((max(edge.source, edge.target) for edge in edges), default=0)
    reach = reachable([after.get(number, []) for number in range(count)], [0] * count)
    groups: dict[int, list[int]] = {}
    for number in sorted(after):
        if reach[number] >> number & 1:
            # Tasks in the same loop reach the same tasks.
            groups.setdefault(reach[number], []).append(number)
    return list(groups.values())


def _arrows(graph: TaskGraph, way: Sequence[Edge]) -> str:
    numbers = [way[0].source, *(edge.target for edge in way)]
    return " -> ".join(str(graph.tasks[number].id) for number in numbers)


def composites(workflows: Sequence[WorkflowDeclaration]) -> Iterator[Problem]:
    """Find the problems of `composite` tasks: unknown workflows, wrong inputs and cycles."""
    by_id = {w.id: w for w in workflows if isinstance(w.id, str)}
    all_readable = all(isinstance(workflow.id, str) for workflow in workflows)
    for workflow in workflows:
        for task in _composite_tasks(workflow):
            inner = by_id.get(task.workflow) if isinstance(task.workflow, str) else None
            if inner is not None:
                yield from _inputs(task, inner)
            elif isinstance(task.workflow, str) and all_readable:
                message = f"{task.title} runs unknown workflow {task.workflow!r}"
                yield task.problem(("workflow",), message, did_you_mean(task.workflow, by_id))
    yield from _cycles(by_id)


def _composite_tasks(workflow: WorkflowDeclaration) -> Iterator[CompositeTask]:
    return (task for task in with_nested(workflow.tasks) if isinstance(task, CompositeTask))


def _inputs(task: CompositeTask, inner: WorkflowDeclaration) -> Iterator[Problem]:
    if not isinstance(inner.input, dict) or not isinstance(task.input, dict):
        return
    for name in task.input:
        if name not in inner.input:
            message = f"workflow {inner.id!r} has no input {name!r}"
            yield task.problem(("input", name), message, did_you_mean(name, inner.input))
    for name, expected in inner.input.items():
        required = expected.required is True and expected.default is None
        if required and name not in task.input:
            message = f"workflow {inner.id!r} needs the input {name!r}"
            yield task.problem(("input",), message, f"write it below input: of {task.title}")


def _cycles(by_id: Mapping[str, WorkflowDeclaration]) -> Iterator[Problem]:
    """Find each cycle once, at the task that closes it, in the order of the workflows."""
    done: set[str] = set()
    for start in by_id:
        way, ahead = [start], [_ahead(start, by_id, done)]
        while way:  # no recursion: a chain of workflows may be longer than Python's stack allows
            task = next(ahead[-1], None)
            if task is None:
                ahead.pop()
                done.add(way.pop())
            elif task.workflow in way:
                circle = [*way[way.index(task.workflow) :], task.workflow]
                message = f"workflow {task.workflow!r} would run itself: {' -> '.join(circle)}"
                yield task.problem(("workflow",), message, "remove one of these composite tasks")
            elif task.workflow in by_id:
                way.append(task.workflow)
                ahead.append(_ahead(task.workflow, by_id, done))


def _ahead(
    name: str, by_id: Mapping[str, WorkflowDeclaration], done: set[str]
) -> Iterator[CompositeTask]:
    """Return the tasks that run other workflows; none if this workflow was already visited."""
    return iter(()) if name in done else _composite_tasks(by_id[name])
