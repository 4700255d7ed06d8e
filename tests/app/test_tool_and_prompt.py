"""Knowledge as a tool, and as a prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableParallel
from langchain_core.utils.function_calling import convert_to_openai_tool

from lorebind import EmbedderError, Project, UsageError
from lorebind_config.declarations.retrieval import NOTHING_FOUND
from lorebind_prompts import ExtractiveChatModel, parse

from .shop import KEYS, OLD, QUESTION, RULES, shop

FAILING = "tests.bindings.helpers:FailingQuestions"


def contents(text: Any) -> list[str]:
    return [passage.content for passage in parse(str(text))]


def test_what_a_model_is_told_of_a_tool(tmp_path: Path) -> None:
    """A tool's name has the ids, its description content and citing; it has one argument."""
    with shop(tmp_path) as project:
        function = convert_to_openai_tool(project.tool("guide", "rules"))["function"]
    assert function["name"] == "search_guide_rules"
    assert function["description"].startswith(
        "How keys are handled. Rights of each role. Gives passages"
    )
    assert list(function["parameters"]["properties"]) == ["query"]
    assert function["parameters"]["required"] == ["query"]


def test_a_tool_gives_a_block_and_its_citations(tmp_path: Path) -> None:
    """The model reads the passages; the program finds the citations next to them."""
    with shop(tmp_path) as project:
        result = project.tool("guide").invoke(
            {"name": "search_guide", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
        )
    assert contents(result.content) == [KEYS, OLD]
    assert result.artifact["verdict"] == "hit"
    first = result.artifact["citations"][0]
    assert (first["marker"], first["uri"], first["content"]) == ("[1]", "guide/keys.md", KEYS)


def test_a_tool_in_an_asynchronous_loop(tmp_path: Path) -> None:
    """The tool's own coroutine returns the same."""
    with shop(tmp_path) as project:
        tool = project.tool("guide", name="handbook", description="The handbook.")
        assert asyncio.run(tool.ainvoke({"query": QUESTION})) == tool.invoke({"query": QUESTION})
        assert (tool.name, tool.description.split(" Gives")[0]) == ("handbook", "The handbook.")


def test_a_tool_that_finds_nothing_says_so(tmp_path: Path) -> None:
    """A miss is a text for the model, not an empty text."""
    with shop(tmp_path, guide=", min_score: 1") as project:
        text = project.tool().invoke({"query": "Nothing of the kind?"})
    assert text == NOTHING_FOUND


def test_a_tools_budget(tmp_path: Path) -> None:
    """`max_tokens` limits the passages of a call."""
    with shop(tmp_path) as project:
        text = project.tool("guide", "rules", max_tokens=70).invoke({"query": QUESTION})
    assert 1 <= len(contents(text)) < 4


def test_a_name_that_models_accept(tmp_path: Path) -> None:
    """Providers accept letters, digits, '-' and '_', at most 64 of them."""
    long = "a.b-" + "c" * 80
    kb = {"id": long, "sources": [{"type": "inline", "documents": [{"id": "a", "text": "a"}]}]}
    with Project.build({"name": "p", "knowledge_bases": [kb]}, root=tmp_path) as project:
        assert project.tool(long).name == "search_a_b-" + "c" * 53


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_an_outage_in_a_tool(tmp_path: Path, policy: str) -> None:
    """An outage is raised; or, if `on_error` says so, the model is notified."""
    yaml = (
        "name: shop\nvector_dbs: [{ id: file, type: sqlite }]\n"
        f"embedders: [{{ id: e, provider: langchain, class: '{FAILING}' }}]\n"
        "knowledge_bases:\n  - id: guide\n"
        "    sources: [{ type: markdown_glob, path: 'guide/*.md' }]\n"
        f"    retrieval: {{ strategy: similarity, on_error: {policy} }}\n"
        "  - id: rules\n    sources: [{ type: markdown_glob, path: 'rules/*.md' }]\n"
    )
    with shop(tmp_path, files={"lorebind.yaml": yaml}) as project:
        tool = project.tool("guide")
        if policy == "fail":
            with pytest.raises(EmbedderError, match="down"):
                tool.invoke({"query": QUESTION})
        else:
            text = tool.invoke({"query": QUESTION})
            assert text == "The knowledge of guide cannot be searched just now."


@pytest.mark.parametrize(
    "value",
    [
        QUESTION,
        {"question": QUESTION},
        HumanMessage(QUESTION),
        [("user", QUESTION)],
        {"messages": [HumanMessage(QUESTION)]},
        ChatPromptTemplate.from_messages([("user", "{q}")]).invoke({"q": QUESTION}),
    ],
    ids=["text", "mapping", "message", "messages", "messages in a mapping", "prompt value"],
)
def test_whatever_holds_a_question(tmp_path: Path, value: Any) -> None:
    """Each input results in the same message: the passages, then the question."""
    with shop(tmp_path) as project:
        (message,) = project.prompt("guide").invoke(value).to_messages()
    assert contents(message.text) == [KEYS, OLD]
    assert str(message.text).endswith(f"\n\n{QUESTION}")


def texts(value: PromptValue) -> list[tuple[str, str]]:
    return [(message.type, str(message.text)) for message in value.to_messages()]


def test_instructions_history_and_template(tmp_path: Path) -> None:
    """A prompt may have a system message, a history, and a custom template."""
    with shop(tmp_path, guide=", inject_as: handbook") as project:
        prompt = project.prompt(
            template="Handbook:\n{{ .handbook }}\n\n{{ .question }} In {{ .language }}!",
            instructions="Be kind.",
        )
        inputs = {"question": QUESTION, "language": "French", "history": [AIMessage("Hello.")]}
        system, before, question = texts(prompt.invoke(inputs))
    assert (system, before) == (("system", "Be kind."), ("ai", "Hello."))
    assert question[1].startswith("Handbook:\n<knowledge id=")
    assert question[1].endswith(f"\n\n{QUESTION} In French!")
    assert contents(question[1]) == [KEYS, OLD]


def test_documents_of_any_retriever(tmp_path: Path) -> None:
    """Given documents are used as they are, without a search."""
    documents = [
        Document("From elsewhere.", metadata={"source": "wiki/a", "score": 0.2}),
        Document("Of no score."),
    ]
    with shop(tmp_path) as project:
        value = project.prompt("guide").invoke({"question": QUESTION, "documents": documents})
    ((_, text),) = texts(value)
    assert contents(text) == ["Of no score.", "From elsewhere."]
    assert "[2] wiki/a" in text


def test_an_agents_prompt(tmp_path: Path) -> None:
    """`agent=` adds its instructions and its bindings."""
    with shop(tmp_path) as project:
        (_, system), (_, question) = texts(project.prompt(agent="clerk").invoke(QUESTION))
    assert system == "Be short."
    assert contents(question) == [KEYS, OLD, RULES]


@pytest.mark.parametrize("score", [None, "high", float("nan"), float("inf")])
def test_a_score_that_is_none(tmp_path: Path, score: Any) -> None:
    """A document without a usable score counts as much as the best one."""
    documents = [
        Document("Scored.", metadata={"score": 0.9, "source": None}),
        Document("Odd.", metadata={"score": score}),
    ]
    with shop(tmp_path) as project:
        value = project.prompt("guide").invoke({"question": QUESTION, "documents": documents})
    assert contents(texts(value)[0][1]) == ["Odd.", "Scored."]


@pytest.mark.parametrize("value", [{"qestion": QUESTION}, {"question": 3}, 3, [], None, b"keys"])
def test_what_holds_no_question(tmp_path: Path, value: Any) -> None:
    """Another key, and a value that is not text, are refused with the expected form."""
    with shop(tmp_path) as project, pytest.raises(UsageError, match=r"question|user's"):
        project.prompt("guide").invoke(value)


@pytest.mark.parametrize(
    "value",
    [
        {"messages": QUESTION},
        {"question": QUESTION, "history": "Hello."},
        {"question": QUESTION, "history": [3]},
        {"question": QUESTION, "history": [{"text": "Hello."}]},
        {"question": QUESTION, "documents": "Rotate them."},
        {"question": QUESTION, "documents": ["Rotate them."]},
    ],
    ids=str,
)
def test_what_is_no_message_and_no_document(tmp_path: Path, value: Any) -> None:
    """A text instead of a list, and a list of another type, are refused by name."""
    with shop(tmp_path) as project, pytest.raises(UsageError, match="must be a list of LangChain"):
        project.prompt("guide").invoke(value)


def test_a_history_of_pairs_and_mappings(tmp_path: Path) -> None:
    """The history may have any form that LangChain accepts for messages."""
    before = [("user", "Hello!"), {"role": "assistant", "content": "Hello."}]
    with shop(tmp_path) as project:
        value = project.prompt("guide").invoke({"question": QUESTION, "history": before})
    assert texts(value)[:2] == [("human", "Hello!"), ("ai", "Hello.")]


def test_numbers_go_on_from_those_of_a_tool(tmp_path: Path) -> None:
    """In a conversation with passages from a tool, a prompt's passages have other numbers."""
    call = {"name": "search_guide", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    with shop(tmp_path) as project:
        result = project.tool("guide").invoke(call)
        value = project.prompt("guide").invoke([("user", "Keys?"), result, ("user", QUESTION)])
    marks = [hit.marker for message in value.to_messages() for hit in parse(str(message.text))]
    assert marks == ["[1]", "[2]", "[3]", "[4]"]


def test_a_template_that_cannot_be(tmp_path: Path) -> None:
    """A malformed template is refused immediately; one with unknown names, when it is used."""
    with shop(tmp_path) as project:
        with pytest.raises(UsageError, match="not closed"):
            project.prompt("guide", template="{{ .question")
        prompt = project.prompt("guide", template="{{ .question }} In {{ .langage }}!")
        with pytest.raises(UsageError, match=r"'langage'.*language"):
            prompt.invoke({"question": QUESTION, "language": "French"})


async def test_a_prompt_among_other_runnables(tmp_path: Path) -> None:
    """Streams, branches, retries, fallbacks and tags work as with any other Runnable."""
    project = await asyncio.to_thread(shop, tmp_path)
    seen: list[Any] = []

    class Seen(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
            seen.append((kwargs["name"], kwargs["tags"]))

    async with project:
        prompt = project.prompt("guide")
        model = ExtractiveChatModel()
        whole = (await (prompt | model).ainvoke(QUESTION)).text
        assert "".join([part.text async for part in (prompt | model).astream(QUESTION)]) == whole
        both = RunnableParallel(one=prompt | model, two=prompt.with_fallbacks([prompt]) | model)
        assert {value.text for value in (await both.ainvoke(QUESTION)).values()} == {whole}
        config: Any = {"tags": ["mine"], "callbacks": [Seen()]}
        await prompt.with_retry().with_config(config).ainvoke(QUESTION)
        assert ("KnowledgePrompt", ["mine"]) in seen
        assert "KnowledgePrompt" in (prompt | model).get_graph().draw_mermaid()
        assert KEYS not in repr(prompt | model)


def test_a_batch(tmp_path: Path) -> None:
    """LangChain's batch methods work: each of many concurrent calls gets its own passages."""
    with shop(tmp_path) as project:
        prompt = project.prompt("guide", "rules")
        questions = [QUESTION, "What covers alpine chalets?"]
        first, second = (texts(value)[0][1] for value in prompt.batch(questions))
        assert KEYS in first
        assert "Blankets of powder" in second
        left, right = asyncio.run(prompt.abatch(questions))
        assert [texts(left)[0][1], texts(right)[0][1]] == [first, second]
