"""`project.citations()`: the end of a chain, with the same result as `generate`."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough

from lorebind import UsageError
from lorebind_bindings import Answer
from lorebind_prompts import ExtractiveChatModel
from tests.bindings.helpers import Agentic, Scripted

from .shop import KEYS, OLD, QUESTION, RULES, shop

SNOW = "What covers alpine chalets?"


def invoke(chain: Runnable[Any, Answer]) -> Answer:
    return chain.invoke(QUESTION)


def ainvoke(chain: Runnable[Any, Answer]) -> Answer:
    return asyncio.run(chain.ainvoke(QUESTION))


def batch(chain: Runnable[Any, Answer]) -> Answer:
    return chain.batch([SNOW, QUESTION, SNOW])[1]


def abatch(chain: Runnable[Any, Answer]) -> Answer:
    return asyncio.run(chain.abatch([SNOW, QUESTION, SNOW]))[1]


def stream(chain: Runnable[Any, Answer]) -> Answer:
    (answer,) = chain.stream(QUESTION)
    return answer


def astream(chain: Runnable[Any, Answer]) -> Answer:
    async def read() -> Answer:
        (answer,) = [answer async for answer in chain.astream(QUESTION)]
        return answer

    return asyncio.run(read())


def events(chain: Runnable[Any, Answer]) -> Answer:
    async def read() -> Any:
        seen = [event async for event in chain.astream_events(QUESTION, version="v2")]
        return seen[-1]["data"]["output"]

    answer: Answer = asyncio.run(read())
    return answer


def account(answer: Answer) -> Any:
    """Return all fields of an answer except the duration of the searches."""
    results = [(result.binding, result.verdict, result.result.matches) for result in answer.results]
    assert results
    return replace(answer, results=results)


WAYS = [invoke, ainvoke, batch, abatch, stream, astream, events]


@pytest.mark.parametrize("way", WAYS)
def test_a_chain_gives_what_generate_gives(tmp_path: Path, way: Any) -> None:
    """Text, verdict, citations, passages and tokens are the same, however the chain is called."""
    with shop(tmp_path) as project:
        chain = project.prompt() | ExtractiveChatModel() | project.citations()
        answer = way(chain)
        assert account(answer) == account(project.generate(QUESTION))
    assert [citation.content for citation in answer.citations] == [KEYS, OLD]
    assert answer.usage["prompt_tokens"] > 0
    assert answer.message is not None
    (block,) = answer.message.content_blocks
    for annotation, citation in zip(block["annotations"], answer.citations, strict=True):
        assert annotation["type"] == "citation"
        place = slice(annotation["start_index"], annotation["end_index"])
        assert answer.text[place] == citation.marker
        assert (annotation["url"], annotation["cited_text"]) == (citation.url, citation.content)
    assert answer.message.text == answer.text
    assert answer.message.response_metadata["lorebind"]["verdict"] == answer.verdict


@pytest.mark.parametrize("way", WAYS)
def test_a_chain_within_others(tmp_path: Path, way: Any) -> None:
    """A chain works nested, behind a mapping, retried, with a fallback, and next to another."""
    with shop(tmp_path) as project:
        model = ExtractiveChatModel()

        def ending(*ids: str) -> Any:
            return project.prompt(*ids) | model | project.citations()

        inputs = {"documents": project.retriever("rules"), "question": RunnablePassthrough()}
        chain: Any = RunnableLambda(str) | RunnableParallel(
            plain=ending("guide"),
            mapped=inputs | ending("guide"),
            tagged=(RunnableLambda(str) | ending("rules")).with_config(tags=["mine"]),
            retried=ending("guide").with_retry(),
            twice=ending("rules") | (lambda answer: QUESTION) | ending("guide"),
            fallback=RunnableLambda(fail).with_fallbacks([ending("rules")]),
        )
        last: Any = chain | RunnableLambda(lambda value: value)
        answers = way(last)
        assert answers["mapped"].offered[0].content == RULES
        for name, knowledge in {
            "plain": "guide",
            "tagged": "rules",
            "retried": "guide",
            "twice": "guide",
            "fallback": "rules",
        }.items():
            expected = project.generate(QUESTION, knowledge)
            assert account(answers[name]) == account(expected), name


def fail(question: str) -> Any:
    raise ValueError(question)


class Meeting(BaseChatModel):
    """Answers when enough concurrent calls wait at its barrier."""

    barrier: Any

    @property
    def _llm_type(self) -> str:
        return "meeting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.barrier.wait(timeout=30)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("So it is [1]."))])


def test_runs_at_once(tmp_path: Path) -> None:
    """Concurrent runs of one chain do not get each other's passages."""
    with shop(tmp_path) as project:
        prompt = project.prompt("rules")
        chain = prompt | Meeting(barrier=threading.Barrier(4)) | project.citations()
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(chain.invoke, [QUESTION, SNOW, QUESTION, SNOW]))
        texts = [answer.citations[0].content for answer in answers]
        assert texts == [RULES, "Blankets of powder cover alpine chalets."] * 2


