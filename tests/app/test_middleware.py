"""Knowledge for agents: the model's input, the stored state, and the tools after a miss."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from lorebind import Event, Extension, StoreError, tenant
from lorebind_prompts import ExtractiveChatModel, parse
from lorebind_prompts.rendering.base import WEAK
from tests.bindings.helpers import Agentic, calls

from .shop import KEYS, OLD, QUESTION, RULES, shop, weather

MISS = ", min_score: 1, fallback: Nothing is known of this."
THREAD: Any = {"configurable": {"thread_id": "1"}}


def ask(agent: Any, question: str = QUESTION, config: Any = None) -> list[BaseMessage]:
    """Return the messages after a call of an agent."""
    turns: list[BaseMessage] = agent.invoke({"messages": [("user", question)]}, config)["messages"]
    return turns


def said_of(message: BaseMessage) -> dict[str, Any]:
    metadata: dict[str, Any] = message.response_metadata["lorebind"]
    return metadata


def test_the_model_sees_passages_and_the_state_does_not(tmp_path: Path) -> None:
    """The passages precede the question in the model call, and are in no message afterwards."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("With the rotate command [1].")])
        messages = ask(create_agent(model, [], middleware=[project.middleware()]))
    ((message,),) = model.heard
    assert [passage.content for passage in parse(str(message.text))] == [KEYS, OLD]
    assert str(message.text).endswith(f"\n\n{QUESTION}")
    assert [message.text for message in messages] == [QUESTION, "With the rotate command [1]."]


def test_the_answer_says_what_it_cites(tmp_path: Path) -> None:
    """Citations are checked, unknown markers are reported, and no passage is stored with them."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("By command [1], as is known [9].")])
        *_, answer = ask(create_agent(model, [], middleware=[project.middleware()]))
    metadata = said_of(answer)
    assert metadata["verdict"] == "hit"
    assert [citation["uri"] for citation in metadata["citations"]] == ["guide/keys.md"]
    assert metadata["unknown_markers"] == ["[9]"]
    assert KEYS not in str(metadata)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_checkpoint_holds_no_passage(tmp_path: Path, way: str) -> None:
    """A checkpointer stores no text of a passage."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("With the command [1].")] * 2)
        saver = InMemorySaver()
        agent: Any = create_agent(model, [], middleware=[project.middleware()], checkpointer=saver)
        for _ in range(2):
            if way == "invoke":
                ask(agent, config=THREAD)
            else:
                asyncio.run(agent.ainvoke({"messages": [("user", QUESTION)]}, THREAD))
        stored = str([saver.storage, saver.writes, saver.blobs])
        assert QUESTION in stored
        assert "ninety days" not in stored
        assert "when they leak" not in stored


def test_a_tools_turn_searches_once(tmp_path: Path) -> None:
    """During tool calls, the passages stay before the question, and there is no further search."""
    with shop(tmp_path) as project:
        searched: list[str] = []
        project.knowledge.events.subscribe(Searches(searched))
        called = AIMessage(
            "", tool_calls=[{"name": "weather", "args": {"place": "Rome"}, "id": "1"}]
        )
        model = Agentic(says=[called, AIMessage("It rains; use the command [1].")])
        ask(create_agent(model, [weather], middleware=[project.middleware()]))
    first, second = model.heard
    assert first[0].text == second[0].text
    assert [message.type for message in second] == ["human", "ai", "tool"]
    assert len(searched) == 1


class Searches(Extension):
    """Records each search."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def retrieval_started(self, event: Event) -> None:
        self.seen.append(event.kb_id)


def test_the_next_question_is_searched_for(tmp_path: Path) -> None:
    """Every message of the user gets its own passages, and earlier messages lose theirs."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("ok"), AIMessage("ok")])
        agent = create_agent(
            model, [], middleware=[project.middleware("rules")], checkpointer=InMemorySaver()
        )
        ask(agent, config=THREAD)
        ask(agent, "What covers alpine chalets?", THREAD)
    before, _, now = model.heard[1]
    assert before.text == QUESTION
    assert "Blankets of powder" in now.text


