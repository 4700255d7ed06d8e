"""Agents built by users: their streams and states, and their combination with other parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from lorebind import Event, Extension, Project
from lorebind_prompts import parse
from tests.bindings.helpers import Agentic, Scripted, calls

from .shop import KEYS, OLD, QUESTION, RULES, shop, weather

THREAD: Any = {"configurable": {"thread_id": "1"}}
ASKED: Any = {"messages": [("user", QUESTION)]}
APPROVED: Any = Command(resume={"decisions": [{"type": "approve"}]})


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with shop(tmp_path) as project:
        yield project


@pytest.fixture
def searched(project: Project) -> list[str]:
    """Return the searched knowledge bases in the order of the searches."""
    seen: list[str] = []

    class Searches(Extension):
        def retrieval_started(self, event: Event) -> None:
            seen.append(event.kb_id)

    project.knowledge.events.subscribe(Searches())
    return seen


def asks_for_weather() -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "weather", "args": {"place": "Rome"}, "id": "w"}])


def markers(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the numbers of all passages in messages for a model."""
    return [passage.marker for message in messages for passage in parse(str(message.text))]


def metadata(state: Any) -> dict[str, Any]:
    """Return the citations of the last message by uri."""
    (data,) = [
        message.response_metadata["lorebind"]
        for message in state["messages"][-2:]
        if "lorebind" in message.response_metadata
    ]
    return {**data, "citations": [citation["uri"] for citation in data["citations"]]}


MODES = ["values", "updates", "messages", "debug", "custom", "tasks", "checkpoints"]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_no_stream_shows_a_passage(project: Project, way: str) -> None:
    """No stream of an agent, and none of its states, contains the text of a passage."""
    model = Agentic(says=[asks_for_weather(), AIMessage("With the command [1].")])
    agent: Any = create_agent(
        model, [weather], middleware=[project.middleware()], checkpointer=InMemorySaver()
    )

    async def streamed() -> list[Any]:
        return [part async for part in agent.astream(ASKED, THREAD, stream_mode=MODES)]

    if way == "stream":
        parts: Any = list(agent.stream(ASKED, THREAD, stream_mode=MODES))
    else:
        parts = asyncio.run(streamed())
    assert {mode for mode, _ in parts} == set(MODES) - {"custom"}
    parts += [agent.get_state(THREAD), *agent.get_state_history(THREAD)]
    assert QUESTION in str(parts)
    assert "ninety days" not in str(parts)
    assert "ninety days" in str(model.heard)


async def test_only_search_and_model_are_traced_with_passages(project: Project) -> None:
    """Callbacks see passages in the search and in the model call, but in no step between them."""
    agent: Any = create_agent(
        Agentic(says=[AIMessage("ok [1]")]), [], middleware=[project.middleware()]
    )
    events = [event async for event in agent.astream_events(ASKED, version="v2")]
    holding = {event["event"] for event in events if "ninety days" in str(event["data"])}
    assert holding == {"on_retriever_end", "on_chat_model_start", "on_chat_model_end"}


@pytest.mark.parametrize("again", ["the same process", "another process"])
def test_numbers_outlast_an_interrupt(tmp_path: Path, again: str) -> None:
    """After a human approval, tools never reuse the number of an earlier passage."""
    saver = InMemorySaver()
    asking = HumanInTheLoopMiddleware(interrupt_on={"search_rules": True})
    model = Agentic(says=[calls("who may", tool="search_rules"), AIMessage("See [1] and [3].")])

    def build(project: Project) -> Any:
        parts: Any = [project.middleware("guide"), asking]
        return create_agent(model, [project.tool("rules")], middleware=parts, checkpointer=saver)

    with shop(tmp_path) as project:
        agent = build(project)
        assert "__interrupt__" in agent.invoke(ASKED, THREAD)
        if again == "the same process":
            state = agent.invoke(APPROVED, THREAD)
    if again == "another process":
        with Project.load(tmp_path, environ={}) as project:
            state = build(project).invoke(APPROVED, THREAD)
    assert markers(model.heard[1]) == ["[1]", "[2]", "[3]", "[4]"]
    assert metadata(state)["citations"] == ["guide/keys.md", "rules/keys.md"]


