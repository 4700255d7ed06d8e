"""Random graphs of tasks, and a slow and simple model of their execution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st


@dataclass
class Node:
    """A task of a random graph."""

    name: str
    kind: str
    """`python`, `router` or `parallel`."""
    targets: dict[str, list[str]] = field(default_factory=dict)
    """The next tasks by the field that names them: `on_success`, `on_error`, a route, `default`."""
    condition: bool | None = None
    route: str = ""
    """The value of a router's condition: one of its routes, or another value."""
    fails: str = "never"
    """`always` fails and is handled by an edge; `once` fails until the run is resumed. A parallel
    task fails because of an additional branch."""
    branches: list[Graph] = field(default_factory=list)
    before: set[str] = field(default_factory=set)
    """The tasks that may run before it."""


@dataclass
class Graph:
    nodes: list[Node]
    """The tasks, each before those that it leads to."""
    order: list[int] = field(default_factory=lambda: [0])
    """The order in which they are declared; the first task is always the first."""

    def every(self) -> Iterator[Node]:
        for node in self.nodes:
            yield node
            for branch in node.branches:
                yield from branch.every()


@st.composite
def graphs(draw: st.DrawFn, names: Iterator[int] | None = None, depth: int = 0) -> Graph:
    """Draw graphs without loops, whose parallel tasks contain further graphs."""
    names = names or count()
    size = draw(st.integers(1, 3 if depth else 8))
    nodes = [Node(f"t{next(names)}", "python") for _ in range(size)]
    for at, node in enumerate(nodes):
        later = [node.name for node in nodes[at + 1 :]]
        ends = not later or (at and draw(st.sampled_from([False, False, False, True])))
        kinds = ["python"] * 4 + ["router"] * 2 * (not ends) + ["parallel"] * (depth < 2)
        node.kind = draw(st.sampled_from(kinds))
        if node.kind != "router":
            node.condition = draw(st.sampled_from([None, None, None, True, False]))
            node.fails = draw(st.sampled_from(["never"] * 7 + ["once"] * (not depth)))
        if not ends:
            _connect(draw, node, later)
        if node.kind == "parallel":
            node.branches = draw(st.lists(graphs(names, depth + 1), min_size=1, max_size=3))
            if node.fails != "never":
                node.branches.append(Graph([Node(f"t{next(names)}", "python", fails=node.fails)]))
    for at, node in enumerate(nodes[1:], start=1):
        leading = [edge for node in nodes[:at] for edge in node.targets.values()]
        if not any(node.name in edge for edge in leading):
            draw(st.sampled_from(leading)).append(node.name)
        leads = (
            before
            for before in nodes[:at]
            if any(node.name in edge for edge in before.targets.values())
        )
        for lead in leads:
            node.before |= {lead.name, *lead.before}
    return Graph(nodes, [0, *draw(st.permutations(range(1, size)))])


def _connect(draw: st.DrawFn, node: Node, later: list[str]) -> None:
    some = st.lists(st.sampled_from(later), min_size=1, max_size=3, unique=True)
    if node.kind == "router":
        node.route = draw(st.sampled_from(["a", "b", "c"]))
        node.targets = {route: draw(some) for route in ("a", "b", "default")}
        return
    node.targets = {"on_success": draw(some)}
    if draw(st.sampled_from([False, False, True])):
        node.targets["on_error"] = draw(some)
        node.fails = draw(st.sampled_from(["never", "always"]))


