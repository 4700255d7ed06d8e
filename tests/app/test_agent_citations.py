"""The citations of an agent: of tools alone, of a whole state, and at the end of a stream."""

from __future__ import annotations

import asyncio
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from lorebind import NotFoundError, UsageError
from lorebind_prompts import ExtractiveChatModel
from tests.bindings.helpers import Agentic, calls

from .shop import KEYS, PROJECT, QUESTION, RULES, shop

SAID = "By command [1], as is known [9]."
ASKED: Any = {"messages": [("user", QUESTION)]}


def parts(agent: Any, config: Any = None, **keys: Any) -> list[BaseMessage]:
    """Return the messages and chunks that an agent streams."""
    return [part for part, _ in agent.stream(ASKED, config, stream_mode="messages", **keys)]


def aparts(agent: Any, config: Any = None, **keys: Any) -> list[BaseMessage]:
    async def read() -> list[BaseMessage]:
        streamed = agent.astream(ASKED, config, stream_mode="messages", **keys)
        return [part async for part, _ in streamed]

    return asyncio.run(read())


def cited(message: BaseMessage) -> list[str]:
    metadata = message.response_metadata["lorebind"]
    return [citation["uri"] for citation in metadata["citations"]]


def test_a_declared_model(tmp_path: Path) -> None:
    """`project.model` returns the declared chat model, by default the project's default."""
    models = "models: [{ id: quick, provider: extractive }]\n"
    with shop(tmp_path, files={"lorebind.yaml": PROJECT + models}) as project:
        model = project.model("quick")
        assert isinstance(model, ExtractiveChatModel)
        assert project.model() is model
        agent: Any = create_agent(model, [], middleware=[project.middleware()])
        assert KEYS.removesuffix(".") in agent.invoke(ASKED)["messages"][-1].text
        with pytest.raises(NotFoundError, match="no model 'quik'; did you mean 'quick'"):
            project.model("quik")


def test_an_agent_with_tools_alone(tmp_path: Path) -> None:
    """The state of an agent, its messages, and a chain give the same answer with its citations."""
    says = [calls("keys", tool="search_guide"), AIMessage(SAID)]
    with shop(tmp_path) as project:
        tools = [project.tool("guide")]
        agent: Any = create_agent(Agentic(says=says), tools)
        state = agent.invoke(ASKED)
        citations = project.citations()
        chained = (create_agent(Agentic(says=says), tools) | citations).invoke(ASKED)
    for answer in (citations.invoke(state), citations.invoke(state["messages"]), chained):
        assert (answer.text, answer.output, answer.verdict) == (SAID, SAID, "hit")
        assert [(citation.marker, citation.content) for citation in answer.citations] == [
            ("[1]", KEYS)
        ]
        assert answer.unknown_markers == ["[9]"]
        assert [passage.marker for passage in answer.offered] == ["[1]", "[2]"]


def test_tools_and_middleware(tmp_path: Path) -> None:
    """Passages of the middleware and of tools are cited, in each turn of a conversation."""
    with shop(tmp_path) as project:
        says = [
            calls("keys", tool="search_rules"),
            AIMessage("By [1]; see [3]."),
            AIMessage("As said: [3]."),
        ]
        agent: Any = create_agent(
            Agentic(says=says),
            [project.tool("rules", top_k=1)],
            middleware=[project.middleware("guide")],
            checkpointer=InMemorySaver(),
        )
        thread: Any = {"configurable": {"thread_id": "1"}}
        first = project.citations().invoke(agent.invoke(ASKED, thread))
        second = project.citations().invoke(agent.invoke(ASKED, thread))
    assert [citation.uri for citation in first.citations] == ["guide/keys.md", "rules/keys.md"]
    assert first.citations[1].content == RULES
    assert [citation.uri for citation in second.citations] == ["rules/keys.md"]
    assert (first.verdict, second.verdict) == ("hit", "hit")
    assert not first.unknown_markers
    assert not second.unknown_markers


def test_a_structured_answer(tmp_path: Path) -> None:
    """If the answer is not text, the markers of its strings are checked."""
    answered = {"rule": "Rotate them [1]."}
    with shop(tmp_path) as project:
        result = project.tool("guide").invoke(calls("keys", tool="search_guide").tool_calls[0])
        state = {"messages": [("user", QUESTION), result, AIMessage("")]}
        answer = project.citations().invoke({**state, "structured_response": answered})
    assert [citation.uri for citation in answer.citations] == ["guide/keys.md"]
    assert answer.output == answered


def test_without_searches_nothing_is_cited(tmp_path: Path) -> None:
    """An answer without any search has the verdict `none`, and all its markers are unknown."""
    with shop(tmp_path) as project:
        answer = project.citations().invoke([("user", QUESTION), ("ai", "By [1].")])
        assert (answer.verdict, answer.citations, answer.unknown_markers) == ("none", [], ["[1]"])
        with pytest.raises(UsageError, match="no answer of a model"):
            project.citations().invoke([("ai", "By [1]."), ("user", QUESTION)])


