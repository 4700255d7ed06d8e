"""Follow-up questions are understood, however they are asked."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage

from lorebind import ModelError, NotFoundError, Project, TaskError, UsageError
from tests.bindings.helpers import Agentic, Scripted, write

from .helpers import Cli

FIRST, SECOND = "How long does delivery take?", "And express?"
HISTORY: Any = [("user", FIRST), ("assistant", "Three to five working days.")]
DELIVERY = "Standard delivery may take three to five days; with express delivery it is one."
FILES = {
    "docs/delivery.md": f"{DELIVERY}\n",
    "docs/returns.md": "And anyone who returns an item is paid within thirty days.\n",
}
PROJECT = """\
name: shop
embedders: [{ id: words, provider: hashing }]
models: [{ id: default, provider: extractive }, { id: quick, provider: extractive }]
knowledge_bases:
  - id: docs
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
    retrieval: { strategy: similarity, top_k: 1, min_score: 0.25 }
knowledge: [{ id: docs }]
workflows:
  - id: reply
    input: { question: {}, said: { type: array } }
    tasks:
      - id: say
        prompt: "{{ .workflow.input.question }}"
        history: "{{ .workflow.input.said }}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Return a project whose follow-up alone is nearer to the wrong document, and too far away."""
    with Project.load(write(tmp_path, {**FILES, "lorebind.yaml": PROJECT})) as loaded:
        loaded.ingest("docs")
        assert loaded.generate(SECOND).verdict == "fallback"
        yield loaded


def test_generate(project: Project) -> None:
    """`generate` condenses in all its forms; the result has the text that was searched for."""
    answers = [
        project.generate(SECOND, history=HISTORY),
        asyncio.run(project.agenerate(SECOND, history=HISTORY)),
        project.ask(SECOND, history=HISTORY),
    ]
    stream = project.stream(SECOND, history=HISTORY)
    assert list(stream)
    for answer in [*answers, stream.answer]:
        assert (answer.verdict, answer.offered[0].uri) == ("hit", "docs/delivery.md")
        assert answer.results[0].searched_for == "\n".join([SECOND] * 3 + [FIRST])


def test_what_is_to_be_searched_for_may_be_said(project: Project) -> None:
    """A query replaces the question, also within a conversation."""
    more: Any = {"history": HISTORY, "query": "item returns paid"}
    assert project.generate("Go on.", **more).offered[0].uri == "docs/returns.md"
    alone = project.generate("Go on.", condense="none", **more)
    assert alone.results[0].searched_for == "item returns paid"


def test_a_blank_question_stays_one(project: Project) -> None:
    """A blank question is refused, whatever the history."""
    with pytest.raises(UsageError, match="the question is empty"):
        project.generate("  ", history=HISTORY)
    with pytest.raises(UsageError, match=r"'history' must be a list.*'tool_call_id' is missing"):
        project.generate("x", history=[{"role": "tool", "content": "x"}])


def test_prompt(project: Project) -> None:
    """The history of a mapping is used, and so are the messages before the question."""
    prompt = project.prompt()
    for value in (
        {"question": SECOND, "history": HISTORY},
        [*HISTORY, ("user", SECOND)],
        {"messages": [*HISTORY, ("user", SECOND)]},
    ):
        question = prompt.invoke(value).to_messages()[-1]
        assert DELIVERY in str(question.text)
        assert DELIVERY not in str(prompt.invoke(SECOND).to_messages()[-1].text)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_an_agent(project: Project, way: str) -> None:
    """Its middleware searches with the previous message of the user."""
    model = Agentic(says=[AIMessage("In one day [1].")])
    agent: Any = create_agent(model, [], middleware=[project.middleware()])
    inputs = {"messages": [*HISTORY, ("user", SECOND)]}
    state = agent.invoke(inputs) if way == "invoke" else asyncio.run(agent.ainvoke(inputs))
    assert DELIVERY in str(model.heard[0][-1].text)
    metadata = state["messages"][-1].response_metadata["lorebind"]
    assert [citation["uri"] for citation in metadata["citations"]] == ["docs/delivery.md"]


def test_a_workflow(project: Project) -> None:
    """A task takes the history from wherever its template names it."""
    history = [{"role": role, "content": text} for role, text in HISTORY]
    for messages, verdict in ((history, "hit"), ([], "fallback")):
        result = project.run("reply", {"question": SECOND, "said": messages})
        assert result.tasks["say"].verdict == verdict
    with pytest.raises(TaskError, match="'history' must be a list"):
        project.run("reply", {"question": SECOND, "said": [5]})


def test_none(project: Project) -> None:
    """`condense: none` searches for the question alone, and explain names its location."""
    answer = project.generate(SECOND, history=HISTORY, condense="none")
    assert (answer.verdict, answer.results[0].searched_for) == ("fallback", SECOND)
    (bound,) = project.explain()
    assert bound.settings.condense.method == "turns"
    assert bound.provenance["condense"].scope == "default"
    assert bound.settings.model_dump(mode="json")["condense"] == "turns"


def with_model(root: Path, model: Any, binding: str = "") -> Project:
    """Return the project with a live model `quick` that condenses questions."""
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "models": [
            {"id": "default", "provider": "extractive"},
            {"id": "quick", "provider": "langchain", "model": model},
        ],
        "knowledge_bases": [
            {
                "id": "docs",
                "ingest": "on_start",
                "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                "retrieval": {"strategy": "similarity", "top_k": 1, "min_score": 0.25},
            }
        ],
        "knowledge": [{"id": "docs", "condense": {"model": "quick"}}],
    }
    if binding:
        declared["knowledge"][0]["on_error"] = binding  # type: ignore[index]
    return Project.build(declared, root=write(root, FILES))


