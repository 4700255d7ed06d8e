"""Agents with tools or with a schema for their answers, in every way to call them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from lorebind import (
    ConfigurationError,
    ModelError,
    NotFoundError,
    NotIngestedError,
    Project,
    UsageError,
)
from lorebind_bindings import Answer, BindingScope, agent_request, tool_bindings
from lorebind_prompts import parse
from tests.bindings.helpers import PARTS, Agentic, Scripted, calls, write

from .shop import FILES, KEYS, RULES, weather

PROJECT = f"""\
name: shop
{PARTS}
knowledge_bases:
  - id: guide
    description: How keys are handled.
    sources: [{{ type: markdown_glob, path: "guide/*.md" }}]
  - id: rules
    sources: [{{ type: markdown_glob, path: "rules/*.md" }}]
agents:
  - id: clerk
    instructions: Be short.
    tools: ["till:refund", "till:price", "till:stock", {{ knowledge: guide, top_k: 1 }}]
    max_iterations: 3
  - id: reader
    knowledge: [{{ id: guide, top_k: 2 }}]
    tools: [{{ knowledge: rules, top_k: 1, name: read_rules, description: Our rules. }}]
  - id: counter
    output_schema: &counted
      type: object
      required: [days, why]
      properties: {{ days: {{ type: integer }}, why: {{ type: string }} }}
  - id: both
    knowledge: [{{ id: guide, top_k: 1 }}]
    tools: ["till:price"]
    output_schema: *counted
  - {{ id: list, output_schema: {{ type: array, items: {{ type: integer }} }} }}
  - {{ id: wrong, tools: ["till:PRICES"] }}
  - {{ id: undocumented, tools: ["till:undocumented"] }}
  - {{ id: twice, tools: ["till:price", "till:again"] }}
  - {{ id: missing, tools: ["till:nothing"] }}