def test_knowledge_may_join_a_conversation(project: Project) -> None:
    """A run that was interrupted without the middleware can be resumed with it."""
    saver = InMemorySaver()
    asking: Any = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
    model = Agentic(says=[asks_for_weather(), AIMessage("See [1].")])
    create_agent(model, [weather], middleware=[asking], checkpointer=saver).invoke(ASKED, THREAD)
    parts = [asking, project.middleware()]
    agent: Any = create_agent(model, [weather], middleware=parts, checkpointer=saver)
    assert metadata(agent.invoke(APPROVED, THREAD))["citations"] == ["guide/keys.md"]


def test_two_middlewares_of_one_agent(project: Project, searched: list[str]) -> None:
    """Each adds its own passages once with its own numbers; the answer cites both."""
    model = Agentic(says=[asks_for_weather(), AIMessage("See [1], [3] and [9].")])
    parts = [project.middleware("guide"), project.middleware("rules")]
    state = create_agent(model, [weather], middleware=parts).invoke(ASKED)
    for messages in model.heard:
        texts = {passage.marker: passage.content for passage in parse(str(messages[0].text))}
        assert (len(texts), texts["[1]"], texts["[2]"], texts["[3]"]) == (4, KEYS, OLD, RULES)
    assert metadata(state)["citations"] == ["guide/keys.md", "rules/keys.md"]
    assert metadata(state)["unknown_markers"] == ["[9]"]
    assert searched == ["guide", "rules"]


def test_one_of_two_that_finds_nothing(project: Project, tmp_path: Path) -> None:
    """The verdict of an answer is the best one of all middlewares."""
    with shop(tmp_path / "other", guide=", min_score: 1, fallback: Nothing.") as other:
        parts = [other.middleware(), project.middleware("rules")]
        for order in (parts, parts[::-1]):
            agent: Any = create_agent(Agentic(says=[AIMessage("See [1].")]), [], middleware=order)
            assert metadata(agent.invoke(ASKED))["verdict"] == "hit"


def test_an_earlier_answers_numbers_keep_their_meaning(project: Project) -> None:
    """A later answer may cite a passage that only an earlier answer was given."""
    model = Agentic(says=[AIMessage("By command [1]."), AIMessage("As I said [1]; and [3].")])
    middleware = project.middleware("rules", condense="none")
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(ASKED, THREAD)
    state = agent.invoke({"messages": [("user", "What covers alpine chalets?")]}, THREAD)
    assert markers(model.heard[1]) == ["[3]", "[4]"]
    assert metadata(state)["citations"] == ["rules/keys.md", "rules/snow.md"]


def test_a_tool_of_the_same_name_stays(tmp_path: Path) -> None:
    """On a hit, `tool_fallback` hides only its own tool, not a tool of the agent."""
    with shop(tmp_path, guide=", tool_fallback: auto") as project:
        model = Agentic(says=[AIMessage("ok [1]")])
        tools = [project.tool("guide")]
        create_agent(model, tools, middleware=[project.middleware()]).invoke(ASKED)
    assert model.offered == [(["search_guide"], None)]


class Reply(BaseModel):
    """An answer with several fields."""

    text: str
    amounts: list[int]


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_a_structured_answer_cites_in_its_texts(project: Project, strategy: Any) -> None:
    """Markers in the text fields of an answer are citations; a list of numbers is not."""
    fields = {"text": "By command [1], not [8].", "amounts": [2, 7]}
    if strategy is ToolStrategy:
        answer = AIMessage("", tool_calls=[{"name": "Reply", "args": fields, "id": "1"}])
    else:
        answer = AIMessage(json.dumps(fields))
    agent: Any = create_agent(
        Agentic(says=[answer]),
        [],
        middleware=[project.middleware()],
        response_format=strategy(Reply),
    )
    state = agent.invoke(ASKED)
    assert state["structured_response"] == Reply(**fields)
    assert metadata(state)["citations"] == ["guide/keys.md"]
    assert metadata(state)["unknown_markers"] == ["[8]"]


