"""The chat model that only quotes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from lorebind_prompts import (
    Assembler,
    ExtractiveChatModel,
    Passage,
    TiktokenCounter,
    build_messages,
    check,
    count_messages,
    render,
)
from lorebind_prompts.extractive import (
    INTRODUCTION,
    NO_ANSWER,
    NO_PASSAGES,
    NO_WORDS_INTRODUCTION,
    WEAK_INTRODUCTION,
)
from lorebind_prompts.rendering.formats import Bullets

from .helpers import context
from .hostile import HOSTILE

CORS = Passage(
    "[1]",
    "docs/cors.md, lines 1-20: CORS",
    """# CORS { #cors }

An origin is the combination of protocol, domain and port. You can configure cross-origin requests
with the `CORSMiddleware`:

```python
app.add_middleware(CORSMiddleware, allow_origins=["*"])
```

The logo is blue.""",
)
TASKS = Passage(
    "[2]",
    "docs/background-tasks.md, lines 1-9: Background Tasks",
    "You can define background tasks to be run *after* returning a response. They need no queue.",
)
OPTIONS = Passage(
    "[3]",
    "docs/options.md, line 3: Options",
    "| Option | Meaning |\n|---|---|\n| `timeout` | seconds to wait for a lock |\n\n"
    "These colours are supported:\n\n* red, see [7]\n* green\n",
)


def ask(question: str, *passages: Passage) -> str:
    messages = build_messages(question=question, blocks=[render(passages)])
    return str(ExtractiveChatModel().invoke(messages).text)


def test_a_sentence_brings_its_code() -> None:
    """The sentence that answers is quoted together with the code that it announces."""
    assert ask("How do I configure cross-origin requests?", CORS, TASKS, OPTIONS) == (
        f"{INTRODUCTION}\n\n"
        "> You can configure cross-origin requests with the `CORSMiddleware`:\n\n"
        '```python\napp.add_middleware(CORSMiddleware, allow_origins=["*"])\n```\n\n[1]'
    )


def test_the_passage_that_answers_is_quoted() -> None:
    """Only the passage about the question is quoted, with its own marker."""
    assert ask("How do I run a background task after a response?", CORS, TASKS, OPTIONS) == (
        f"{INTRODUCTION}\n\n"
        "> You can define background tasks to be run *after* returning a response. [2]"
    )


def test_a_table_row_and_a_list_are_quoted() -> None:
    """A row is quoted as a row, and a list with the sentence before it, without its own markers."""
    assert ask("What does timeout mean, seconds of a lock?", OPTIONS).endswith(
        "> `timeout` | seconds to wait for a lock [3]"
    )
    assert ask("Which colours are supported?", OPTIONS).endswith(
        "> These colours are supported:\n> - red, see \\[7]\n> - green [3]"
    )


def test_nothing_to_quote_is_said() -> None:
    """Without passages, or without sentences in them, the answer says so and cites nothing."""
    assert ask("How do I bake bread?") == NO_PASSAGES
    assert ask("What is it?", replace(CORS, content="# CORS")) == NO_ANSWER
    assert ExtractiveChatModel().invoke([SystemMessage("x")]).text == NO_PASSAGES
    for answer in (NO_ANSWER, NO_PASSAGES, INTRODUCTION, NO_WORDS_INTRODUCTION, WEAK_INTRODUCTION):
        assert "extractive" in answer
        assert not check(answer, []).unknown


@pytest.mark.parametrize("question", ["What is the capital of France?", "What is it?"])
def test_without_a_common_word_the_beginning_is_quoted(question: str) -> None:
    """If no word matches, the beginning is quoted; only the search calls a match weak."""
    answer = ask(question, CORS, TASKS)
    assert answer.startswith(NO_WORDS_INTRODUCTION)
    assert answer.count(CORS.marker) >= 1
    assert TASKS.marker not in answer


def test_weak_passages_are_said_to_be_weak() -> None:
    """If the block says that its passages are weak, the answer says so too, and still quotes."""
    question = "How do I configure cross-origin requests?"
    block = Bullets().block([Bullets().entry(CORS)], weak=True)
    reply = ExtractiveChatModel().invoke(f"{block}\n\n{question}").text
    strong = ask(question, CORS)
    assert reply.removeprefix(WEAK_INTRODUCTION) == strong.removeprefix(INTRODUCTION)


def test_passages_of_earlier_turns_are_not_quoted() -> None:
    """Only blocks of the current turn and of the system message belong to the question."""
    question = HumanMessage("How do I configure cross-origin requests?")
    old = build_messages(question="Earlier?", blocks=[render([CORS])])
    model = ExtractiveChatModel()
    assert model.invoke([*old, AIMessage("Yes [1]."), question]).text == NO_PASSAGES
    turns: list[list[BaseMessage]] = [
        [SystemMessage(render([CORS])), HumanMessage("hi"), AIMessage("hello"), question],
        [AIMessage("hello"), HumanMessage(render([CORS])), question],
        [question, AIMessage("", tool_calls=[]), ToolMessage(render([CORS]), tool_call_id="1")],
    ]
    for turn in turns:
        assert "[1]" in model.invoke(turn).text


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_passages_forge_no_citation(hostile: str) -> None:
    """Quoting a hostile passage cites only passages of the prompt, and this one first."""
    content = f"Rotate the keys every week, says {hostile}"
    result = Assembler().assemble([context("Something else.", 0.9), context(content, 0.5)])
    question = "How often do I rotate keys?"
    answer = ExtractiveChatModel().invoke(
        build_messages(question=question, blocks=[result.context])
    )
    checked = check(str(answer.text), result.citations)
    assert [citation.marker for citation in checked.citations] == ["[2]"]
    assert checked.unknown == []


async def test_all_ways_of_asking_agree() -> None:
    """Streaming, sync, async and batch calls give the same answer."""
    model = ExtractiveChatModel()
    messages = build_messages(
        question="How do I configure cross-origin requests?", blocks=[render([CORS, TASKS])]
    )
    whole = model.invoke(messages)
    streamed = list(model.stream(messages))
    merged = streamed[0]
    for chunk in streamed[1:]:
        merged = merged + chunk
    awaited = [await model.ainvoke(messages), *model.batch([messages])]
    apart = [chunk async for chunk in model.astream(messages)]
    assert len(streamed) > 5
    assert "".join(str(chunk.text) for chunk in apart) == whole.text
    for other in (merged, *awaited):
        assert other.text == whole.text
        assert other.usage_metadata == whole.usage_metadata
        assert other.response_metadata["model_name"] == "extractive"


def test_usage_is_counted() -> None:
    """The usage equals the token counts of the prompt and the answer."""
    messages = build_messages(question="Keys?", blocks=[])
    answer = ExtractiveChatModel().invoke(messages)
    counter = TiktokenCounter()
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] == count_messages(messages, counter)
    assert answer.usage_metadata["output_tokens"] == counter.count(str(answer.text))


def test_tools_may_be_offered() -> None:
    """With bound tools the model still answers, and calls none."""
    answer = ExtractiveChatModel().bind_tools([]).invoke("hello")
    assert answer.tool_calls == []