def test_an_agents_own_bindings(tmp_path: Path) -> None:
    """`agent=` adds the agent's bindings to the project's, with its settings."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("ok")])
        ask(create_agent(model, [], middleware=[project.middleware(agent="clerk")]))
    passages = parse(str(model.heard[0][-1].text))
    assert [passage.content for passage in passages] == [KEYS, OLD, RULES]
    assert [passage.marker for passage in passages] == ["[1]", "[2]", "[3]"]


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        (None, "Be short."),
        ("Speak French.", "Be short.\n\nSpeak French."),
        (SystemMessage([{"type": "text", "text": "Speak French."}]), "Be short.\n\nSpeak French."),
    ],
)
@pytest.mark.parametrize("call", ["invoke", "ainvoke", "stream"])
def test_the_agents_instructions_come_first(
    tmp_path: Path, prompt: Any, sent: str, call: str
) -> None:
    """Each model call gets the declared instructions once, before the caller's system prompt."""
    with shop(tmp_path) as project:
        called = AIMessage("", tool_calls=[{"name": "weather", "args": {"place": "A"}, "id": "1"}])
        model = Agentic(says=[called, AIMessage("ok")])
        middleware = [project.middleware(agent="clerk")]
        agent: Any = create_agent(model, [weather], system_prompt=prompt, middleware=middleware)
        inputs = {"messages": [("user", QUESTION)]}
        if call == "ainvoke":
            asyncio.run(agent.ainvoke(inputs))
        else:
            list(getattr(agent, call)(inputs))
    assert [[str(message.text) for message in heard[:1]] for heard in model.heard] == [[sent]] * 2
    assert all([message.type for message in heard].count("system") == 1 for heard in model.heard)


def test_a_message_without_text_gets_the_instructions(tmp_path: Path) -> None:
    """Where nothing is searched for, the model still gets the instructions."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("ok")])
        ask(create_agent(model, [], middleware=[project.middleware(agent="clerk")]), " ")
    assert [message.text for message in model.heard[0]] == ["Be short.", " "]


def test_a_miss_leaves_the_tools_alone(tmp_path: Path) -> None:
    """Without `tool_fallback`, the model gets the fallback text, and keeps exactly its tools."""
    with shop(tmp_path, guide=MISS) as project:
        model = Agentic(says=[AIMessage("I do not know.")])
        *_, answer = ask(create_agent(model, [weather], middleware=[project.middleware()]))
    assert model.heard[0][0].text == f"Nothing is known of this.\n\n{QUESTION}"
    assert model.offered == [(["weather"], None)]
    assert said_of(answer)["verdict"] == "fallback"


@pytest.mark.parametrize(("way", "choice"), [("auto", None), ("escalate", "any")])
def test_a_miss_may_let_the_agent_search(tmp_path: Path, way: str, choice: str | None) -> None:
    """`auto` offers a search tool; `escalate` requires its use until it has answered."""
    with shop(tmp_path, guide=f", min_score: 1, tool_fallback: {way}") as project:
        says = [calls("keys that leak", tool="search_guide"), AIMessage("Nothing.")]
        model = Agentic(says=says)
        middleware = project.middleware()
        *_, answer = ask(create_agent(model, [weather], middleware=[middleware]))
    assert model.offered == [
        (["search_guide", "weather"], choice),
        (["search_guide", "weather"], None),
    ]
    assert said_of(answer)["verdict"] == "escalated"


def test_a_weak_match_may_let_the_agent_search_too(tmp_path: Path) -> None:
    """Weak passages are given and marked as weak, and the tool is offered in addition."""
    with shop(tmp_path, guide=", tool_fallback: auto") as project:
        model = Agentic(says=[AIMessage("I do not know.")])
        agent = create_agent(model, [weather], middleware=[project.middleware()])
        *_, answer = ask(agent, "quantum chromodynamics lattice gluon")
    assert WEAK in str(model.heard[0][0].text)
    assert model.offered == [(["search_guide", "weather"], None)]
    assert said_of(answer)["verdict"] == "escalated"


def test_a_hit_hides_the_tool_of_a_miss(tmp_path: Path) -> None:
    """After a hit, the agent has only its own tools."""
    with shop(tmp_path, guide=", tool_fallback: auto") as project:
        model = Agentic(says=[AIMessage("ok [1]")])
        ask(create_agent(model, [weather], middleware=[project.middleware()]))
    assert model.offered == [(["weather"], None)]


def test_numbers_mean_one_passage_in_a_conversation(tmp_path: Path) -> None:
    """Passages of the middleware and of concurrent and later tool calls never share a number."""
    with shop(tmp_path) as project:
        says = [
            calls("rules of access", "alpine chalets", tool="search_rules"),
            calls("who may", tool="search_rules"),
            AIMessage("See [1], [3] and [8]; but [99]."),
            AIMessage("And again [1], [20]."),
        ]
        model = Agentic(says=says)
        agent = create_agent(
            model,
            [project.tool("rules")],
            middleware=[project.middleware("guide")],
            checkpointer=InMemorySaver(),
        )
        messages = ask(agent, config=THREAD)
        marks = [hit.marker for message in model.heard[2] for hit in parse(str(message.text))]
        assert len(marks) == len(set(marks)) == 8
        cited = said_of(messages[-1])
        assert [citation["marker"] for citation in cited["citations"]] == ["[1]", "[3]", "[8]"]
        assert cited["unknown_markers"] == ["[99]"]
        ask(agent, "What of the old keys?", THREAD)
        again = [hit.marker for message in model.heard[3] for hit in parse(str(message.text))]
        assert len(again) == len(set(again)) == 8


def test_a_tenant_sees_its_own(tmp_path: Path) -> None:
    """A call for another tenant gets none of this tenant's passages."""
    with shop(tmp_path) as project:
        with tenant("acme"):
            (tmp_path / "guide/keys.md").write_text("Acme rotates the keys by hand.\n")
            project.ingest("guide")
            model = Agentic(says=[AIMessage("ok")])
            ask(create_agent(model, [], middleware=[project.middleware()]))
        assert "by hand" in model.heard[0][0].text
        model = Agentic(says=[AIMessage("ok")])
        ask(create_agent(model, [], middleware=[project.middleware()]))
        assert "by hand" not in model.heard[0][0].text