def others() -> list[Any]:
    keeping: Any = {"trigger": ("messages", 3), "keep": ("messages", 1)}
    return [
        SummarizationMiddleware(Scripted(says=["A summary."]), **keeping),
        ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)]),
        ModelRetryMiddleware(max_retries=1, initial_delay=0.0),
        ModelFallbackMiddleware(Agentic(says=[AIMessage("not called")])),
    ]


@pytest.mark.parametrize("other", others(), ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_beside_other_middleware(
    project: Project, searched: list[str], other: Any, first: str
) -> None:
    """In either order, there is one search, the passages precede each call, and citations fit."""
    model = Agentic(says=[calls("who may", tool="search_rules"), AIMessage("See [1] and [4].")])
    parts: Any = [project.middleware("guide"), other]
    agent: Any = create_agent(
        model, [project.tool("rules")], middleware=parts if first == "ours" else parts[::-1]
    )
    state = agent.invoke(ASKED)
    assert [markers(messages)[:2] for messages in model.heard] == [["[1]", "[2]"]] * 2
    assert "guide/keys.md" in metadata(state)["citations"]
    assert searched == ["guide", "rules"]


def test_a_summary_is_no_question(project: Project, searched: list[str]) -> None:
    """If the user's messages are summarized, the passages precede the summary."""
    model = Agentic(says=[asks_for_weather(), AIMessage("See [1].")])
    keeping: Any = {"trigger": ("messages", 3), "keep": ("messages", 1)}
    summing = SummarizationMiddleware(Scripted(says=["Snow on chalets."]), **keeping)
    parts: Any = [project.middleware("guide"), summing]
    create_agent(model, [weather], middleware=parts).invoke(ASKED)
    assert str(model.heard[1][0].text).endswith("Snow on chalets.")
    assert markers(model.heard[1]) == ["[1]", "[2]"]
    assert searched == ["guide"]


def test_the_fallback_model_sees_the_passages(project: Project) -> None:
    """A fallback model gets the same passages."""
    second = Agentic(says=[AIMessage("See [1].")])
    failing = Scripted(error=ConnectionError("down"))
    parts: Any = [ModelFallbackMiddleware(second), project.middleware()]
    state = create_agent(failing, [], middleware=parts).invoke(ASKED)
    assert markers(second.heard[0]) == ["[1]", "[2]"]
    assert metadata(state)["citations"] == ["guide/keys.md"]


def test_a_failed_call_is_taken_up_again(project: Project, searched: list[str]) -> None:
    """Resuming after a failed model call does not search again."""
    model = Scripted(error=ConnectionError("down"), says=["See [1]."])
    agent: Any = create_agent(
        model, [], middleware=[project.middleware()], checkpointer=InMemorySaver()
    )
    with pytest.raises(ConnectionError):
        agent.invoke(ASKED, THREAD)
    model.error = None
    assert metadata(agent.invoke(None, THREAD))["citations"] == ["guide/keys.md"]
    assert searched == ["guide"]


def test_a_picture_behind_its_question(project: Project) -> None:
    """Of consecutive messages, the last one with text is the question."""
    picture = HumanMessage([{"type": "image", "url": "https://example.com/key.png"}])
    model = Agentic(says=[AIMessage("ok")])
    agent: Any = create_agent(model, [], middleware=[project.middleware()])
    agent.invoke({"messages": [("user", QUESTION), picture]})
    question, last = model.heard[0]
    assert [passage.content for passage in parse(str(question.text))] == [KEYS, OLD]
    assert last.content == picture.content


def test_a_picture_alone_asks_nothing(project: Project, searched: list[str]) -> None:
    """A turn without text has no passages, not even those of the previous turn."""
    model = Agentic(says=[AIMessage("ok [1]"), AIMessage("A key.")])
    agent: Any = create_agent(
        model, [], middleware=[project.middleware()], checkpointer=InMemorySaver()
    )
    agent.invoke(ASKED, THREAD)
    picture = HumanMessage([{"type": "image", "url": "https://example.com/key.png"}])
    state = agent.invoke({"messages": [picture]}, THREAD)
    assert markers(model.heard[1]) == []
    assert state["messages"][-1].response_metadata["lorebind"]["verdict"] == "none"
    assert searched == ["guide"]


def test_agents_in_one_graph(project: Project) -> None:
    """Each agent sees its own passages, and the numbers that the other cited are not reused."""
    first = Agentic(says=[AIMessage("By command [1].")])
    second = Agentic(says=[AIMessage("The rules [2] say so too; see [1].")])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("one", create_agent(first, [], middleware=[project.middleware("guide")]))
    graph.add_node("two", create_agent(second, [], middleware=[project.middleware("rules")]))
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    graph.add_edge("two", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    parts = list(compiled.stream(ASKED, THREAD, stream_mode=MODES, subgraphs=True))
    assert "ninety days" not in str(parts)
    assert (markers(first.heard[0]), markers(second.heard[0])) == (["[1]", "[2]"], ["[2]", "[3]"])
    state = compiled.get_state(THREAD).values
    assert metadata({"messages": state["messages"][-1:]})["citations"] == [
        "rules/keys.md",
        "guide/keys.md",
    ]


@pytest.mark.parametrize("query", ["", "  ", "\n"])
def test_a_blank_query_is_answered_with_words(project: Project, query: str) -> None:
    """A model that searches for nothing gets an error message, and the agent continues."""
    model = Agentic(says=[calls(query, tool="search_guide"), AIMessage("Sorry.")])
    *_, result, answer = create_agent(model, [project.tool("guide")]).invoke(ASKED)["messages"]
    assert (str(result.text), answer.text) == (
        "Nothing was searched: the query is empty. Say what to look for.",
        "Sorry.",
    )


@pytest.mark.parametrize("wrong", [{}, {"q": "keys"}, {"query": 3}, {"query": None}], ids=str)
def test_wrong_arguments_are_for_the_model_to_mend(project: Project, wrong: Any) -> None:
    """A tool call without a text to search for returns an error, and the agent continues."""
    called = AIMessage("", tool_calls=[{"name": "search_guide", "args": wrong, "id": "1"}])
    model = Agentic(says=[called, AIMessage("Sorry.")])
    *_, result, _ = create_agent(model, [project.tool("guide")]).invoke(ASKED)["messages"]
    assert result.status == "error"
    assert "query: " in str(result.text)


def test_tools_at_once_leave_room_for_each_other(project: Project) -> None:
    """Two different tools that are called together never use the same numbers."""
    both = calls("keys", tool="search_guide_rules").tool_calls
    both += calls("keys and rules", tool="search_rules").tool_calls
    model = Agentic(says=[AIMessage("", tool_calls=both), AIMessage("ok")])
    create_agent(model, [project.tool("guide", "rules"), project.tool("rules")]).invoke(ASKED)
    numbers = markers(model.heard[1])
    assert len(numbers) == len(set(numbers)) > 4


@tool(response_format="content_and_artifact")
def foreign(query: str) -> tuple[str, Any]:
    """Search elsewhere."""
    return query, {"citations": ["a", {"marker": "[x]"}, {"marker": "[7]", "also": 3}]}


def test_citations_of_other_tools_are_left_alone(project: Project) -> None:
    """An artifact with another kind of `citations` is ignored."""
    model = Agentic(says=[calls("keys", tool="foreign"), AIMessage("See [1] and [7].")])
    agent: Any = create_agent(model, [foreign], middleware=[project.middleware()])
    assert metadata(agent.invoke(ASKED))["unknown_markers"] == ["[7]"]
