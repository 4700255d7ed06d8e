"""Random workflows do what a slow model of them predicts, whichever task is faster."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lorebind_bindings import RunResult, TaskContext, Update
from lorebind_config.errors import TaskError
from tests.bindings.workflow_helpers import flow, python, to, workflows

from .workflow_model import Choice, Expected, Fork, Graph, Loop, Node, Step, Trace, graphs, programs

Lead = Callable[[str], None]
"""A function that adds an edge from an earlier task to the named task."""
Part = tuple[str, list[Lead]]
"""The first task of a part of a program, and the edges that lead out of the part."""

CHANNELS = {"seen": {"reducers": [f"{__name__}:appended"], "default": []}}


def appended(seen: list[Any], update: Any) -> list[Any]:
    return [*seen, update]


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> settings:
    """Return Hypothesis settings with as many examples as time allows."""
    return settings(
        max_examples=500 if request.config.getoption("torture") else 15,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Workshop:
    """Creates the tasks of a model, which record their execution and pause randomly."""

    def __init__(self, seed: float) -> None:
        self.dice = random.Random(seed)
        self.log: list[tuple[str, str]] = []
        self.usable: dict[str, set[str]] = {}
        """The tasks whose outputs each task may use."""
        self.sees: dict[str, tuple[set[str], list[str]]] = {}
        """The tasks whose outputs each task saw, and the content of the channel."""

    def began(self, name: str) -> int:
        return self.log.index(("start", name))

    def ended(self, name: str) -> int:
        return max(at for at, event in enumerate(self.log) if event == ("end", name))

    def declared(self, graph: Graph, around: Collection[str] = ()) -> list[dict[str, Any]]:
        return [self._task(graph.nodes[at], around) for at in graph.order]

    def _task(self, node: Node, around: Collection[str]) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        past = self.usable[node.name] = {*around, *node.before}
        if node.kind == "router":
            routes = {route: node.targets[route] for route in ("a", "b")}
            keys = {"routes": routes, "default": node.targets["default"]}
            return {"id": node.name, "type": "router", "condition": f"'{node.route}'", **keys}
        if node.condition is not None:
            keys["condition"] = str(node.condition).lower()
        keys |= {name: to(*targets) for name, targets in node.targets.items()}
        if not node.targets:
            keys["final"] = True
        if node.kind == "parallel":
            branches = [self.declared(branch, past) for branch in node.branches]
            return {"id": node.name, "type": "parallel", "branches": branches, **keys}
        seen = {name: f"{{{{ .tasks.{name}.output }}}}" for name in sorted(past)}
        return python(node.name, self._function(node), args={"outputs": seen}, **keys)

    def _function(self, node: Node) -> Callable[..., Any]:
        tries = 0

        async def work(outputs: dict[str, Any], context: TaskContext) -> Update:
            nonlocal tries
            tries += 1
            self.log.append(("start", node.name))
            visible = {name for name, output in outputs.items() if output is not None}
            self.sees[node.name] = visible, list(context.state["seen"])
            for _ in range(self.dice.randrange(4)):
                await asyncio.sleep(0)
            self.log.append(("end", node.name))
            if node.fails == "always" or (node.fails == "once" and tries == 1):
                raise ValueError(node.name)
            return Update(node.name, seen=node.name)

        return work


async def played(graph: Graph, workshop: Workshop, **keys: Any) -> tuple[RunResult, list[str]]:
    """Run a graph and resume it after failures; return the result and the failed tasks."""
    flows = workflows(flow(*workshop.declared(graph), channels=CHANNELS, **keys))
    failed: list[str] = []
    while True:
        try:
            if not failed:
                return await flows.run("w", {}, thread_id="t"), failed
            return await flows.resume("w", "t"), failed
        except TaskError as error:
            failed.append(error.task)
            if failed.count(error.task) > 1:
                raise


def check(graph: Graph, model: Expected, workshop: Workshop, result: RunResult) -> None:
    """Compare the execution with the model, except for the output."""
    nodes = {node.name: node for node in graph.every()}
    functions = {name for name, node in nodes.items() if node.kind == "python"}
    runs = {name for name in functions & {*model.past} if nodes[name].condition is not False}
    writers = functions & model.completed
    tries = Counter(name for what, name in workshop.log if what == "start")
    assert tries == {name: 1 + (nodes[name].fails == "once") for name in runs}
    assert {name: task.status for name, task in result.tasks.items()} == model.status
    assert {
        name: task.output for name, task in result.tasks.items()
    }.items() >= model.values.items()
    for name in runs:
        before = model.past[name]
        outputs, seen = workshop.sees[name]
        assert all(workshop.ended(task) < workshop.began(name) for task in before & runs)
        assert outputs == before & model.completed & workshop.usable[name]
        assert set(seen) == before & writers
        assert is_in_order(seen, model)


def is_in_order(seen: list[str], model: Expected) -> bool:
    """Check that each task comes once, and after those that led to it."""
    places = {name: at for at, name in enumerate(seen)}
    return len(places) == len(seen) and all(
        places[task] < at for name, at in places.items() for task in model.past[name] & {*places}
    )


def test_graphs_without_loops(examples: settings) -> None:
    """A task runs once if an edge to it was taken, after all tasks that lead to it."""

    @examples
    @given(graphs())
    def compare(graph: Graph) -> None:
        model = Expected.of(graph)
        workshop = Workshop(1)
        result, failed = asyncio.run(played(graph, workshop))
        event(f"{len(model.past)} of {len(model.status)} tasks run, {len(failed)} fail")
        check(graph, model, workshop, result)
        assert result.output == model.output

    compare()


def test_state_is_of_the_graph_and_not_of_the_clock(examples: settings) -> None:
    """A channel's content and order do not depend on how long tasks take."""
    outputs = {"seen": "{{ .state.seen }}", "errors": "{{ .state.errors }}"}

    @examples
    @given(graphs(), st.randoms(use_true_random=False))
    def compare(graph: Graph, dice: random.Random) -> None:
        results = []
        for _ in range(2):
            workshop = Workshop(dice.random())
            result, _ = asyncio.run(played(graph, workshop, outputs=outputs))
            results.append(result.output)
        assert results[0] == results[1]
        assert is_in_order(results[0]["seen"], Expected.of(graph))

    compare()