@pytest.mark.parametrize(
    ("policy", "text"), [("fallback", f"Ask again later.\n\n{QUESTION}"), ("skip", QUESTION)]
)
def test_an_outage_follows_on_error(tmp_path: Path, policy: str, text: str) -> None:
    """With `on_error`, an agent continues without its knowledge, and the model is notified."""
    words = f", fallback: Ask again later., on_error: {policy}"
    with shop(tmp_path, guide=words) as project:
        break_index(tmp_path)
        model = Agentic(says=[AIMessage("ok")])
        *_, answer = ask(create_agent(model, [], middleware=[project.middleware()]))
    assert model.heard[0][0].text == text
    assert said_of(answer)["verdict"] == "error"


def test_an_outage_is_an_error_otherwise(tmp_path: Path) -> None:
    """Without `on_error` the agent fails before its model is asked."""
    with shop(tmp_path) as project:
        break_index(tmp_path)
        model = Agentic(says=[AIMessage("ok")])
        with pytest.raises(StoreError):
            ask(create_agent(model, [], middleware=[project.middleware()]))
    assert model.heard == []


def break_index(root: Path) -> None:
    """Damage the file that holds the vectors."""
    for file in (root / ".lorebind").glob("*.db*"):
        file.write_bytes(b"no database" * 1000)


def test_pictures_beside_the_question_stay(tmp_path: Path) -> None:
    """All parts of a multimodal message are kept, after the passages."""
    picture = {"type": "image", "url": "https://example.com/keys.png"}
    message = HumanMessage([{"type": "text", "text": QUESTION}, picture])
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("ok")])
        create_agent(model, [], middleware=[project.middleware()]).invoke({"messages": [message]})
    content = model.heard[0][0].content
    assert isinstance(content, list)
    assert content[1:] == message.content
    assert KEYS in content[0]["text"]  # type: ignore[index]  # a text part


def test_nothing_asked_is_nothing_searched(tmp_path: Path) -> None:
    """A conversation without text from the user is passed to the model unchanged."""
    with shop(tmp_path) as project:
        model = Agentic(says=[AIMessage("ok")])
        agent: Any = create_agent(model, [], middleware=[project.middleware()])
        agent.invoke({"messages": [("assistant", "Hello!")]})
    assert [message.text for message in model.heard[0]] == ["Hello!"]


def test_many_agents_at_once(tmp_path: Path) -> None:
    """Threads that share a project each get the passages of their own question."""
    with shop(tmp_path) as project:
        agent = create_agent(ExtractiveChatModel(), [], middleware=[project.middleware("rules")])
        answers: dict[int, str] = {}

        def run(number: int) -> None:
            question = "What covers alpine chalets?" if number % 2 else "Who may rotate the keys?"
            answers[number] = str(ask(agent, question)[-1].text)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number in range(50):
        assert ("powder" if number % 2 else "access rules") in answers[number]
