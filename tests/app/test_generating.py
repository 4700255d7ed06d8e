"""Answers from Python: `generate` and `stream`, and the same answer by all other ways."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import END, START, StateGraph

from lorebind import LorebindError, ModelError, NotFoundError, Project, UsageError, tenant
from lorebind_prompts import ExtractiveChatModel, RetrievedContext, parse
from tests.bindings.helpers import Agentic, Scripted

from .shop import KEYS, OLD, QUESTION, RULES, shop


class State(TypedDict):
    question: str
    answer: str


def by_a_chain(project: Project) -> str:
    return str((project.prompt() | ExtractiveChatModel()).invoke(QUESTION).text)


def by_a_retriever_in_a_chain(project: Project) -> str:
    chain: Any = (
        {"documents": project.retriever(), "question": RunnablePassthrough()}
        | project.prompt()
        | ExtractiveChatModel()
    )
    return str(chain.invoke(QUESTION).text)


def by_an_agent(project: Project) -> str:
    agent: Any = create_agent(ExtractiveChatModel(), [], middleware=[project.middleware()])
    return str(agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1].text)


def by_a_node_of_a_graph(project: Project) -> str:
    async def node(state: State) -> dict[str, str]:
        return {"answer": (await project.agenerate(state["question"])).text}

    graph: Any = StateGraph(State)
    graph.add_node("reply", node)
    graph.add_edge(START, "reply")
    graph.add_edge("reply", END)
    state = asyncio.run(graph.compile().ainvoke({"question": QUESTION}))
    return str(state["answer"])


def by_a_workflow(project: Project) -> str:
    return str(project.run("reply", {"question": QUESTION}).output)


def by_a_stream(project: Project) -> str:
    return "".join(project.stream(QUESTION))


@pytest.mark.parametrize(
    "way",
    [
        by_a_chain,
        by_a_retriever_in_a_chain,
        by_an_agent,
        by_a_node_of_a_graph,
        by_a_workflow,
        by_a_stream,
    ],
)
def test_every_way_gives_the_same_answer(tmp_path: Path, way: Any) -> None:
    """A chain, an agent, a graph, a workflow and a stream return the answer of `generate`."""
    with shop(tmp_path) as project:
        answer = project.generate(QUESTION)
        assert KEYS in answer.text
        assert way(project) == answer.text


def test_an_answer_has_its_grounds(tmp_path: Path) -> None:
    """An answer has citations, passages, unknown markers, a verdict, and the model's tokens."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("By command [1]; see also [7].")])
        answer = project.generate(QUESTION, "guide", model=model)
    assert (answer.verdict, [citation.uri for citation in answer.citations]) == (
        "hit",
        ["guide/keys.md"],
    )
    assert [passage.content for passage in answer.offered] == [KEYS, OLD]
    assert answer.unknown_markers == ["[7]"]
    assert (answer.usage["tokenizer"], answer.usage["exact"]) == ("len/4", False)


def test_an_agent_answers_with_its_instructions_and_bindings(tmp_path: Path) -> None:
    """`agent=` adds the system message and the bindings of the agent."""
    with shop(tmp_path) as project:
        model = Scripted()
        project.generate(QUESTION, agent="clerk", model=model)
    system, question = model.heard[0]
    assert system.text == "Be short."
    assert [passage.content for passage in parse(str(question.text))] == [KEYS, OLD, RULES]


def test_what_was_found_before_is_not_searched_again(tmp_path: Path) -> None:
    """`retrieved_contexts` are put into the prompt unchanged, capped and numbered as others."""
    mine = [RetrievedContext("mine", "Turn the key twice.", 0.4, 5, {"uri": "mine.md"}, id="m")]
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("Twice [1].")])
        answer = project.generate(QUESTION, model=model, retrieved_contexts=mine)
    assert [citation.uri for citation in answer.citations] == ["mine.md"]
    assert "rotate command" not in model.heard[0][0].text
    assert answer.verdict == "hit"