class Machine:
    """Creates the tasks of a program, which record their start and end, and pause randomly."""

    def __init__(self, program: list[Any], seed: float) -> None:
        self.dice = random.Random(seed)
        self.log: list[tuple[str, str, int]] = []
        self.tasks: list[dict[str, Any]] = []
        _lead(self._all(program)[1], self._task("end", final=True))
        first, *others = self.tasks
        self.dice.shuffle(others)
        self.tasks = [first, *others]

    def _all(self, program: list[Any]) -> Part:
        parts = [self._part(statement) for statement in program]
        for (_, ends), (entry, _) in pairwise(parts):
            _lead(ends, entry)
        return parts[0][0], parts[-1][1]

    def _part(self, statement: Any) -> Part:
        name = statement.name
        match statement:
            case Choice(_, arms):
                ways = [f"r{at}" for at in range(len(arms))]
                entry = self._task(f"{name}_choose", ways)
                routes = self._router(name, f"{name}_choose")
                return entry, self._joined(f"{name}_end", arms, [routes(way) for way in ways])
            case Fork(_, arms):
                entry = self._task(f"{name}_fork")
                return entry, self._joined(f"{name}_join", arms, [self._after(entry)] * len(arms))
            case Loop(_, body, rounds):
                entry = self._task(f"{name}_head")
                inner = self._all(body)
                _lead([self._after(entry)], inner[0])
                _lead(inner[1], self._task(f"{name}_count", ["again"] * (rounds - 1) + ["done"]))
                routes = self._router(name, f"{name}_count")
                routes("again")(entry)
                return entry, [routes("done")]
        entry = self._task(name)
        return entry, [self._after(entry)]

    def _joined(self, name: str, arms: list[list[Any]], leads: list[Lead]) -> list[Lead]:
        parts = [self._all(arm) for arm in arms]
        entry = self._task(name)
        for lead, part in zip(leads, parts, strict=True):
            lead(part[0])
            _lead(part[1], entry)
        return [self._after(entry)]

    def _task(self, name: str, says: list[str] | None = None, **keys: Any) -> str:
        """Create a task that returns these texts in turn."""
        begun = 0

        async def work() -> str | None:
            nonlocal begun
            begun += 1
            self.log.append(("start", name, begun))
            for _ in range(self.dice.randrange(3)):
                await asyncio.sleep(0)
            self.log.append(("end", name, begun))
            return says[(begun - 1) % len(says)] if says else None

        self.tasks.append(python(name, work, **keys))
        return name

    def _after(self, name: str) -> Lead:
        (task,) = [task for task in self.tasks if task["id"] == name]
        return lambda target: task.setdefault("on_success", {"next": []})["next"].append(target)

    def _router(self, name: str, decider: str) -> Callable[[str], Lead]:
        task: dict[str, Any] = {"id": name, "type": "router", "routes": {}}
        task["condition"] = f"tasks.{decider}.output"
        self.tasks.append(task)
        self._after(decider)(name)
        return lambda route: lambda target: task["routes"].setdefault(route, []).append(target)


def _lead(ends: list[Lead], target: str) -> None:
    for lead in ends:
        lead(target)


def test_programs_with_loops(examples: settings) -> None:
    """Nested loops, forks and choices run each task as often as the program says."""

    @examples
    @given(programs(), st.randoms(use_true_random=False))
    def compare(program: list[Any], dice: random.Random) -> None:
        machine = Machine(program, dice.random())
        trace = Trace()
        trace.play([*program, Step("end")], set())
        asyncio.run(workflows(flow(*machine.tasks)).run("w", {}))
        counts = Counter[str]()
        places = {entry: at for at, entry in enumerate(machine.log)}
        executions: list[tuple[str, int]] = []
        for name, before in trace.before:
            counts[name] += 1
            executions.append((name, counts[name]))
            start = places["start", name, counts[name]]
            assert all(places["end", *executions[earlier]] < start for earlier in before)
        assert len(places) == 2 * len(executions)
        event(f"{len(executions) // 10 * 10} executions")

    compare()