def test_many_at_once_and_nothing_kept(tmp_path: Path) -> None:
    """A batch builds all prompts before the first answer; none is lost, and none is kept."""
    with shop(tmp_path) as project:
        chain = project.prompt("guide") | Scripted(says=["It is [1]."]) | project.citations()
        answers = chain.batch([QUESTION] * 200)
        assert [len(answer.citations) for answer in answers] == [1] * 200
        (project.prompt("guide") | ExtractiveChatModel()).invoke(QUESTION)
        gc.collect()
        assert not project._asked_in_runs


def test_markers_that_belong_to_no_passage(tmp_path: Path) -> None:
    """They are listed, and cite nothing."""
    with shop(tmp_path) as project:
        model = Scripted(says=["By command [1]; see also [7]."])
        answer = (project.prompt("guide") | model | project.citations()).invoke(QUESTION)
    assert (answer.text, answer.unknown_markers) == ("By command [1]; see also [7].", ["[7]"])
    assert [citation.uri for citation in answer.citations] == ["guide/keys.md"]
    assert [passage.content for passage in answer.offered] == [KEYS, OLD]


def test_passages_of_a_tool_are_cited_too(tmp_path: Path) -> None:
    """In a conversation with passages from a tool, the answer may cite those, too."""
    call = {"name": "search_guide", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    with shop(tmp_path) as project:
        result = project.tool("guide").invoke(call)
        chain = project.prompt("rules") | Scripted(says=["See [1] and [3]."]) | project.citations()
        answer = chain.invoke([("user", "Keys?"), result, ("user", QUESTION)])
    assert [citation.content for citation in answer.citations] == [KEYS, RULES]
    assert [passage.marker for passage in answer.offered] == ["[1]", "[2]", "[3]", "[4]"]


def test_a_message_that_middleware_has_checked(tmp_path: Path) -> None:
    """A message that the middleware has checked keeps its citations."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("By command [1]; see also [7].")])
        agent: Any = create_agent(model, [], middleware=[project.middleware("guide")])
        chain: Any = agent | (lambda state: state["messages"][-1]) | project.citations()
        answer = chain.invoke({"messages": [("user", QUESTION)]})
    assert [citation.uri for citation in answer.citations] == ["guide/keys.md"]
    assert (answer.verdict, answer.unknown_markers) == ("hit", ["[7]"])


def test_citations_without_their_prompt(tmp_path: Path) -> None:
    """If the prompt is missing, wrapped or foreign, the error shows how to write the chain."""
    with shop(tmp_path / "one") as project, shop(tmp_path / "two") as other:
        model = ExtractiveChatModel()
        for chain in (
            model | project.citations(),
            other.prompt("guide") | model | project.citations(),
            project.prompt("guide").with_retry(stop_after_attempt=1) | model | project.citations(),
        ):
            with pytest.raises(UsageError, match=r"prompt\('docs'\) \| model \| project.citations"):
                chain.invoke(QUESTION)
        with pytest.raises(UsageError, match="no prompt of this project"):
            project.citations().invoke(AIMessage("By command [1]."))
        with pytest.raises(UsageError, match="not from a dict"):
            project.citations().invoke({"text": "By command [1]."})


def test_it_is_a_runnable_like_others(tmp_path: Path) -> None:
    """Callbacks see it as a parser; its chain has a graph and schemas; it also reads plain text."""
    seen: list[Any] = []

    class Seen(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
            seen.append((kwargs["name"], kwargs.get("run_type")))

    with shop(tmp_path) as project:
        place = project.at("guide")
        chain: Any = place.prompt() | Scripted() | (lambda reply: "So [1].") | place.citations()
        answer = chain.invoke(QUESTION, {"callbacks": [Seen()]})
        assert [citation.content for citation in answer.citations] == [KEYS]
        assert ("CitationParser", "parser") in seen
        assert "CitationParser" in chain.get_graph().draw_mermaid()
        assert chain.get_output_jsonschema()
