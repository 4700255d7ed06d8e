"""Tasks of a graph never start too early, and never deadlock."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from lorebind_bindings.workflow.joins import Tokens
from lorebind_config.declarations.flow import Flow
from lorebind_config.declarations.tasks import TaskDeclaration

from .workflow_helpers import to

TASKS: TypeAdapter[list[Any]] = TypeAdapter(list[TaskDeclaration])


def make_flow(edges: dict[str, list[str]]) -> Flow:
    """Make a graph from the successors of each task; a task without successors is an end."""
    tasks = [
        {"id": name, "type": "aggregate", "outputs": {"x": 1}}
        | ({"on_success": to(*targets)} if targets else {"final": True})
        for name, targets in edges.items()
    ]
    return Flow(TASKS.validate_python(tasks))


def go(flow: Flow, tokens: Tokens[None], source: str, *targets: str) -> None:
    """End a running task and take the edges to these tasks."""
    for edge in flow.after(source, "on_success"):
        if edge.target in targets:
            tokens.take(edge, None)
    tokens.end(source)


def begin(tokens: Tokens[None]) -> list[str]:
    """Start all tasks that may start."""
    started = tokens.ready()
    for name in started:
        tokens.start(name)
    return started


def test_a_join_waits_for_a_loop_that_leads_to_it() -> None:
    """Within a loop, the join after a fork waits for the inner loop of one branch to end."""
    flow = make_flow(
        {
            "fork": ["short", "head"],
            "short": ["join"],
            "head": ["again"],
            "again": ["head", "join"],
            "join": ["fork", "end"],
            "end": [],
        }
    )
    tokens: Tokens[None] = Tokens(flow)
    tokens.enter(None)
    assert begin(tokens) == ["fork"]
    go(flow, tokens, "fork", "short", "head")
    assert begin(tokens) == ["short", "head"]
    go(flow, tokens, "short", "join")
    go(flow, tokens, "head", "again")
    assert begin(tokens) == ["again"]
    go(flow, tokens, "again", "head")
    assert begin(tokens) == ["head"]
    go(flow, tokens, "head", "again")
    assert begin(tokens) == ["again"]
    go(flow, tokens, "again", "join")
    assert begin(tokens) == ["join"]


def test_a_round_begins_when_the_one_before_is_over() -> None:
    """The first task of a loop waits for the whole round, including its inner loops."""
    flow = make_flow(
        {"head": ["fast", "slow"], "fast": ["head", "end"], "slow": ["slow", "head"], "end": []}
    )
    tokens: Tokens[None] = Tokens(flow)
    tokens.enter(None)
    begin(tokens)
    go(flow, tokens, "head", "fast", "slow")
    assert begin(tokens) == ["fast", "slow"]
    go(flow, tokens, "fast", "head")
    assert begin(tokens) == []
    go(flow, tokens, "slow", "slow")
    assert begin(tokens) == ["slow"]
    go(flow, tokens, "slow", "head")
    assert begin(tokens) == ["head"]
    assert tokens.rounds == {"head": 2, "fast": 1, "slow": 2, "end": 0}


def test_it_does_not_wait_for_strangers() -> None:
    """A task starts when the tasks that lead to it have ended; unrelated tasks do not delay it."""
    flow = make_flow({"a": ["slow", "b"], "slow": ["end"], "b": ["c"], "c": ["end"], "end": []})
    tokens: Tokens[None] = Tokens(flow)
    tokens.enter(None)
    begin(tokens)
    go(flow, tokens, "a", "slow", "b")
    assert begin(tokens) == ["slow", "b"]
    go(flow, tokens, "b", "c")
    assert begin(tokens) == ["c"]
    go(flow, tokens, "c", "end")
    assert begin(tokens) == []
    assert tokens.skipped() == []
    go(flow, tokens, "slow", "end")
    assert begin(tokens) == ["end"]


@pytest.mark.parametrize("forward", [True, False])
def test_no_graph_comes_to_a_halt(forward: bool) -> None:
    """Tasks run or may start until all tokens are gone; without loops, each at most once."""
    for seed in range(300):
        dice = random.Random(seed)
        names = [f"t{number}" for number in range(dice.randint(1, 7))]
        edges = {}
        for at, name in enumerate(names):
            others = names[at + 1 :] if forward else names
            edges[name] = dice.sample(others, min(len(others), dice.randint(0, 3)))
        play(make_flow(edges), dice, forward=forward)


def play(flow: Flow, dice: random.Random, *, forward: bool) -> None:
    """Run the tasks of a graph until it ends, and let each take random edges."""
    tokens: Tokens[None] = Tokens(flow)
    tokens.enter(None)
    running: list[str] = []
    skipped: list[str] = []
    for _ in range(60):
        running += begin(tokens)
        assert len(set(running)) == len(running)
        if not running:
            assert not tokens._here
            assert sorted(skipped) == [name for name in flow.names if not tokens.rounds[name]]
            return
        name = running.pop(dice.randrange(len(running)))
        targets = [edge.target for edge in flow.after(name, "on_success")]
        go(flow, tokens, name, *dice.sample(targets, dice.randint(0, len(targets))))
        skipped += tokens.skipped()
        assert not forward or tokens.rounds[name] == 1
    assert not forward
