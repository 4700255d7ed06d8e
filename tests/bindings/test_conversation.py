"""The text that is searched for when a question follows others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from lorebind import ModelError, UsageError
from lorebind_bindings import ResolvedBinding
from lorebind_bindings.conversation import condensed, texts_to_search, with_turns
from lorebind_bindings.resolver import bind
from lorebind_config.reading.loading import build_project
from tests.bindings.helpers import Agentic

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
        ("\u4f60" * 100, SAID, "\u4f60" * 100),
    ],
)
def test_with_turns(question: str, history: list[BaseMessage], searched: str) -> None:
    """A short question is searched with the user's previous message, a longer one alone."""
    assert with_turns(question, history) == searched


def bound(root: Path, condense: Any, model: Any = None, **more: Any) -> ResolvedBinding:
    kb = {"id": "docs", "retrieval": {"condense": condense, **more}}
    sources = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "b"}]}]}
    models = [{"id": "quick", "provider": "langchain", "model": Agentic(says=[])}]
    data = {"name": "shop", "models": models, "knowledge_bases": [kb | sources]}
    binding = bind(build_project(data, root=root), "docs")
    return binding if model is None else replace(binding, condenser=lambda: model)


async def test_a_model_is_given_the_conversation(tmp_path: Path) -> None:
    """The condensing model gets the last messages, cut in length, and its answer is searched."""
    model = Agentic(says=[AIMessage(" How fast is express delivery? ")])
    long = [HumanMessage(f"{number} {'x' * 5000}") for number in range(9)]
    called = [AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}])] * 9
    history = [*long, *SAID, *called, ToolMessage("secret rows", tool_call_id="1")]
    binding = bound(tmp_path, {"model": "quick"}, model)
    assert await condensed(binding, "And express?", history) == "How fast is express delivery?"
    ((system, prompt),) = model.heard
    assert system.type == "system"
    assert f"human: {FIRST}\nai: Three to five days [1].\n</conversation>" in prompt.text
    assert prompt.text.endswith("Last message: And express?")
    assert "secret rows" not in prompt.text
    assert "8 xxx" in prompt.text
    assert "2 xxx" not in prompt.text
    assert len(prompt.text) < 6000


async def test_a_model_that_says_nothing(tmp_path: Path) -> None:
    """An empty answer means the question itself; a failure raises an error that names it."""
    silent = bound(tmp_path, {"model": "quick"}, Agentic(says=[AIMessage(" ")]))
    assert await condensed(silent, "And express?", SAID) == "And express?"
    failing = bound(tmp_path, {"model": "quick"}, Agentic(says=[]))
    with pytest.raises(ModelError, match="the chat model failed"):
        await condensed(failing, "And express?", SAID)
    (failure,) = await texts_to_search([failing], "And express?", SAID)
    assert isinstance(failure, ModelError)
    with pytest.raises(UsageError, match="was made without it"):
        await condensed(bound(tmp_path, {"model": "quick"}), "And express?", SAID)


async def test_each_binding_says_what_becomes_of_the_conversation(tmp_path: Path) -> None:
    """A model that several bindings name is asked once, and not at all for a first question."""
    model = Agentic(says=[AIMessage("How fast is express?")])
    by_model = bound(tmp_path, {"model": "quick"}, model)
    bindings = [
        by_model,
        bound(tmp_path, "none"),
        bound(tmp_path, "turns"),
        bound(tmp_path, "turns", strategy="rerank"),
        by_model,
    ]
    assert await texts_to_search(bindings, "And express?", SAID) == [
        "How fast is express?",
        "And express?",
        f"{THRICE}\n{FIRST}",
        f"And express?\n{FIRST}",
        "How fast is express?",
    ]
    assert len(model.heard) == 1
    for first in ([], [SystemMessage("Be nice.")], [AIMessage("Hello!")]):
        assert await texts_to_search([by_model], "And express?", first) == ["And express?"]
    assert len(model.heard) == 1


async def test_what_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    """Cancelling the question cancels a condensing model that is still running."""
    begun, ended = asyncio.Event(), list[str]()

    class Slow(Agentic):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("cancelled")

    binding = bound(tmp_path, {"model": "quick"}, Slow(says=[]))
    before = asyncio.all_tasks()
    asking = asyncio.create_task(texts_to_search([binding], "And express?", SAID))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ended == ["cancelled"]
    assert asyncio.all_tasks() == before