def test_an_unfinished_run_has_no_answer(tmp_path: Path) -> None:
    """A message that calls tools is no answer, also if the tools have returned passages."""
    with shop(tmp_path) as project:
        call = calls("keys", tool="search_guide")
        result = project.tool("guide").invoke(call.tool_calls[0])
        for messages in ([("user", QUESTION), call], [("user", QUESTION), call, result]):
            with pytest.raises(UsageError, match="no answer of a model"):
                project.citations().invoke(messages)


@pytest.mark.parametrize("read", [parts, aparts])
@pytest.mark.parametrize("streams", [True, False])
def test_the_last_chunk_has_the_citations(tmp_path: Path, read: Any, streams: bool) -> None:
    """A stream of messages ends with a chunk of the answer's id that only has its citations."""
    with shop(tmp_path) as project:
        model: Any = (
            GenericFakeChatModel(messages=iter([AIMessage(SAID)]))
            if streams
            else Agentic(says=[AIMessage(SAID)])
        )
        agent = create_agent(model, [], middleware=[project.middleware()])
        streamed = read(agent)
    *text, last = streamed
    assert "".join(str(part.text) for part in text) == SAID
    assert len(text) > 1 or not streams
    assert {part.id for part in streamed} == {last.id}
    assert isinstance(last, AIMessageChunk)
    assert (last.text, cited(last)) == ("", ["guide/keys.md"])
    whole = reduce(add, streamed) if streams else last
    with shop(tmp_path) as project:
        for part in (last, whole):
            answer = project.citations().invoke(part)
            assert (answer.text, answer.verdict) == (part.text, "hit")
            assert [citation.uri for citation in answer.citations] == ["guide/keys.md"]
            assert answer.unknown_markers == ["[9]"]


def test_several_middlewares_send_one_chunk(tmp_path: Path) -> None:
    """The last chunk has the citations of all middlewares, and comes once."""
    with shop(tmp_path) as project:
        model = GenericFakeChatModel(messages=iter([AIMessage("By [1] and [3].")]))
        middleware = [project.middleware("guide"), project.middleware("rules", top_k=1)]
        streamed = parts(create_agent(model, [], middleware=middleware))
    assert [cited(part) for part in streamed if part.response_metadata.get("lorebind")] == [
        ["guide/keys.md", "rules/keys.md"]
    ]


@pytest.mark.parametrize("read", [parts, aparts])
def test_an_agent_within_a_graph(tmp_path: Path, read: Any) -> None:
    """The chunk belongs to the agent's node, if the messages of subgraphs are streamed."""
    with shop(tmp_path) as project:
        model = GenericFakeChatModel(messages=iter([AIMessage(SAID)] * 2))
        graph: Any = StateGraph(MessagesState)
        graph.add_node("agent", create_agent(model, [], middleware=[project.middleware()]))
        graph.add_edge(START, "agent")
        graph.add_edge("agent", END)
        agent = graph.compile()
        whole = read(agent)[-1]
        namespaces, metadata, chunks = set(), [], []
        for namespace, (part, about) in agent.stream(ASKED, stream_mode="messages", subgraphs=True):
            namespaces.add(namespace)
            metadata.append(about)
            chunks.append(part)
    assert cited(whole) == ["guide/keys.md"]
    assert cited(chunks[-1]) == ["guide/keys.md"]
    assert "".join(str(part.text) for part in chunks) == SAID
    assert len(namespaces) == 1
    assert {about["langgraph_node"] for about in metadata} == {"model"}


def test_a_hidden_model_is_not_streamed(tmp_path: Path) -> None:
    """The message of a model with the tag `nostream` comes whole, with its citations, and once."""
    with shop(tmp_path) as project:
        model: Any = GenericFakeChatModel(messages=iter([AIMessage(SAID)]), tags=["nostream"])
        (message,) = parts(create_agent(model, [], middleware=[project.middleware()]))
    assert (message.text, cited(message)) == (SAID, ["guide/keys.md"])


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_projection_of_the_event_stream(tmp_path: Path) -> None:
    """Version 3 of LangGraph's event streaming has each citation once, in every turn."""
    says = [AIMessage(SAID), AIMessage("See [1] and [1].")]
    with shop(tmp_path) as project:
        agent: Any = create_agent(
            Agentic(says=says),
            [],
            middleware=[project.middleware("guide")],
            checkpointer=InMemorySaver(),
        )
        config: Any = {"configurable": {"thread_id": "1"}}
        turns = []
        for _ in says:
            run = agent.stream_events(ASKED, config, version="v3")
            citations = list(run.citations)
            last = run.output["messages"][-1]
            assert citations == last.response_metadata["lorebind"]["citations"]
            turns.append([(citation["marker"], citation["uri"]) for citation in citations])

        async def read() -> list[Any]:
            run = await agent.astream_events(ASKED, version="v3")
            return [citation async for citation in run.citations]

        agent = create_agent(Agentic(says=says[:1]), [], middleware=[project.middleware("guide")])
        assert asyncio.run(read())[0]["uri"] == "guide/keys.md"
    assert turns[0] == [("[1]", "guide/keys.md")]
    assert len(turns[1]) == 1