def test_history_and_attachments_stay_beside(tmp_path: Path) -> None:
    """The history comes first, and an image follows the question."""
    picture = {"type": "image", "url": "https://example.com/key.png"}
    before = [HumanMessage("Hello!"), AIMessage("Hello.")]
    with shop(tmp_path) as project:
        model = Scripted()
        project.generate(QUESTION, model=model, history=before, attachments=[picture])
    first, second, question = model.heard[0]
    assert [first, second] == before
    assert isinstance(question.content, list)
    assert question.content[-1] == picture
    assert question.content[1] == {"type": "text", "text": QUESTION}
    assert KEYS in question.content[0]["text"]  # type: ignore[index]  # a text part


def test_a_budget_for_all(tmp_path: Path) -> None:
    """`max_tokens` caps the passages of all bindings together."""
    with shop(tmp_path) as project:
        model = Scripted()
        answer = project.generate(QUESTION, "guide", "rules", model=model, max_tokens=70)
    assert answer.dropped > 0
    block = str(model.heard[0][0].text).removesuffix(f"\n\n{QUESTION}")
    assert len(block) / 4 <= 70


def test_a_stream_is_checked_as_a_whole(tmp_path: Path) -> None:
    """A marker that is split over two parts is a citation; there is no answer before the end."""
    with shop(tmp_path) as project:
        stream = project.stream(QUESTION, model=Parts(says=["By command", " [", "1", "] and [9]."]))
        with pytest.raises(UsageError, match="read the stream to its end"):
            _ = stream.answer
        parts = list(stream)
        whole = project.generate(QUESTION, model=Scripted(says=["By command [1] and [9]."]))
    assert parts == ["By command", " [", "1", "] and [9]."]
    assert stream.answer.text == whole.text
    assert stream.answer.citations == whole.citations
    assert stream.answer.unknown_markers == whole.unknown_markers == ["[9]"]


async def test_a_stream_in_an_asynchronous_loop(tmp_path: Path) -> None:
    """`async for` yields the same parts."""
    project = await asyncio.to_thread(shop, tmp_path)
    async with project:
        stream = project.astream(QUESTION, model=Parts(says=["a ", "b [1]"]))
        assert [part async for part in stream] == ["a ", "b [1]"]
        assert [citation.marker for citation in stream.answer.citations] == ["[1]"]


def test_a_stream_that_breaks_raises(tmp_path: Path) -> None:
    """A provider's exception in the middle of a stream is raised where the stream is read."""
    with shop(tmp_path) as project:
        stream = project.stream(QUESTION, model=Parts(says=["a", "b"], breaks=True))
        parts = []
        with pytest.raises(ModelError, match="ConnectionError: cut"):
            parts.extend(stream)
        with pytest.raises(UsageError):
            _ = stream.answer


def test_a_stream_that_is_left_is_ended(tmp_path: Path) -> None:
    """If you stop reading, the model call ends, even if the stream object is kept."""
    with shop(tmp_path) as project:
        model = Parts(says=[str(number) for number in range(1000)])
        stream = project.stream(QUESTION, model=model)
        for _ in stream:
            break
        assert model.ended.wait(10)
        assert len(model.sent) < 100
        with pytest.raises(UsageError, match="to its end"):
            _ = stream.answer


@pytest.mark.parametrize("way", ["break", "cancel"])
async def test_an_asynchronous_stream_that_is_left_is_ended(tmp_path: Path, way: str) -> None:
    """The model call also ends if an `async for` loop is left or its task is cancelled."""
    project = await asyncio.to_thread(shop, tmp_path)
    async with project:
        model = Parts(says=[str(number) for number in range(100_000)])
        stream = project.stream(QUESTION, model=model)
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in stream:
                begun.set()
                if way == "break":
                    break

        reading = asyncio.create_task(read())
        await begun.wait()
        if way == "cancel":
            reading.cancel()
        await asyncio.wait([reading])
        assert await asyncio.to_thread(model.ended.wait, 10)


