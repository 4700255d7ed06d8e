"""A model with too few passages searches by itself before it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk

from lorebind import Project
from lorebind_bindings.tool_loop import MOST_SEARCHES
from lorebind_prompts import parse
from tests.bindings.helpers import Agentic, OneModel, Scripted, calls

from .shop import KEYS, QUESTION, shop

OFF_TOPIC = "quantum chromodynamics lattice gluon"
SEARCH = calls("rotate the keys", tool="search_guide")


class Streaming(Agentic):
    """A model that answers in chunks."""

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        message = self._generate(messages, *args, **kwargs).generations[0].message
        assert isinstance(message, AIMessage)
        yield ChatGenerationChunk(
            message=AIMessageChunk(message.content, tool_calls=message.tool_calls)
        )


def ask(project: Project, model: Agentic, face: str) -> Any:
    """Return the answer by one of the ways to ask."""
    if face == "generate":
        return project.generate(OFF_TOPIC, model=model)
    if face == "agenerate":
        return asyncio.run(project.agenerate(OFF_TOPIC, model=model))
    stream = project.stream(OFF_TOPIC, model=model)
    assert "".join(stream) == "By command [3]."
    return stream.answer


@pytest.mark.parametrize("face", ["generate", "agenerate", "stream"])
@pytest.mark.parametrize(("way", "choice"), [("auto", None), ("escalate", "any")])
def test_it_searches_and_cites(tmp_path: Path, face: str, way: str, choice: str | None) -> None:
    """Weak passages are in the prompt; the model's own search continues their numbers."""
    kind = Streaming if face == "stream" else Agentic
    model = kind(says=[SEARCH, AIMessage("By command [3].")])
    with shop(tmp_path, guide=f", tool_fallback: {way}") as project:
        answer = ask(project, model, face)
    assert model.offered == [(["search_guide"], choice), (["search_guide"], None)]
    *_, call, result = model.heard[1]
    assert call.tool_calls == SEARCH.tool_calls  # type: ignore[attr-defined]
    assert isinstance(result, ToolMessage)
    assert [passage.marker for passage in parse(str(result.text))] == ["[3]", "[4]"]
    assert (answer.verdict, answer.unknown_markers) == ("escalated", [])
    assert [(citation.marker, citation.content) for citation in answer.citations] == [("[3]", KEYS)]
    assert len(answer.offered) == 4


def test_a_task_lets_its_model_search(tmp_path: Path) -> None:
    """A task of a workflow behaves as `generate` does."""
    model = Agentic(says=[SEARCH, AIMessage("By command [1].")])
    with shop(tmp_path, guide=", min_score: 1, tool_fallback: auto") as project:
        project._models = OneModel(model)
        task = project.run("reply", {"question": OFF_TOPIC}).tasks["say"]
    assert (task.verdict, [citation.content for citation in task.citations]) == ("escalated", [])
    assert model.heard[1][-1].text.startswith("Nothing was found for this question. Search")


def test_an_answer_without_a_search(tmp_path: Path) -> None:
    """`auto` lets the model answer immediately; after a hit, it gets no tool."""
    for question, tools in ((OFF_TOPIC, ["search_guide"]), (QUESTION, [])):
        model = Agentic(says=[AIMessage("I do not know.")])
        with shop(tmp_path, guide=", tool_fallback: auto") as project:
            assert project.generate(question, model=model).text == "I do not know."
        assert [names for names, _ in model.offered] == [tools]


def test_a_search_without_words_and_without_end(tmp_path: Path) -> None:
    """A blank query gets an error; a model that keeps searching is finally called without tools."""
    says = [calls("", tool="search_guide"), *[SEARCH] * MOST_SEARCHES]
    model = Agentic(says=says)
    with shop(tmp_path, guide=", tool_fallback: auto") as project:
        answer = project.generate(OFF_TOPIC, model=model)
    assert "the query is empty" in str(model.heard[1][-1].text)
    assert [bool(names) for names, _ in model.offered] == [True] * MOST_SEARCHES + [False]
    assert answer.text == ""


def test_a_model_that_takes_no_tools(tmp_path: Path) -> None:
    """A model without tool support is called as usual."""
    model = Scripted(says=["I do not know."])
    with shop(tmp_path, guide=", tool_fallback: escalate") as project:
        answer = project.generate(OFF_TOPIC, model=model)
    assert (answer.text, answer.verdict) == ("I do not know.", "escalated")
