"""What is searched for when a question follows others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from lorebind import ModelError
from lorebind_bindings.conversation import FollowUp, condensed, with_turns
from lorebind_bindings.resolver import bind
from lorebind_knowledge import build_project
from tests.bindings.helpers import Agentic

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from lorebind_bindings import ResolvedBinding

FIRST = "How long does delivery take?"
SAID = [HumanMessage(FIRST), AIMessage("Three to five days [1].")]
SUMMARY = HumanMessage("They spoke of shoes.", additional_kwargs={"lc_source": "summarization"})
SHORT = "And express?"
THRICE = "And express?\nAnd express?\nAnd express?"
LONG = "Which of the two offices is open on the last Sunday before Christmas this year?"


@pytest.mark.parametrize(
    ("question", "history", "searched"),
    [
        (SHORT, SAID, f"{THRICE}\n{FIRST}"),
        (SHORT, [*SAID, HumanMessage("And to Wales?")], f"{THRICE}\nAnd to Wales?"),
        (SHORT, [*SAID, ToolMessage("x", tool_call_id="1")], f"{THRICE}\n{FIRST}"),
        (SHORT, [*SAID, HumanMessage("  "), SUMMARY], f"{THRICE}\n{FIRST}"),
        (SHORT, [HumanMessage("x" * 5000)], f"{THRICE}\n{'x' * 1000}"),
        (SHORT, [SUMMARY, AIMessage("Yes.")], SHORT),
        (SHORT, [], SHORT),
        (LONG, SAID, LONG),
    ],
)
def test_with_turns(question: str, history: list[BaseMessage], searched: str) -> None:
    """A short question goes with what the user said last; a longer one speaks for itself."""
    assert with_turns(question, history) == searched


async def test_a_model_is_given_the_conversation() -> None:
    """The last messages, cut to a bearable length, and the question; its answer is searched for."""
    model = Agentic(says=[AIMessage(" How fast is express delivery? ")])
    long = [HumanMessage(f"{number} {'x' * 5000}") for number in range(9)]
    called = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}])
    history = [*long, called, ToolMessage("secret rows", tool_call_id="1"), *SAID]
    assert await condensed(model, "And express?", history) == "How fast is express delivery?"
    ((system, given),) = model.heard
    assert system.type == "system"
    assert f"human: {FIRST}\nai: Three to five days [1].\n" in given.text
    assert given.text.endswith("Last message: And express?")
    assert "secret rows" not in given.text
    assert "8 xxx" in given.text
    assert "2 xxx" not in given.text
    assert len(given.text) < 6000


async def test_a_model_that_says_nothing() -> None:
    """Then the question itself is searched for; a failure is one that names the model's."""
    assert await condensed(Agentic(says=[AIMessage(" ")]), "And express?", SAID) == "And express?"
    with pytest.raises(ModelError, match="the chat model failed"):
        await condensed(Agentic(says=[]), "And express?", SAID)


def bound(root: Path, condense: Any, model: Any = None) -> ResolvedBinding:
    kb = {"id": "docs", "retrieval": {"condense": condense}}
    sources = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "b"}]}]}
    models = [{"id": "quick", "provider": "langchain", "model": Agentic(says=[])}]
    data = {"name": "shop", "models": models, "knowledge_bases": [kb | sources]}
    return replace(bind(build_project(data, root=root), "docs"), condenser=model)


async def test_each_binding_says_what_becomes_of_the_conversation(tmp_path: Path) -> None:
    """A model that several of them name is asked once."""
    model = Agentic(says=[AIMessage("How fast is express?")])
    asked = FollowUp("And express?", SAID)
    by_model = bound(tmp_path, {"model": "quick"}, model)
    bindings = [by_model, bound(tmp_path, "none"), bound(tmp_path, "turns"), by_model]
    assert await asyncio.gather(*map(asked.text, bindings)) == [
        "How fast is express?",
        "And express?",
        f"{THRICE}\n{FIRST}",
        "How fast is express?",
    ]
    assert len(model.heard) == 1
    assert await FollowUp("And express?").text(by_model) == "And express?"