"""

TILL = '''\
import asyncio

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

PRICES = {"pen": 2}
refunded = []

def refund(order: int, reason: str = "") -> dict:
    """Pay an order back.

    Args:
        order: The number of the order.
        reason: Why.
    """
    if order < 0:
        raise LookupError(f"no order {order}")
    if order == 0:
        raise GeneratorExit
    refunded.append(order)
    return {"refunded": order}

@tool
async def price(name: str) -> str:
    """Tell what a thing costs."""
    await asyncio.sleep(0)
    return f"{PRICES[name]} coins"

async def stock(name: str) -> int:
    """Count what is left."""
    return len(name)

def undocumented(name: str) -> str:
    return name

@tool("price")
def again(name: str) -> str:
    """The same."""
    return name
'''


class Streaming(Agentic):
    """A model that answers in chunks."""

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        message = self._generate(messages, *args, **kwargs).generations[0].message
        assert isinstance(message, AIMessage)
        for word in str(message.content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(f"{word} "))
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_calls=message.tool_calls))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    files = FILES | {"lorebind.yaml": PROJECT, "till.py": TILL}
    with Project.load(write(tmp_path, files), environ={}) as project:
        project.ingest("guide")
        project.ingest("rules")
        yield project


FACES = ["generate", "agenerate", "stream", "astream"]


def ask(project: Project, face: str, model: Any, agent: str, **more: Any) -> Answer:
    """Return the answer by one of the ways to ask."""
    if face == "generate":
        return project.generate("How?", agent=agent, model=model, **more)
    if face == "agenerate":
        return asyncio.run(project.agenerate("How?", agent=agent, model=model, **more))
    stream = project.stream("How?", agent=agent, model=model, **more)

    async def read() -> list[str]:
        return [part async for part in stream]

    parts = list(stream) if face == "stream" else asyncio.run(read())
    assert "".join(parts).rstrip().endswith(stream.answer.text.rstrip())
    return stream.answer


def call(name: str, number: str = "1", /, **args: Any) -> Any:
    return {"name": name, "args": args, "id": f"{name}-{number}"}


def calling(*all_calls: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(all_calls))


def results(model: Agentic) -> list[ToolMessage]:
    """Return the tool results that the model got in its last call."""
    return [message for message in model.heard[-1] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("face", FACES)
def test_tools_are_called(project: Project, face: str) -> None:
    """LangChain functions and tools, sync and async, may be called together before the answer."""
    asking = calling(call("refund", order=7), call("price", name="pen"), call("stock", name="abc"))
    model = Streaming(says=[asking, AIMessage("Done.")])
    answer = ask(project, face, model, "clerk")
    assert [(result.text, result.status, result.tool_call_id) for result in results(model)] == [
        ('{"refunded": 7}', "success", "refund-1"),
        ("2 coins", "success", "price-1"),
        ("3", "success", "stock-1"),
    ]
    assert model.offered == [(["refund", "price", "stock", "search_guide"], None)] * 2
    assert model.heard[0][0].text == "Be short."
    assert (answer.text.strip(), answer.output, answer.verdict) == ("Done.", answer.text, "none")


def test_a_function_tells_its_arguments(project: Project) -> None:
    """The model gets the descriptions of arguments in the docstring."""
    scope = BindingScope(project.config, agent="clerk")
    request = agent_request(scope, project.knowledge, project._models.get()[1])
    refund = request["tools"][0]
    assert refund.description == "Pay an order back."
    assert refund.args["order"]["description"] == "The number of the order."
    assert request["max_iterations"] == 3


@pytest.mark.parametrize("face", FACES)
def test_what_a_tool_searches_can_be_cited(project: Project, face: str) -> None:
    """The numbers of its passages continue those before the question."""
    search = calls("who may rotate the keys", "access rules", tool="read_rules")
    model = Streaming(says=[search, AIMessage("So [1] and [3].")])
    answer = ask(project, face, model, "reader")
    assert model.offered[0][0] == ["read_rules"]
    assert [passage.marker for passage in parse(str(model.heard[0][-1].text))] == ["[1]", "[2]"]
    hits = [parse(str(result.text))[0] for result in results(model)]
    assert [(hit.marker, hit.content) for hit in hits] == [("[3]", RULES), ("[4]", RULES)]
    assert [citation.marker for citation in answer.citations] == ["[1]", "[3]"]
    assert [passage.marker for passage in answer.offered] == ["[1]", "[2]", "[3]", "[4]"]
    assert answer.citations[1].content == RULES
    assert [block.inject_as for block in answer.blocks] == [None]


def test_a_search_decides_the_verdict_where_nothing_is_bound(project: Project) -> None:
    """An agent without bindings gets its verdict from its own search."""
    model = Agentic(says=[calls("rotate the keys", tool="search_guide"), AIMessage("By [1].")])
    answer = project.generate("How?", agent="clerk", model=model)
    assert (answer.verdict, [citation.content for citation in answer.citations]) == ("hit", [KEYS])
    at = project.at(agent="clerk").generate(
        "How?", model=Agentic(says=[AIMessage("I do not know.")])
    )
    assert at.verdict == "none"


def test_a_tool_searches_as_bound(project: Project, tmp_path: Path) -> None:
    """Its own settings come first, then those of the surrounding bindings, including filters."""
    bound = "knowledge: [{ id: guide, filters: { uri: guide/old.md }, min_results: 2 }]\n"
    write(tmp_path, {"lorebind.yaml": PROJECT + bound})
    loaded = Project.load(tmp_path, environ={}).config
    (binding,) = tool_bindings(BindingScope(loaded, agent="clerk"))
    chosen = binding.settings
    assert (chosen.filters, chosen.top_k, chosen.min_results) == ({"uri": "guide/old.md"}, 1, 2)
    assert binding.provenance["top_k"].scope == "agent/clerk/tools"
    assert binding.provenance["min_results"].scope == "project"


def test_failures_are_told_to_the_model(project: Project) -> None:
    """Exceptions of tools, wrong arguments and unknown tools are reported to the model."""
    says = [
        calling(
            call("refund", order=-1),
            call("refund", "2", order="many"),
            call("refnd"),
            {**call("price", name="pen"), "id": None},
            call("refund", "4", order=0),
        ),
        AIMessage("Sorry."),
    ]
    model = Agentic(says=says)
    assert project.generate("How?", agent="clerk", model=model).text == "Sorry."
    failed, mistaken, unknown, right, odd = results(model)
    assert [result.status for result in results(model)] == [*["error"] * 3, "success", "error"]
    assert failed.text == "LookupError: no order -1"
    assert "valid integer" in mistaken.text
    assert "There is no tool 'refnd'; did you mean 'refund'" in unknown.text
    assert right.tool_call_id
    assert odd.text == "RuntimeError: it raised GeneratorExit"


def test_arguments_that_are_no_json(project: Project) -> None:
    """If a provider's client marks arguments as invalid, the model is notified."""
    broken: Any = {"name": "refund", "args": "{order", "id": "r", "error": "line 1"}
    model = Agentic(says=[AIMessage("", invalid_tool_calls=[broken]), AIMessage("Sorry.")])
    assert project.generate("How?", agent="clerk", model=model).text == "Sorry."
    (result,) = results(model)
    assert (result.status, result.text) == ("error", "The arguments are not JSON: line 1")


