"""A workflow as a LangGraph graph: as a node of a user's graph, and by itself."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, Send

from lorebind import Project
from lorebind_config.errors import NotFoundError, TaskError, UsageError
from lorebind_config.namespace import tenant
from tests.bindings.helpers import write

from .triage import FILES

USER: Any = {"configurable": {"thread_id": "user 1"}}
PAY = Command(resume={"approve": {"ok": True}})


class Desk(TypedDict, total=False):
    """The state of the user's own graph."""

    input: dict[str, Any]
    output: Any
    ticket: str
    log: Annotated[list[str], operator.add]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with Project.load(write(tmp_path, FILES)) as loaded:
        yield loaded


def desk(node: Any, **options: Any) -> Any:
    """Return a user's graph with a workflow as its second node."""
    graph = StateGraph(Desk)
    graph.add_node("prepare", lambda state: {"input": {"ticket": state["ticket"]}})
    graph.add_node("triage", node)
    graph.add_node("note", lambda state: {"log": [str(state["output"])]})
    for source, target in (
        *((START, "prepare"), ("prepare", "triage")),
        *(("triage", "note"), ("note", END)),
    ):
        graph.add_edge(source, target)
    return graph.compile(**options)


def interrupt(state: dict[str, Any]) -> dict[str, Any]:
    (interrupted,) = state["__interrupt__"]
    value: dict[str, Any] = interrupted.value
    return value


def test_a_node_interrupts_and_goes_on(project: Project) -> None:
    """The node interrupts while a task waits, takes the answer, and returns the output."""
    graph = desk(project.graph("triage"), checkpointer=InMemorySaver())
    first = interrupt(graph.invoke({"ticket": "refund"}, USER))
    assert [question["path"] for question in first["waiting"]] == ["approve"]
    assert first["waiting"][0]["prompt"] == "Pay? refund"
    done = graph.invoke(PAY, USER)
    assert done["output"] == {"answers": None, "paid": {"ok": True}}
    assert len(done["log"]) == 1
    second = interrupt(graph.invoke({"ticket": "refund again"}, USER))
    assert second["waiting"][0]["prompt"] == "Pay? refund again"
    assert graph.invoke(PAY, USER)["output"]["paid"] == {"ok": True}
    threads = {thread.thread_id: thread.status for thread in project.threads("triage")}
    assert threads == {first["thread_id"]: "completed", second["thread_id"]: "completed"}
    assert first["thread_id"].startswith("user 1.")
    tasks = [step["path"] for step in project.history("triage", first["thread_id"])]
    assert tasks == ["read", "kind", "approve", "reply"]


async def test_the_same_awaited(project: Project) -> None:
    """`ainvoke` and `astream` work alike; the run is part of the caller's trace."""
    graph = desk(project.graph("triage"), checkpointer=InMemorySaver())
    assert interrupt(await graph.ainvoke({"ticket": "refund"}, USER))["waiting"]
    assert (await graph.ainvoke(PAY, USER))["output"]["paid"] == {"ok": True}
    other: Any = {"configurable": {"thread_id": "user 2"}}
    stream = graph.astream({"ticket": "x"}, other, stream_mode="messages", subgraphs=True)
    texts = [message.text async for _, (message, _) in stream]
    assert len(texts) > 3
    assert "".join(texts) == (await graph.aget_state(other)).values["output"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"aprove": 1}, "did you mean 'approve'"),
        ({"approve": {"ok": 3}}, "does not match its schema: 3 is not of type"),
        ("yes", "Command(resume={'approve': ...})"),
        ([], "Command(resume={'approve': ...})"),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_again(
    project: Project, answer: Any, problem: str
) -> None:
    """The interrupt is raised again with the reason; then a valid answer is accepted."""
    graph = desk(project.graph("triage"), checkpointer=InMemorySaver())
    before = interrupt(graph.invoke({"ticket": "refund"}, USER))
    for _ in range(2):
        again = interrupt(graph.invoke(Command(resume=answer), USER))
        assert problem in again["problem"]
        assert again["waiting"] == before["waiting"]
    assert graph.invoke(PAY, USER)["output"]["paid"] == {"ok": True}