@dataclass
class Expected:
    """The expected execution of a graph."""

    status: dict[str, str] = field(default_factory=dict)
    """The status of each task, including those in parallel tasks that fail."""
    past: dict[str, set[str]] = field(default_factory=dict)
    """The tasks that each task that ran may see: those that led to it, and those inside them."""
    completed: set[str] = field(default_factory=set)
    values: dict[str, Any] = field(default_factory=dict)
    """The output of each task."""
    output: Any = None
    _held: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Expected:
        """Return the expected execution, which does not depend on the order of tasks."""
        model = cls()
        led_by: dict[str, set[str]] = {graph.nodes[0].name: set()}
        last = -1
        for at, node in enumerate(graph.nodes):
            name = node.name
            model.status[name], model.values[name] = "skipped", None
            if name not in led_by:
                continue
            seen = ({task, *model.past[task], *model._held[task]} for task in led_by[name])
            model.past[name] = set().union(*seen)
            targets = node.targets.get(model._run(node), [])
            for target in targets:
                led_by.setdefault(target, set()).add(name)
            place = graph.order.index(at)
            if not targets and place > last and model.status[name] == "completed":
                last, model.output = place, model.values[name]
        return model

    def _run(self, node: Node) -> str:
        """Run a task, and return the field that names the next tasks."""
        name = node.name
        self._held[name] = set()
        if node.condition is False:
            return "on_success"
        inner = [Expected.of(branch) for branch in node.branches]
        for part in inner:
            self.past |= {task: past | self.past[name] for task, past in part.past.items()}
            self.completed |= part.completed
            self.status |= part.status
        if node.fails == "always":
            self.status[name] = "failed"
            return "on_error"
        self.completed.add(name)
        self.values[name] = name
        if node.branches:
            self.values[name] = {
                task: value for part in inner for task, value in part.values.items()
            }
            held = (item for part in inner for item in part._held.items())
            self._held[name] = {task for lead, others in held for task in (lead, *others)}
        self.status[name] = "completed"
        if node.kind != "router":
            return "on_success"
        self.values[name] = node.route
        return node.route if node.route in node.targets else "default"


# Programs: graphs that consist of sequences, choices, forks and loops.


@dataclass
class Step:
    """One task."""

    name: str


@dataclass
class Choice:
    """A router that selects one of several parts, the next one each time."""

    name: str
    arms: list[list[Any]]


@dataclass
class Fork:
    """Several concurrent parts that are joined."""

    name: str
    arms: list[list[Any]]


@dataclass
class Loop:
    """A part that runs several times."""

    name: str
    body: list[Any]
    rounds: int


@st.composite
def programs(draw: st.DrawFn, names: Iterator[int] | None = None, depth: int = 0) -> list[Any]:
    names = names or count()
    statements: list[Any] = []
    for _ in range(draw(st.integers(1, 2 if depth else 3))):
        name = f"s{next(names)}"
        kinds = ["step"] if depth > 2 else ["step", "choice", "fork", "loop"]
        inner = programs(names, depth + 1)
        match draw(st.sampled_from(kinds)):
            case "step":
                statements.append(Step(name))
            case "choice":
                statements.append(Choice(name, draw(st.lists(inner, min_size=2, max_size=2))))
            case "fork":
                statements.append(Fork(name, draw(st.lists(inner, min_size=2, max_size=3))))
            case "loop":
                statements.append(Loop(name, draw(inner), draw(st.integers(1, 3))))
    return statements


@dataclass
class Trace:
    """All executions of a program, each with its direct predecessors."""

    before: list[tuple[str, set[int]]] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=dict)

    def play(self, statements: list[Any], front: set[int]) -> set[int]:
        """Interpret a program after some executions, and return the last executions."""
        for statement in statements:
            match statement:
                case Step(name):
                    front = self._run(name, front)
                case Choice(name, arms):
                    turn = self.turns[name] = self.turns.get(name, -1) + 1
                    front = self._run(f"{name}_choose", front)
                    front = self.play(arms[turn % len(arms)], front)
                    front = self._run(f"{name}_end", front)
                case Fork(name, arms):
                    front = self._run(f"{name}_fork", front)
                    front = set().union(*(self.play(arm, front) for arm in arms))
                    front = self._run(f"{name}_join", front)
                case Loop(name, body, rounds):
                    for _ in range(rounds):
                        front = self._run(f"{name}_head", front)
                        front = self.play(body, front)
                        front = self._run(f"{name}_count", front)
        return front

    def _run(self, name: str, front: set[int]) -> set[int]:
        self.before.append((name, front))
        return {len(self.before) - 1}
