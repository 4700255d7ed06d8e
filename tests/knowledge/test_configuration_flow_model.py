"""The graph of a workflow against a brute-force model that walks every path through it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from lorebind_config.checks.flow import flows
from lorebind_config.checks.task_graph import TaskGraph
from lorebind_config.declarations.flow import Flow
from lorebind_config.declarations.workflows import WorkflowDeclaration
from tests.density import examples


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Generate tasks whose edges mostly lead to later tasks."""
    count = draw(st.integers(1, 6))
    names = [f"t{number}" for number in range(count)]
    written = draw(st.integers(0, 5)) > 0
    tasks: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        later = st.sampled_from(names[number + 1 :] or names)
        rarely = st.integers(0, 11).map(lambda number: number == 0)
        anywhere = st.sampled_from([*names, *names, "gone"])
        target = anywhere if draw(rarely) else later
        targets = st.lists(target, min_size=1, max_size=2, unique=not draw(rarely))
        task: dict[str, Any] = {"id": name, "prompt": "p"}
        ends = number == count - 1 or draw(rarely)
        if draw(rarely) if not written else ends != draw(rarely):
            task["final"] = True
        if written and draw(st.integers(0, 3)) == 0:
            task = {"id": name, "type": "router", "condition": "'r'", "routes": {}}
            for route in ("r", "s")[: draw(st.integers(1, 2))]:
                task["routes"][route] = draw(st.lists(anywhere, min_size=1, max_size=1) | targets)
            if draw(st.booleans()):
                task["default"] = draw(targets)
        elif written and ("final" not in task or draw(rarely)) and not draw(rarely):
            task["on_success"] = {"next": draw(targets)}
        if written and draw(rarely):
            task["on_error"] = {"next": draw(targets)}
        tasks.append(task)
    return tasks


def lists_of(task: dict[str, Any]) -> Iterator[list[str]]:
    yield from task.get("routes", {}).values()
    if "default" in task:
        yield task["default"]
    for field in ("on_success", "on_error"):
        if field in task:
            yield task[field]["next"]


def ways(start: str, edges: dict[str, list[str]]) -> Iterator[list[str]]:
    """Yield all paths from a task that visit no task twice, except perhaps the last one."""
    todo = [[start]]
    while todo:
        way = todo.pop()
        yield way
        if way.count(way[-1]) == 1:
            todo += [[*way, after] for after in edges[way[-1]]]


def refused_by_model(tasks: list[dict[str, Any]]) -> set[str]:
    """Return the kinds of problems for which a graph is refused."""
    names = [task["id"] for task in tasks]
    by_name = dict(zip(names, tasks, strict=True))
    lists = {name: list(lists_of(task)) for name, task in by_name.items()}
    if not any(lists.values()):
        late = any(task.get("final") for task in tasks[:-1])
        return {"is final, so task"} if late else set()
    edges = {
        name: [target for route in routes for target in route if target in by_name]
        for name, routes in lists.items()
    }
    kinds = set()
    for name, task in by_name.items():
        routed, final = "routes" in task, task.get("final", False)
        if any(target not in by_name for route in lists[name] for target in route):
            kinds.add("unknown task")
        if any(len(set(route)) < len(route) for route in lists[name]):
            kinds.add("twice")
        if name in edges[name]:
            kinds.add("its own next task")
        if not routed and not final and "on_success" not in task:
            kinds.add("has on_error but" if "on_error" in task else "has no next task")
        if final and "on_success" in task:
            kinds.add("is final, but has")
        all_ways = list(ways(name, edges))
        for way in all_ways:
            if way[-1] == name and len(way) > 2 and not any("routes" in by_name[n] for n in way):
                kinds.add("without a router")
        if not any(by_name[n].get("final") for way in all_ways for n in way):
            kinds.add("never reaches an end")
    reached = {name for way in ways(names[0], edges) for name in way}
    if reached != set(names):
        kinds.add("is never reached")
    return kinds


CONSEQUENCES = {
    "never reaches an end": {
        "has no next task",
        "has on_error but",
        "without a router",
        "its own next task",
        "unknown task",
    },
    "is never reached": {"unknown task"},
    "has no next task": {"unknown task"},
    "has on_error but": {"unknown task"},
}


@given(graphs())
@settings(max_examples=examples(500), deadline=None)
def test_a_graph_is_accepted_exactly_if_the_model_accepts_it(tasks: list[dict[str, Any]]) -> None:
    """The reported kinds of problems are exactly those of the model."""
    workflow = WorkflowDeclaration.model_validate({"id": "w", "tasks": tasks})
    messages = [problem.message for problem in flows([workflow])]
    expected = refused_by_model(tasks)
    event("accepted" if not expected else ", ".join(sorted(expected)))
    for message in messages:
        assert any(kind in message for kind in expected), (messages, expected)
    reported = {kind for kind in expected if any(kind in message for message in messages)}
    for kind in expected - reported:
        assert CONSEQUENCES.get(kind, set()) & reported, (messages, expected)


@given(graphs().filter(lambda tasks: not refused_by_model(tasks)))
@settings(max_examples=examples(200), deadline=None)
def test_loading_and_running_see_the_same_graph(tasks: list[dict[str, Any]]) -> None:
    """For a valid list of tasks, loading, running and the generated edges give one graph."""
    workflow = WorkflowDeclaration.model_validate({"id": "w", "tasks": tasks})
    graph, flow = TaskGraph(workflow.tasks), Flow(workflow.tasks)
    names = [task["id"] for task in tasks]
    lists = {task["id"]: list(lists_of(task)) for task in tasks}
    edges = {name: [target for hop in hops for target in hop] for name, hops in lists.items()}
    if not any(lists.values()):
        edges = {name: [] for name in names} | {a: [b] for a, b in pairwise(names)}
    for number, source in enumerate(names):
        after = {name for way in ways(source, edges) for name in way[1:]}
        for other, target in enumerate(names):
            assert graph.can_reach(number, other) == (target in after)
            assert flow.can_reach(source, target) == (target in after)