def test_answers_may_come_one_by_one(tmp_path: Path) -> None:
    """Answered tasks are not asked again, even if a task waits more than once."""
    two = """\
id: two
tasks:
  - { id: both, type: parallel, branches: [
      { id: left, type: wait, prompt: L }, { id: right, type: wait, prompt: R }] }
  - { id: last, type: wait, prompt: "{{ .tasks.both.output.left }}" }
outputs: { both: "{{ .tasks.both.output }}", last: "{{ .tasks.last.output }}" }
"""
    write(tmp_path, FILES | {"workflows/two.yaml": two})
    with Project.load(tmp_path) as loaded:
        graph = loaded.graph("two", checkpointer=InMemorySaver())
        waiting = interrupt(graph.invoke({"input": {}}, USER))["waiting"]
        assert [question["task"] for question in waiting] == ["left", "right"]
        waiting = interrupt(graph.invoke(Command(resume={"right": "r"}), USER))["waiting"]
        assert [question["task"] for question in waiting] == ["left"]
        waiting = interrupt(graph.invoke(Command(resume={"left": "l"}), USER))["waiting"]
        assert [question["prompt"] for question in waiting] == ["l"]
        done = graph.invoke(Command(resume={"last": 3}), USER)
        assert done["output"] == {"both": {"left": "l", "right": "r"}, "last": 3}


def test_a_round_that_waits_again_is_not_answered_by_the_one_before(tmp_path: Path) -> None:
    """LangGraph repeats earlier answers; each belongs to the round in which it was given."""
    loop = """\
id: loop
tasks:
  - { id: approve, type: wait, prompt: "Good?", on_success: { next: check } }
  - { id: check, type: router, condition: tasks.approve.output,
      routes: { "true": done, "false": approve } }
  - { id: done, type: aggregate, outputs: { ok: "{{ .tasks.approve.output }}" }, final: true }
"""
    write(tmp_path, FILES | {"workflows/loop.yaml": loop})
    with Project.load(tmp_path) as loaded:
        graph = loaded.graph("loop", checkpointer=InMemorySaver())
        paths = [interrupt(graph.invoke({"input": {}}, USER))["waiting"][0]["path"]]
        for _ in range(2):
            again = interrupt(graph.invoke(Command(resume={"approve": False}), USER))
            paths.append(again["waiting"][0]["path"])
        assert paths == ["approve", "approve#2", "approve#3"]
        assert graph.invoke(Command(resume={"approve": True}), USER)["output"] == {"ok": True}


def test_without_a_checkpointer(project: Project) -> None:
    """A run that needs no answer completes; a waiting one is resumed by its own thread."""
    graph = desk(project.graph("triage"))
    assert graph.invoke({"ticket": "x"})["log"]
    waits = interrupt(graph.invoke({"ticket": "refund"}))
    done = project.resume("triage", waits["thread_id"], {"approve": {"ok": False}})
    assert done.output["paid"] == {"ok": False}
    alone = project.graph("triage").invoke({"input": {"ticket": "x"}})
    assert "output" in alone
    assert "lorebind" not in alone


def test_a_failure_is_resumed_where_it_failed(project: Project, tmp_path: Path) -> None:
    """LangGraph executes the node again; finished tasks of the workflow do not run again."""
    graph = desk(project.graph("strict"), checkpointer=InMemorySaver())
    with pytest.raises(TaskError, match="no ticket"):
        graph.invoke({"ticket": "boom"}, USER)
    (tmp_path / "mended").touch()
    assert graph.invoke(None, USER)["output"]["kind"] == "other"
    assert (tmp_path / "ran").read_text() == "first\n"
    assert len(project.threads("strict")) == 1


def test_a_run_that_was_not_noted_is_not_run_again(project: Project, tmp_path: Path) -> None:
    """A completed workflow does not run again if the process dies before the result is stored."""

    class Dies(InMemorySaver):
        dies = True

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            if self.dies and any(channel == "output" for channel, _ in writes):
                raise OSError("the process dies")
            super().put_writes(config, writes, task_id, task_path)

    saver = Dies()
    graph = desk(project.graph("strict"), checkpointer=saver)
    with pytest.raises(OSError, match="dies"):
        graph.invoke({"ticket": "x"}, USER)
    saver.dies = False
    assert graph.invoke(None, USER)["output"]["kind"] == "other"
    assert (tmp_path / "ran").read_text() == "first\n"