def test_a_stream_is_searched_before_it_is_read(tmp_path: Path) -> None:
    """The passages are there before the model is called; a citation once its marker was read."""
    with shop(tmp_path) as project:
        stream = project.stream(QUESTION, model=Parts(says=["By command", " [1]."]))
        assert stream.results == stream.citations == []
        (result,) = stream.search()
        assert result.result.matches
        cited = [len(stream.citations) for _ in stream]
    assert cited == [0, 1]
    assert stream.citations == stream.answer.citations
    assert stream.results == [result]


@pytest.mark.parametrize("when", ["after it", "during it"])
def test_a_stream_is_read_once(tmp_path: Path, when: str) -> None:
    """A second read is refused, and affects neither the first reader nor the answer."""
    with shop(tmp_path) as project:
        stream = project.stream(QUESTION, model=Parts(says=["a", "b [1]"]))
        reader = iter(stream)
        parts = [next(reader)] if when == "during it" else list(reader)
        with pytest.raises(UsageError, match="can be read only once"):
            list(stream)
        assert [*parts, *reader] == ["a", "b [1]"]
        assert stream.answer.text == "ab [1]"


def test_a_stream_is_the_answer_for_the_tenant_that_asked(tmp_path: Path) -> None:
    """A later reader, such as a web server, gets only passages of the tenant that called."""
    with shop(tmp_path) as project:
        (tmp_path / "guide/keys.md").write_text("Acme rotates the keys by hand.\n")
        with tenant("acme"):
            project.ingest("guide")
            stream = project.stream(QUESTION, model=ExtractiveChatModel())
        text = "".join(stream)
    assert "by hand" in text
    assert "ninety days" not in text


@pytest.mark.parametrize(
    ("guide", "verdict"),
    [
        ("", "hit"),
        (", min_score: 1, fallback: Nothing.", "fallback"),
        (", min_score: 1, tool_fallback: auto", "escalated"),
        (", max_tokens: 1", "fallback"),
    ],
)
def test_a_streams_answer_is_that_of_generate(tmp_path: Path, guide: str, verdict: str) -> None:
    """For every verdict, text, citations, budget and usage are the same."""
    with shop(tmp_path, guide=guide) as project:
        stream = project.stream(QUESTION, model=Parts(says=["By command", " [1]."]))
        text = "".join(stream)
        whole = project.generate(QUESTION, model=Scripted(says=["By command [1]."]))
    assert (text, stream.answer.verdict) == (whole.text, verdict)
    results = [replace(result.result, seconds=0.0) for result in stream.answer.results]
    assert results == [replace(result.result, seconds=0.0) for result in whole.results]
    assert replace(stream.answer, results=[]) == replace(whole, results=[])