def test_an_outage_is_an_error(tmp_path: Path) -> None:
    """Lorebind's own errors end the call, because an outage is not an empty answer."""
    files = FILES | {"lorebind.yaml": PROJECT, "till.py": TILL}
    model = Agentic(says=[calls("keys", tool="search_guide")])
    with (
        Project.load(write(tmp_path, files), environ={}) as project,
        pytest.raises(NotIngestedError),
    ):
        project.generate("How?", agent="clerk", model=model)


@pytest.mark.parametrize("face", FACES)
def test_calls_without_end(project: Project, face: str) -> None:
    """After `max_iterations` rounds, another tool call raises an error that suggests a fix."""
    model = Streaming(says=[calling(call("price", name="pen"))] * 5)
    with pytest.raises(ModelError, match=r"called tools more than 3 times.*max_iterations"):
        ask(project, face, model, "clerk")
    assert len(model.heard) == 4


def test_a_model_without_tools(project: Project) -> None:
    """A model without tool support raises an error, instead of ignoring the tools."""
    with pytest.raises(ModelError, match="a Scripted, does not support tools; name another model"):
        project.generate("How?", agent="clerk", model=Scripted())


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("wrong", r"tool: till:PRICES is a dict; expected a LangChain tool, or a function"),
        ("undocumented", "tool: till:undocumented cannot be a tool: .*docstring"),
        ("twice", "agent 'twice' has two tools with the name 'price'"),
        ("missing", "module 'till' has no 'nothing'"),
    ],
)
def test_what_is_no_tool(project: Project, agent: str, reason: str) -> None:
    """The object that a path names is checked before the model is called, with its location."""
    with pytest.raises(UsageError, match=reason) as caught:
        project.generate("How?", agent=agent, model=Agentic(says=[]))
    assert agent == "twice" or "lorebind.yaml:" in str(caught.value)


def test_tools_that_are_objects(tmp_path: Path) -> None:
    """In Python, an agent may have LangChain tools as objects, and so may a single call."""
    declared = {"id": "a", "tools": [weather]}
    says = [calling(call("weather", place="Rome")), AIMessage("Rain.")]
    project = Project.build({"agents": [declared]}, root=tmp_path, environ={})
    for more in ({"agent": "a"}, {"retrieved_contexts": [], "tools": [weather]}):
        model = Agentic(says=says)
        assert project.generate("Rain?", model=model, **more).text == "Rain."  # type: ignore[arg-type]
        assert results(model)[0].text == "It rains in Rome."
    with pytest.raises(ConfigurationError, match=r"tools\[0\]: expected a mapping, got the number"):
        Project.build({"agents": [{"id": "a", "tools": [5]}]}, root=tmp_path)
    with pytest.raises(
        ConfigurationError, match="a tool needs the key 'call', 'knowledge' or 'mcp'; "
    ):
        Project.build({"agents": [{"id": "a", "tools": [{"name": "x"}]}]}, root=tmp_path)


RIGHT = {"days": 90, "why": "The rules [1] say so."}
WRONG = {"days": "ninety", "why": ""}


@pytest.mark.parametrize("face", FACES)
def test_an_answer_by_a_schema(project: Project, face: str) -> None:
    """A model with tool support is forced to return its answer as arguments of a tool."""
    model = Streaming(says=[calling(call("final_answer", **RIGHT))])
    answer = ask(project, face, model, "counter")
    assert (answer.output, json.loads(answer.text)) == (RIGHT, RIGHT)
    assert model.offered == [(["final_answer"], "any")]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("text", ["{}", "Here it is:\n```json\n{}\n```\nThat is all."])
def test_a_model_that_takes_no_tools_is_asked_for_json(
    project: Project, face: str, text: str
) -> None:
    """A model without tool support gets the schema; a stream yields only the parsed answer."""
    model = Scripted(says=[text.replace("{}", json.dumps(RIGHT))])
    stream = face.endswith("stream")
    answer = ask(project, face, model, "counter")
    assert answer.output == RIGHT
    assert '"required": ["days", "why"]' in model.heard[0][0].text
    if stream:
        again = project.stream("?", agent="counter", model=model)
        assert list(again) == [json.dumps(RIGHT)]


@pytest.mark.parametrize("face", FACES)
def test_a_wrong_answer_is_asked_again_once(project: Project, face: str) -> None:
    """The model gets the validation error once; a second invalid answer raises an error."""
    model = Streaming(says=[calling(call("final_answer", **args)) for args in (WRONG, RIGHT)])
    answer = ask(project, face, model, "counter")
    assert answer.output == RIGHT
    (result,) = results(model)
    assert result.status == "error"
    assert "'ninety' is not of type 'integer', at $.days. Answer again." in result.text

    stubborn = Streaming(says=[calling(call("final_answer", **WRONG))] * 3)
    with pytest.raises(ModelError, match="does not match output_schema: 'ninety' is not of type"):
        ask(project, face, stubborn, "counter")
    assert len(stubborn.heard) == 2