def test_many_at_once(project: Project) -> None:
    """Parallel branches of one node have their own threads."""

    class Fan(TypedDict, total=False):
        outputs: Annotated[list[Any], operator.add]

    node = project.graph("triage")

    def branch(state: Any) -> Fan:
        return {"outputs": [node.invoke({"input": state})["output"]]}

    graph = StateGraph(Fan)
    graph.add_node("one", branch)
    fan = [Send("one", {"ticket": f"refund {number}"}) for number in range(3)]
    graph.add_conditional_edges(START, lambda _: fan, ["one"])
    compiled = graph.compile(checkpointer=InMemorySaver())
    waiting = compiled.invoke({}, USER)["__interrupt__"]
    assert len({pause.value["thread_id"] for pause in waiting}) == 3
    answers = {pause.id: {"approve": {"ok": True}} for pause in waiting}
    done = compiled.invoke(Command(resume=answers), USER)
    assert done["outputs"] == [{"answers": None, "paid": {"ok": True}}] * 3


class Chat(TypedDict, total=False):
    """The state of a graph that converses."""

    input: dict[str, Any]
    output: Any
    messages: Annotated[list[AnyMessage], add_messages]


def test_messages_go_in_and_come_back(tmp_path: Path) -> None:
    """Tasks read the caller's messages as `state.messages`; messages they add go back."""
    talk = """\
id: talk
tasks:
  - { id: hear, type: python, call: "talk:hear",
      update: { messages: [{ role: assistant, content: "seen" }] } }
"""
    code = "def hear(context):\n    return list(context.state['messages'])\n"
    write(tmp_path, FILES | {"workflows/talk.yaml": talk, "talk.py": code})
    with Project.load(tmp_path) as loaded:
        graph = StateGraph(Chat)
        graph.add_node("talk", loaded.graph("talk"))
        graph.add_edge(START, "talk")
        chat = graph.compile(checkpointer=InMemorySaver())
        chat.invoke({"messages": [HumanMessage("hello")]}, USER)
        done = chat.invoke({"messages": [HumanMessage("more")]}, USER)
    messages = [(message.type, message.text) for message in done["messages"]]
    assert messages == [("human", "hello"), ("ai", "seen"), ("human", "more"), ("ai", "seen")]
    heard = [(message["role"], message["content"]) for message in done["output"]]
    assert heard == [("user", "hello"), ("assistant", "seen"), ("user", "more")]


def test_a_run_within_a_node_is_on_its_own(project: Project) -> None:
    """`project.run` in a user's node keeps its state in the workflow's checkpointer."""
    saver = InMemorySaver()

    def node(state: Desk) -> Desk:
        return {"output": project.run("triage", {"ticket": state["ticket"]}).status}

    done = desk(node, checkpointer=saver).invoke({"ticket": "refund"}, USER)
    assert done["output"] == "waiting"
    assert [thread.status for thread in project.threads("triage")] == ["waiting"]
    assert set(saver.storage) == {"user 1"}


def test_tenants_are_kept_apart(project: Project) -> None:
    """Threads belong to the tenant for which the graph runs."""
    graph = desk(project.graph("triage"))
    with tenant("ann"):
        graph.invoke({"ticket": "refund"})
        assert len(project.threads("triage")) == 1
    assert project.threads("triage") == []


def test_what_cannot_be(project: Project) -> None:
    """An unknown workflow, a missing input, and inputs that are not a mapping are refused."""
    with pytest.raises(NotFoundError, match="did you mean 'triage'"):
        project.graph("triag")
    graph = project.graph("triage")
    with pytest.raises(UsageError, match="needs the input 'ticket'"):
        graph.invoke({})
    with pytest.raises(UsageError, match="must map inputs to values, got a str"):
        graph.invoke({"input": "refund"})