def test_callbacks_reach_the_model(tmp_path: Path) -> None:
    """`config` is passed on, so that tracing sees the call."""
    seen = []

    class Seen(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            seen.append(kwargs["tags"])

    with shop(tmp_path) as project:
        config = {"callbacks": [Seen()], "tags": ["mine"]}
        project.generate(QUESTION, model=Scripted(), config=config)
    assert seen == [["mine"]]


@pytest.mark.parametrize("way", ["generate", "stream", "run"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_callers_callbacks_reach_the_model(tmp_path: Path, way: str, colour: str) -> None:
    """Within a chain, an agent or a graph, the model call is part of their run."""
    parents = {}

    class Seen(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, run_id: Any, parent_run_id: Any, **more: Any) -> None:
            parents[run_id] = parent_run_id

        def on_chat_model_start(
            self, *args: Any, run_id: Any, parent_run_id: Any, **more: Any
        ) -> None:
            parents["model"] = parent_run_id

    with shop(tmp_path) as project:
        calls: Any = {
            "generate": lambda _: project.generate(QUESTION, model=Scripted()),
            "stream": lambda _: list(project.stream(QUESTION, model=Scripted())),
            "run": lambda _: project.run("reply", {"question": QUESTION}),
        }

        async def call(_: Any) -> Any:
            if way == "stream":
                return [part async for part in project.astream(QUESTION, model=Scripted())]
            if way == "generate":
                return await project.agenerate(QUESTION, model=Scripted())
            return await project.arun("reply", {"question": QUESTION})

        config: Any = {"callbacks": [Seen()]}
        if colour == "sync":
            RunnableLambda(calls[way]).invoke("", config)
        else:
            asyncio.run(RunnableLambda(call).ainvoke("", config))
    at = parents["model"]
    while parents[at] is not None:
        at = parents[at]
    assert at == next(iter(parents))


def test_places_that_are_not_there(tmp_path: Path) -> None:
    """Unknown knowledge bases, agents and models are refused with the known names."""
    with shop(tmp_path) as project:
        with pytest.raises(NotFoundError, match="did you mean 'guide'"):
            project.generate(QUESTION, "guides")
        with pytest.raises(NotFoundError, match="known: clerk"):
            project.generate(QUESTION, agent="cook")
        with pytest.raises(NotFoundError, match="known: default"):
            project.generate(QUESTION, model="gpt")
        with pytest.raises(UsageError, match="empty"):
            project.generate("  ")


async def test_fifty_tasks_at_once(tmp_path: Path) -> None:
    """Tasks that share a project each get the passages of their own question and tenant."""
    project = await asyncio.to_thread(shop, tmp_path)
    (tmp_path / "guide/keys.md").write_text("Acme rotates the keys by hand.\n")
    async with project:
        with tenant("acme"):
            await project.aingest("guide")

        async def ask(number: int) -> str:
            with tenant("acme" if number % 2 else "default"):
                return (await project.agenerate(QUESTION, model=ExtractiveChatModel())).text

        answers = await asyncio.gather(*map(ask, range(50)))
    for number, answer in enumerate(answers):
        assert ("by hand" if number % 2 else "ninety days") in answer
        assert ("ninety days" if number % 2 else "by hand") not in answer


def test_fifty_threads_at_once(tmp_path: Path) -> None:
    """Threads that call the sync version each get the passages of their own question and tenant."""
    with shop(tmp_path) as project:
        answers: dict[int, str] = {}

        def ask(number: int) -> None:
            question = "What covers alpine chalets?" if number % 2 else "Who may rotate the keys?"
            answers[number] = project.generate(question, "rules").text

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 50
    for number, answer in answers.items():
        assert ("powder" if number % 2 else "access rules") in answer


class Parts(Scripted):
    """A model that returns its lines as the parts of one answer."""

    breaks: bool = False
    sent: list[str] = []  # noqa: RUF012  # a field, which is copied
    ended: Any = None

    def model_post_init(self, context: Any) -> None:
        self.ended = threading.Event()

    def _stream(self, *args: Any, **kwargs: Any) -> Any:
        from langchain_core.messages import AIMessageChunk
        from langchain_core.outputs import ChatGenerationChunk

        try:
            for text in self.says:
                self.sent.append(text)
                yield ChatGenerationChunk(message=AIMessageChunk(content=text))
            if self.breaks:
                raise ConnectionError("cut")
        finally:
            self.ended.set()

    async def _astream(self, *args: Any, **kwargs: Any) -> Any:
        with closing(self._stream()) as chunks:
            for chunk in chunks:
                yield chunk
                await asyncio.sleep(0)


def test_settings_may_differ_for_a_call(tmp_path: Path) -> None:
    """Every method accepts the fields of `retrieval`, and validates them as in YAML."""
    with shop(tmp_path) as project:
        answer = project.generate(QUESTION, "guide", model=Scripted(), top_k=1, render="json")
        assert [passage.content for passage in answer.offered] == [KEYS]
        value = project.prompt("guide", top_k=1).invoke(QUESTION)
        assert len(parse(str(value.to_messages()[-1].text))) == 1
        assert len(parse(project.tool("guide", top_k=1).invoke({"query": QUESTION}))) == 1
        with pytest.raises(UsageError, match="unknown key 'topk'; did you mean 'top_k'"):
            project.generate(QUESTION, "guide", topk=1)
        with pytest.raises(UsageError, match="top_k is 99; expected 1 to 50"):
            project.middleware("guide", top_k=99)


def test_what_was_said_and_found_before_in_langchains_forms(tmp_path: Path) -> None:
    """History may be pairs or mappings, and passages may be the documents of any retriever."""
    history = [("user", "Hello!"), {"role": "assistant", "content": "Hello."}]
    documents = [Document("The keys turn.", metadata={"source": "lock.md"})]
    with shop(tmp_path) as project:
        model = Scripted(says=["They turn [1]."])
        answer = project.generate(
            QUESTION, model=model, history=history, retrieved_contexts=documents
        )
        with pytest.raises(UsageError, match="'history' must be a list of LangChain messages"):
            project.generate(QUESTION, model=model, history=[3])
        wrong: Any = ["The keys turn."]
        with pytest.raises(UsageError, match="not of str"):
            project.generate(QUESTION, model=model, retrieved_contexts=wrong)
    assert [message.text for message in model.heard[0][:2]] == ["Hello!", "Hello."]
    assert [citation.uri for citation in answer.citations] == ["lock.md"]


def test_a_model_by_its_providers_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`provider:model` needs no declaration; an unknown provider is named."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with shop(tmp_path) as project:
        model, counter = project._models.get("openai:gpt-4o-mini")
        assert (type(model).__name__, model.model_name) == ("ChatOpenAI", "gpt-4o-mini")  # type: ignore[attr-defined]
        assert counter.exact
        with pytest.raises(LorebindError, match="nobody"):
            project.generate(QUESTION, model="nobody:model")
        with pytest.raises(NotFoundError):
            project.generate(QUESTION, model="gpt-4o-mini")


@pytest.mark.parametrize("face", ["retriever", "prompt", "tool", "middleware", "generate"])
def test_settings_of_a_call(tmp_path: Path, face: str) -> None:
    """Each method accepts the fields of `retrieval`, and names unknown ones in an error."""
    args = [QUESTION] if face == "generate" else []
    with shop(tmp_path) as project:
        ask = getattr(project, face)
        ask(*args, top_k=1)
        with pytest.raises(UsageError, match=r"unknown key 'topk'; did you mean 'top_k'"):
            ask(*args, topk=1)
        if face == "retriever":
            assert len(ask(top_k=1).invoke(QUESTION)) == 1


def test_a_place_said_once(tmp_path: Path) -> None:
    """Its methods use the given location; an unknown location is refused immediately."""
    with shop(tmp_path) as project:
        clerk = project.at(agent="clerk")
        everywhere = [
            [hit.content for hit in parse(clerk.prompt().invoke(QUESTION).to_messages()[-1].text)],
            [hit.content for hit in parse(clerk.tool().invoke({"query": QUESTION}))],
            [document.page_content for document in clerk.retriever().invoke(QUESTION)],
        ]
        for texts in everywhere:
            assert set(texts) == {KEYS, OLD, RULES}
        model = Scripted(says=["By command [1]."])
        assert clerk.generate(QUESTION, model=model, top_k=1).citations
        assert model.heard[0][0].text == "Be short."
        assert "".join(clerk.stream(QUESTION, model=Parts(says=["By ", "command."])))
        assert clerk.middleware().name == project.middleware(agent="clerk").name
        assert project.at("rules").generate(QUESTION, model=model).offered[0].uri == "rules/keys.md"
        for place in ({"agent": "nobody"}, {"workflow": "none"}):
            with pytest.raises(NotFoundError):
                project.at(**place)


def test_a_result_is_a_sequence(tmp_path: Path) -> None:
    """The matches of a query support indexing, slices, `reversed` and `in`."""
    with shop(tmp_path) as project:
        result = project.query("guide", QUESTION)
    first, second = result
    assert (result[0], result[-1], result[:1]) == (first, second, [first])
    assert list(reversed(result)) == [second, first]
    assert (first in result, result.index(second), len(result)) == (True, 1, 2)