@pytest.mark.parametrize("text", ["Ninety days.", '{"days": NaN, "why": ""}', "[" * 100_000])
def test_text_that_is_no_json(project: Project, text: str) -> None:
    """The model gets an error that the text is not JSON."""
    for model in (Scripted(says=[text]), Agentic(says=[AIMessage(text)] * 2)):
        with pytest.raises(ModelError, match="does not match output_schema: it is not JSON"):
            project.generate("?", agent="counter", model=model)
        assert "it is not JSON" in str(model.heard[1][-1].text)  # type: ignore[attr-defined]


def test_a_value_that_is_no_object(project: Project) -> None:
    """Tool arguments are an object, so another type of value is requested as text."""
    model = Agentic(says=[AIMessage("[1, 2]")])
    answer = project.generate("?", agent="list", model=model)
    assert (answer.output, answer.citations, answer.unknown_markers) == ([1, 2], [], [])
    assert model.offered == [([], None)]


@pytest.mark.parametrize("face", FACES)
def test_tools_and_a_schema(project: Project, face: str) -> None:
    """With tools and a schema, the model calls tools, then returns its answer with citations."""
    says = [calling(call("price", name="pen")), calling(call("final_answer", **RIGHT))]
    model = Streaming(says=says)
    answer = ask(project, face, model, "both")
    assert model.offered == [(["price", "final_answer"], "any")] * 2
    assert [result.text for result in results(model)] == ["2 coins"]
    assert answer.output == RIGHT
    assert [citation.marker for citation in answer.citations] == ["[1]"]


def test_a_schema_for_one_call(project: Project) -> None:
    """A single call may have its own schema."""
    model = Scripted(says=["3"])
    answer = project.generate("How many?", "guide", model=model, output_schema={"type": "integer"})
    assert answer.output == 3


@tool
def approved(amount: int) -> str:
    """Ask a person."""
    return f"The answer is {interrupt({'amount': amount})}."


async def test_a_tool_may_wait_for_a_person(project: Project) -> None:
    """An interrupt of LangGraph is not a failure: it ends the node, and the run can be resumed."""
    model = Agentic(says=[calling(call("approved", amount=3))] * 2 + [AIMessage("Paid.")])

    async def node(state: MessagesState) -> dict[str, Any]:
        answer = await project.agenerate("Pay?", "guide", model=model, tools=[approved])
        return {"messages": [AIMessage(answer.text)]}

    graph = StateGraph(MessagesState).add_node("pay", node).add_edge(START, "pay")
    run: Any = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    waiting = await run.ainvoke({"messages": []}, thread)
    assert waiting["__interrupt__"][0].value == {"amount": 3}
    state = await run.ainvoke(Command(resume="yes"), thread)
    assert state["messages"][-1].text == "Paid."
    assert results(model)[0].text == "The answer is yes."


def test_an_agent_of_a_workflow(tmp_path: Path) -> None:
    """Its tools search the knowledge bases of the workflow, with the settings of the task."""
    workflow = """\
workflows:
  - id: w
    knowledge_bases:
      - { id: guide, sources: [{ type: markdown_glob, path: "rules/*.md" }] }
    agents: [{ id: local, tools: [{ knowledge: guide, top_k: 1 }] }]
    tasks: [{ id: t, agent: local, prompt: "?", knowledge: [{ id: guide, render: xml }] }]
"""
    files = FILES | {"lorebind.yaml": PROJECT + workflow, "till.py": TILL}
    with Project.load(write(tmp_path, files), environ={}) as project:
        project.ingest("guide", workflow="w")
        model = Agentic(says=[calls("rotate the keys", tool="search_guide"), AIMessage("[1]")])
        reply = project.generate("How?", workflow="w", task="t", model=model, retrieved_contexts=[])
        (binding,) = tool_bindings(BindingScope(project.config, workflow="w", task="t"))
    assert [citation.content for citation in reply.citations] == [RULES]
    assert (binding.workflow, binding.settings.top_k, binding.settings.render) == ("w", 1, "xml")


def test_an_unknown_agent_is_named(project: Project) -> None:
    """An unknown agent raises an error with the known names."""
    with pytest.raises(NotFoundError, match="no agent 'clrk'; did you mean 'clerk'"):
        project.generate("?", agent="clrk")
