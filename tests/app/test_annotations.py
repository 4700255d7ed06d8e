"""Citations as LangChain's annotations, in the messages of answers and of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from lorebind import Project
from tests.bindings.helpers import Agentic, Scripted

from .shop import KEYS, QUESTION, shop

ASKED: Any = {"messages": [("user", QUESTION)]}
TEXT = "By command [1], says [1, 2]. Not [9], `[1]`."


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with shop(tmp_path) as project:
        yield project


def places(message: Any) -> list[tuple[str, str]]:
    """Return the cited place and the marker of each annotation."""
    return [
        (block["text"][note["start_index"] : note["end_index"]], note["extras"]["marker"])
        for block in message.content_blocks
        if block["type"] == "text"
        for note in block.get("annotations", ())
    ]


EXPECTED = [("[1]", "[1]"), ("[1, 2]", "[1]"), ("[1, 2]", "[2]")]


def test_every_place_is_annotated(project: Project) -> None:
    answer = project.generate(QUESTION, model=Scripted(says=[TEXT]))
    assert places(answer.message) == EXPECTED
    first = answer.message.content_blocks[0]["annotations"][0]  # type: ignore[union-attr]
    assert first["cited_text"] == KEYS
    assert first["url"] == "lorebind://guide/guide%2Fkeys.md"
    assert [text for text, _ in EXPECTED] == [TEXT[a:b] for a, b, _ in answer.mentions]


def test_parts_of_a_message_have_their_own_positions(project: Project) -> None:
    """A marker in the second part counts from the start of that part; other parts stay."""
    parts: list[Any] = [
        {"type": "text", "text": "A [1]. "},
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "B [2]."},
    ]
    model = Agentic(says=[AIMessage(parts, response_metadata={"output_version": "v1"})])
    answer = project.generate(QUESTION, model=model)
    assert places(answer.message) == [("[1]", "[1]"), ("[2]", "[2]")]
    assert answer.message is not None
    kinds = [block["type"] for block in answer.message.content_blocks]
    assert kinds == ["text", "reasoning", "text"]


def test_the_message_of_an_agent(project: Project) -> None:
    """Two middlewares annotate once; the messages, which are stored, hold no passage."""
    layers: Any = [project.middleware(), project.at("rules").middleware()]
    agent: Any = create_agent(Agentic(says=[AIMessage(TEXT)]), [], middleware=layers)
    message = agent.invoke(ASKED)["messages"][-1]
    assert places(message) == EXPECTED
    assert "cited_text" not in str(message.content)
    answer = project.citations().invoke({"messages": [HumanMessage(QUESTION), message]})
    assert places(answer.message) == EXPECTED


def test_an_answer_without_citations_is_left_alone(project: Project) -> None:
    answer = project.generate(QUESTION, model=Scripted(says=["I do not know."]))
    assert answer.message is not None
    assert answer.message.content == "I do not know."
    assert answer.message.response_metadata["lorebind"]["citations"] == []


def test_a_model_is_sent_only_the_text(project: Project) -> None:
    """In a conversation that goes on, no provider receives the annotations."""
    answer = project.generate(QUESTION, model=Scripted(says=[TEXT]))
    model = ChatOpenAI(model="m", api_key=SecretStr("k"))
    payload = model._get_request_payload([HumanMessage("a"), answer.message, HumanMessage("b")])
    assert payload["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": TEXT}],
    }