def test_a_model_condenses(tmp_path: Path) -> None:
    """Its output is searched for, and it is called only if there is a history."""
    model = Scripted(says=["How long is express delivery?"])
    with with_model(tmp_path, model) as project:
        answer = project.generate(SECOND, history=HISTORY)
        assert answer.results[0].searched_for == "How long is express delivery?"
        assert (answer.verdict, answer.offered[0].uri) == ("hit", "docs/delivery.md")
        project.generate(FIRST)
        assert len(model.heard) == 1


def test_what_a_model_condenses_is_no_part_of_the_answer(tmp_path: Path) -> None:
    """A stream of messages has only the answer and its citations; callbacks see both calls."""
    seen: list[str] = []

    class Watching(BaseCallbackHandler):
        def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
            seen.append(more["name"])

    model = Scripted(says=["How long is express delivery?"])
    with with_model(tmp_path, model) as project:
        answering = Agentic(says=[AIMessage("In one day [1].")])
        agent: Any = create_agent(answering, [], middleware=[project.middleware()])
        inputs = {"messages": [*HISTORY, ("user", SECOND)]}
        config: Any = {"callbacks": [Watching()]}
        texts = [part.text for part, _ in agent.stream(inputs, config, stream_mode="messages")]
        assert (texts, len(model.heard)) == (["In one day [1].", ""], 1)
        assert (seen[0], len(seen)) == ("lorebind condense", 2)
        seen.clear()
        project.generate(SECOND, history=HISTORY, config=config)
        assert seen[0] == "lorebind condense"


def test_a_model_that_fails(tmp_path: Path) -> None:
    """A failing model fails the search, as an outage does, so `on_error` applies."""
    failing = Scripted(error=ConnectionError("no route"))
    with (
        with_model(tmp_path, failing) as project,
        pytest.raises(ModelError, match="the chat model failed: ConnectionError: no route"),
    ):
        project.generate(SECOND, history=HISTORY)
    with with_model(tmp_path, failing, "fallback") as project:
        assert project.generate(SECOND, history=HISTORY).verdict == "error"


def test_what_cannot_condense(project: Project) -> None:
    """An unknown model and a model that writes nothing are refused."""
    with pytest.raises(NotFoundError, match="there is no model 'slow'; known: default, quick"):
        project.generate(SECOND, history=HISTORY, condense={"model": "slow"})
    with pytest.raises(UsageError, match="model 'quick' is extractive"):
        project.generate(SECOND, history=HISTORY, condense={"model": "quick"})


@pytest.mark.parametrize(
    ("condense", "problem"),
    [
        ("nothing", "5:40: condense 'nothing' is not supported; known: turns, none, or a model"),
        ("{ model: gone }", "5:52: knowledge base 'docs' uses unknown model 'gone'"),
        ("{ model: default }", "5:52: knowledge base 'docs': model 'default' is extractive"),
        ("{ method: none }", "5:52: unknown key 'method'; known: turns, none, or a model"),
        ("{ modell: x }", "5:52: unknown key 'modell'; did you mean 'model'"),
        ("{}", "5:40: condense names no model; known: turns, none, or a model"),
        ("3", "5:40: condense is not supported; known: turns, none, or a model"),
    ],
)
def test_what_is_declared_wrongly(empty_cli: Cli, condense: str, problem: str) -> None:
    """A wrong value is reported at its location."""
    empty_cli.write(
        {
            "lorebind.yaml": f"""\
            name: shop
            knowledge_bases:
              - id: docs
                sources: [{{ type: markdown_glob, path: "docs/*.md" }}]
                retrieval: {{ strategy: similarity, condense: {condense} }}
            """
        }
    )
    done = empty_cli("validate")
    assert (done.code, problem in done.err) == (2, True), done.err


def test_a_conversation_in_the_terminal(
    empty_cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each question is answered with the previous ones as context, until the input ends."""
    empty_cli.write(FILES)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{FIRST}\n\n{SECOND}\n"))
    done = empty_cli("chat", "docs")
    first, second = done.out.split("Quoted from")[1:]
    assert done.code == 0
    assert "three to five days" in first
    assert "[1] delivery.md, line 1" in second
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECOND}\n"))
    done = empty_cli("ask", "docs", FIRST, "--chat")
    assert done.out.count("[1] delivery.md, line 1\n") == 2
    assert done.code == 0
    assert empty_cli("ask", "docs", FIRST, "--chat", "--output", "json").code == 2


@pytest.mark.parametrize("word", ["exit", "quit", "/exit", "QUIT"])
def test_a_word_ends_the_conversation(
    empty_cli: Cli, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """`exit` and `quit` are not questions; nothing after them is read."""
    empty_cli.write(FILES)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{word}\n{FIRST}\n"))
    done = empty_cli("chat", "docs")
    assert (done.code, "Quoted from" in done.out) == (0, False)


def test_a_conversation_goes_on_after_a_failure(
    empty_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is printed, and the next question is answered."""
    empty_cli.write({**FILES, "lorebind.yaml": PROJECT})
    direct = "standard delivery three to five days"
    questions: list[str] = []
    before = Project.ask

    def failing_once(self: Project, question: str, **more: Any) -> Any:
        questions.append(question)
        if len(questions) == 1:
            raise ModelError("the chat model failed: no route")
        return before(self, question, **more)

    monkeypatch.setattr(Project, "ask", failing_once)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{direct}\n{direct}\n"))
    done = empty_cli("chat", ".")
    assert (done.code, questions) == (0, [direct, direct])
    assert "lorebind: the chat model failed: no route\n" in done.err
    assert "three to five days" in done.out
