"""The graph of a workflow as text, data, Mermaid, and as LangGraph draws it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lorebind import Project
from lorebind_bindings.workflow.drawing import as_mermaid, as_text
from lorebind_bindings.workflow.outline import outline
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import build_project
from tests.bindings.helpers import write

from .triage import FILES

TEXT = """\
triage: Sorts tickets.
inputs: ticket

read       python  steps:read
    -> kind
    on error -> apologise
kind       router  tasks.read.output.kind
    question -> answers
    refund -> approve
    otherwise -> apologise
answers    collection  each of {{ .tasks.read.output.questions }}
    | answer  basic
    -> reply
approve    wait  Pay? {{ .input.ticket }}
    -> reply
reply      aggregate
    -> end
apologise  basic
    -> end"""

MANY = {"id": "many", "type": "collection", "items": [1], "task": {"id": "a.b", "prompt": "x"}}
BRANCHES = [{"id": "one", "prompt": "x"}, [{"id": "two", "prompt": "x"}, MANY]]
NESTED = [
    {"id": "both", "type": "parallel", "condition": "1 < 2", "branches": BRANCHES},
    {"id": "end", "type": "composite", "workflow": "inner"},
]


def _loaded(path: Path, **more: Any) -> LoadedProject:
    inner = {"id": "inner", "tasks": [{"id": "graph", "prompt": "x"}]}
    workflow = {"id": "outer", "tasks": NESTED, **more}
    return build_project({"name": "p", "workflows": [workflow, inner]}, root=path)


def test_a_workflow_as_text(tmp_path: Path) -> None:
    """Each task has its kind, its content, and the next task of each route."""
    loaded = Project.load(write(tmp_path, FILES)).config
    assert "\n".join(as_text(outline(loaded, "triage"))) == TEXT


def test_tasks_in_order_need_no_arrows(tmp_path: Path) -> None:
    """Branches, items and the tasks of another workflow are nested in the tasks that run them."""
    assert "\n".join(as_text(outline(_loaded(tmp_path), "outer"))) == (
        """\
outer

both  parallel  if 1 < 2
    branch 1:
    | one  basic
    branch 2:
    | two   basic
    | many  collection  each of [1]
    |     | a.b  basic
end   composite  workflow inner
    | graph  basic"""
    )


def test_a_workflow_as_data(tmp_path: Path) -> None:
    """The data has tasks with paths, flows with entries, and edges with conditions."""
    drawn = outline(Project.load(write(tmp_path, FILES)).config, "triage")
    assert (drawn.flow.entry, drawn.flow.ends) == ("read", ["reply", "apologise"])
    edges = {(edge.source, edge.target): (edge.on, edge.label) for edge in drawn.flow.edges}
    assert edges["read", "kind"] == ("success", "")
    assert edges["read", "apologise"] == ("error", "error")
    assert edges["kind", "approve"] == ("route", "refund")
    assert edges["kind", "apologise"] == ("default", "default")
    nested = outline(_loaded(tmp_path), "outer").flow.tasks
    assert [task.path for flow in nested[0].flows for task in flow.tasks] == [
        *("both.one", "both.two", "both.many")
    ]
    assert nested[1].flows[0].tasks[0].path == "end.graph"


def test_mermaid_has_all_tasks_and_edges(tmp_path: Path) -> None:
    """Tasks that contain others are subgraphs, routes are labels, and errors are dotted."""
    drawn = as_mermaid(outline(Project.load(write(tmp_path, FILES)).config, "triage"))
    assert drawn.startswith('flowchart TD\n  start(["start"])\n  t0[["read<br/>python')
    assert '  subgraph t2["answers<br/>collection' in drawn
    assert '\n    t3["answer<br/>basic"]\n  end\n' in drawn
    for line in (
        *("start --> t0", "t0 --> t1", 't0 -.->|"error"| t6', 't1 -->|"question"| t2'),
        *('t1 -->|"default"| t6', "t2 --> t5", "t5 --> finish", "t6 --> finish"),
    ):
        assert f"\n  {line}" in drawn
    nested = as_mermaid(outline(_loaded(tmp_path), "outer"))
    assert nested.count("subgraph ") == nested.count("\n    end") + nested.count("\n  end") == 3


def test_no_text_is_read_as_mermaid(tmp_path: Path) -> None:
    """Ids are generated, and labels are escaped: quotes, brackets, comments and keywords."""
    hostile = 'a"]\n  evil --> x %%{init: {}}%% #quot; `b` <script> | end'
    tasks = [
        {"id": "end", "type": "router", "condition": "'x'", "routes": {hostile: "subgraph"}},
        {"id": "subgraph", "type": "wait", "prompt": hostile, "final": True},
    ]
    drawn = as_mermaid(outline(_loaded(tmp_path, tasks=tasks), "outer"))
    assert len(drawn.splitlines()) == 8
    for label in re.findall(r'"([^"\n]*)"', drawn):
        assert re.fullmatch(r"(<br/>|#\d+;|[\w .,:()-])*", label), label
    without = re.sub(r'"[^"\n]*"', '""', drawn)
    assert not re.search(r"evil|script|quot|%|`", without)
    assert re.findall(r"\bt\d+\b", without) == ["t0", "t1", "t0", "t0", "t1", "t1"]


def test_langgraph_draws_the_tasks(tmp_path: Path) -> None:
    """`get_graph()` has the declared tasks and edges, not the steps that run them."""
    with Project.load(write(tmp_path, FILES)) as project:
        graph = project.graph("triage")
        drawn = graph.get_graph()
    tasks = {"read", "kind", "answers", "approve", "reply", "apologise"}
    assert {*drawn.nodes} == tasks | {"__start__", "__end__"}
    edges = {(edge.source, edge.target, edge.data) for edge in drawn.edges}
    assert ("kind", "approve", "refund") in edges
    assert {edge.source for edge in drawn.edges if edge.target == "__end__"} == {
        "reply",
        "apologise",
    }
    text = drawn.draw_mermaid()
    assert "kind -. &nbsp;refund&nbsp; .-> approve;" in text
    assert graph.with_config(tags=["x"]).get_graph().draw_mermaid() == text
    deep = graph.get_graph(xray=True)
    assert {"answers:answers", "answers:answer"} <= {*deep.nodes}
    assert "subgraph answers\n" in deep.draw_mermaid()


def test_langgraph_draws_any_name(tmp_path: Path) -> None:
    """Mermaid keywords and dots are not used as names; the id is displayed."""
    with Project(_loaded(tmp_path)) as project:
        drawn = project.graph("outer").get_graph(xray=True)
    names = {key: node.name for key, node in drawn.nodes.items()}
    assert names["end_:graph_"] == "graph"
    assert names["both:both_many:a_b"] == "a.b"
    assert drawn.draw_mermaid().count("\tend\n") == 3
