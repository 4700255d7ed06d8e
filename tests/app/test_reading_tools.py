"""Tools with which an agent lists documents, finds exact words, and fetches lines."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind import (
    MissingDependencyError,
    NotFoundError,
    NotIngestedError,
    Project,
    UsageError,
    existing,
    tenant,
)
from lorebind.plain_data import as_data, from_data
from lorebind_bindings import event_schema
from lorebind_knowledge.documents.finding import FindResult
from lorebind_knowledge.documents.reading import DocumentLines
from lorebind_prompts import EstimateCounter, parse
from tests.bindings.helpers import PARTS, Agentic, write

from .shop import FILES, KEYS, OLD, QUESTION, RULES, shop

NOTES = "---\nauthor: Ann\n---\n# Notes\n\n" + "\n\n".join(
    f"## Part {part}\n\n{'All of it is long. ' * 12}\nCode {part}00 ends the part."
    for part in range(9)
)
PROJECT = f"""\
name: notes
{PARTS}
knowledge_bases:
  - id: notes
    sources: [{{ type: markdown_glob, path: "notes/*.md" }}]
    chunking: {{ size: 200, overlap: 40 }}
"""


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Project]:
    files = {"lorebind.yaml": PROJECT, "notes/a.md": NOTES, "notes/b.md": "# Über\n50%_off\n"}
    with Project.load(write(tmp_path, files), environ={}) as project:
        project.ingest("notes")
        yield project


def called(project: Project, name: str, /, *kb_ids: str, **args: Any) -> ToolMessage:
    """Return the result of a tool."""
    (tool,) = [tool for tool in project.tools(*kb_ids) if tool.name == name]
    message = tool.invoke({"name": name, "args": args, "id": "1", "type": "tool_call"})
    assert isinstance(message, ToolMessage)
    assert asyncio.run(tool.ainvoke(args)) == message.content
    return message


def test_fetched_lines_are_those_of_the_file(notes: Project) -> None:
    """Each line of a document comes back once; only those without any chunk are a gap."""
    lines = notes.knowledge_base("notes").fetch("notes/a.md")
    written = NOTES.split("\n")
    assert lines.gaps == [(1, 3)]
    assert [number for number, _ in lines.lines] == list(range(4, len(written) + 1))
    assert all(text.strip() == written[number - 1].strip() for number, text in lines.lines)
    assert lines.text.startswith("(lines 1-3 are not in the index)\n# Notes\n\n## Part 0\n")
    assert from_data(DocumentLines, as_data(lines)) == lines
    assert lines.document.metadata["author"] == "Ann"
    assert lines.document.lines == len(written)


def test_some_lines_are_fetched(notes: Project) -> None:
    """The range includes both ends; a range outside of the document is an error."""
    kb = notes.knowledge_base("notes")
    some = kb.fetch(kb.documents()[0].id, first_line=9, last_line=11)
    assert some.text == "Code 000 ends the part.\n\n## Part 1"
    with pytest.raises(UsageError, match="has lines 1-2, but lines 3-end were requested"):
        kb.fetch("notes/b.md", first_line=3)
    with pytest.raises(NotFoundError, match=r"no document 'notes/c.md'; did you mean"):
        kb.fetch("notes/c.md")


@pytest.mark.parametrize(
    ("pattern", "regex", "numbers"),
    [
        ("CODE 300 ends", False, [24]),
        ("über", False, [1]),
        ("50%_O", False, [2]),
        ("50%aO", False, []),
        ("part [12]$", True, [11, 16]),
        ("part [12]$", False, []),
    ],
)
def test_what_is_found(notes: Project, pattern: str, regex: bool, numbers: list[int]) -> None:
    """Words are found as they stand, in any case of letters; expressions match within a line."""
    found = notes.knowledge_base("notes").find(pattern, regex=regex)
    assert [number for passage in found.passages for number, _ in passage.lines] == numbers
    assert from_data(FindResult, as_data(found)) == found
    assert not found.cut


def test_a_find_is_limited(notes: Project) -> None:
    """A line counts once, although chunks overlap, and a cut result says so."""
    kb = notes.knowledge_base("notes")
    every = kb.find("All of it is long")
    assert len({number for passage in every.passages for number, _ in passage.lines}) == 9
    first = kb.find("All of it is long", limit=2)
    assert (len(first.passages), first.cut) == (2, "only the first 2 passages are given")
    assert not kb.find("All of it is long", document="notes/b.md").passages
    with pytest.raises(NotFoundError):
        kb.find("long", document="notes/c.md")


@pytest.mark.parametrize("hostile", ["(a+)+$", "(a|aa)+$", "(.*a){40}$", "(a?){500}a{500}"])
def test_a_hostile_expression_ends(tmp_path: Path, hostile: str) -> None:
    """An expression that takes years in a backtracking engine takes linear time."""
    files = {"lorebind.yaml": PROJECT, "notes/a.md": "a" * 4000 + "!\n"}
    with Project.load(write(tmp_path, files), environ={}) as project:
        project.ingest("notes")
        project.knowledge_base("notes").find(hostile, regex=True)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", r"not a regular expression of RE2: missing \)"),
        (r"(a)\1", "references to groups are not supported"),
        ("(?=a)", "look-around"),
        ("\ud800", "not a regular expression|^$"),
        (" ", "the pattern is empty"),
        ("a" * 1001, "1001 characters"),
    ],
)
def test_a_wrong_pattern(notes: Project, pattern: str, message: str) -> None:
    """A mistake in an expression is an error that says what is wrong."""
    if pattern == "\ud800":  # half of a character is found nowhere
        assert not notes.knowledge_base("notes").find(pattern, regex=True).passages
        return
    with pytest.raises(UsageError, match=message):
        notes.knowledge_base("notes").find(pattern, regex=True)


def test_nothing_is_ingested(tmp_path: Path) -> None:
    """An empty index is an error, as for a search, and no empty answer."""
    with Project.load(write(tmp_path, {"lorebind.yaml": PROJECT}), environ={}) as project:
        kb = project.knowledge_base("notes")
        assert kb.readable_documents() == []
        for read in (lambda: kb.find("x"), lambda: kb.fetch("x")):
            with pytest.raises(NotIngestedError, match="nothing has been ingested"):
                read()


def test_the_tools_of_a_project(tmp_path: Path) -> None:
    """They have fixed names, and each result numbers its passages."""
    with shop(tmp_path) as project:
        names = [tool.name for tool in project.tools("guide", "rules")]
        assert names == ["search", "list_documents", "find", "fetch"]
        listed = called(project, "list_documents", "guide").text.splitlines()[1:]
        assert [json.loads(line)["uri"] for line in listed] == ["guide/keys.md", "guide/old.md"]
        found = called(project, "find", "guide", "rules", pattern="rotate the keys")
        assert [passage.content for passage in parse(found.text)] == [f"1: {KEYS}", f"1: {RULES}"]
        assert [cited["marker"] for cited in found.artifact["citations"]] == ["[1]", "[2]"]
        assert found.artifact["verdict"] == "hit"
        fetched = called(project, "fetch", "guide", document="guide/old.md")
        assert [passage.content for passage in parse(fetched.text)] == [f"1: {OLD}"]
        assert fetched.artifact["citations"][0]["label"] == "guide/old.md, line 1"


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("fetch", {"document": "guide/none.md"}, "no document 'guide/none.md' in guide, rules"),
        ("list_documents", {}, "set knowledge_base to one of: guide, rules"),
        ("list_documents", {"knowledge_base": "guid"}, "no knowledge base 'guid' here; did you"),
        ("fetch", {"document": "x", "knowledge_base": "guide"}, "has no document 'x'; known:"),
        ("fetch", {"document": "x", "first_line": 0}, "first_line: Input should be greater"),
        ("fetch", {}, "document: Field required"),
        ("find", {"pattern": "x", "colour": 1}, "colour: Extra inputs are not permitted"),
        ("find", {"pattern": ""}, "the pattern is empty"),
        ("find", {"pattern": "("}, "Nothing was found"),
        ("find", {"pattern": "(", "regex": True}, "not a regular expression"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, name: str, args: dict[str, Any], text: str) -> None:
    """A wrong call does not raise an error: the model is told what to do."""
    with shop(tmp_path) as project:
        message = called(project, name, "guide", "rules", **args)
    assert text in message.text
    assert message.artifact["citations"] == []


def test_a_document_tells_its_knowledge_base(tmp_path: Path) -> None:
    """The model names the knowledge base only if several have a document of that uri."""
    with shop(tmp_path) as project:
        fetched = called(project, "fetch", "guide", "rules", document="guide/old.md")
        assert [passage.content for passage in parse(fetched.text)] == [f"1: {OLD}"]
        found = called(project, "find", "guide", "rules", document="rules/keys.md", pattern="keys")
        assert [passage.content for passage in parse(found.text)] == [f"1: {RULES}"]
        for kb_id in ("guide", "rules"):
            project.add_documents(kb_id, [{"id": "both", "text": f"Of {kb_id}."}])
        asked = called(project, "fetch", "guide", "rules", document="added:both")
        assert "set knowledge_base to one of: guide, rules" in asked.text


@pytest.mark.parametrize("budget", [160, 200, 400])
def test_a_result_keeps_to_its_budget(notes: Project, budget: int) -> None:
    """A cut result says how to get the rest, and following it gives every line once."""
    tools = {tool.name: tool for tool in notes.tools("notes", max_tokens=budget)}
    count = EstimateCounter().count
    found = tools["find"].invoke({"pattern": "All of it is long"})
    assert "write a longer pattern, or name a document" in found
    assert count(found) <= budget
    first, seen = 1, list[int]()
    while True:
        text = tools["fetch"].invoke({"document": "notes/a.md", "first_line": first})
        assert count(text) <= budget
        seen += [int(number) for number in re.findall(r"^  (\d+):", text, re.MULTILINE)]
        following = re.search(r"set first_line to (\d+)", text)
        if not following:
            break
        first = int(following[1])
    assert seen == list(range(4, len(NOTES.split("\n")) + 1))


def test_a_list_has_pages(tmp_path: Path) -> None:
    """Every page names the document after which the next one begins."""
    files = {"lorebind.yaml": PROJECT} | {f"notes/{n:02}.md": f"Text {n}" for n in range(60)}
    with Project.load(write(tmp_path, files), environ={}) as project:
        project.ingest("notes")
        (tool,) = [tool for tool in project.tools("notes") if tool.name == "list_documents"]
        uris, after = list[str](), None
        while True:
            *lines, last = tool.invoke({"after": after}).splitlines()[1:]
            following = re.fullmatch(r"There are more; .* set after to (.*)\.", last)
            uris += [json.loads(line)["uri"] for line in [*lines, *([] if following else [last])]]
            if not following:
                break
            after = json.loads(following[1])
    assert uris == [f"notes/{n:02}.md" for n in range(60)]


def test_filters_hide_documents(tmp_path: Path) -> None:
    """The tools of a binding read what its filter lets pass, and name nothing else."""
    with shop(tmp_path, guide=", filters: { uri: guide/keys.md }") as project:
        assert "old.md" not in called(project, "list_documents").text
        assert "Nothing was found" in called(project, "find", pattern="Old keys").text
        for name, args in (("fetch", {}), ("find", {"pattern": "keys"})):
            text = called(project, name, document="guide/old.md", **args).text
            assert text.endswith(
                "'guide/old.md'; did you mean 'guide/keys.md'; known: guide/keys.md"
            )


def test_tenants_read_their_own(tmp_path: Path) -> None:
    """A document of another tenant is not found by any tool."""
    files = FILES | {"lorebind.yaml": PROJECT, "notes/a.md": "A secret."}
    with Project.load(write(tmp_path, files), environ={}) as project:
        with tenant("acme"):
            project.ingest("notes")
            tools = {tool.name: tool for tool in project.tools("notes")}
            assert "secret" in tools["fetch"].invoke({"document": "notes/a.md"})
        with tenant("globex"):
            assert tools["list_documents"].invoke({}) == "notes has no documents."
            with pytest.raises(NotIngestedError):
                tools["find"].invoke({"pattern": "secret"})
            with pytest.raises(NotIngestedError):
                tools["fetch"].invoke({"document": "notes/a.md"})


def test_a_store_of_others_is_only_searched(tmp_path: Path) -> None:
    """Lorebind has no lines of what another program has stored."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document("Foreign words.", metadata={"source": "a"})])
    with Project.build(vector_store=existing(store), root=tmp_path) as project:
        assert [tool.name for tool in project.tools("documents")] == ["search"]


def test_deep_agents_are_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without their package, the error says how to install it."""
    monkeypatch.setitem(sys.modules, "deepagents.backends.protocol", None)
    monkeypatch.delitem(sys.modules, "lorebind_bindings.langchain.deep_agents", raising=False)
    with (
        shop(tmp_path) as project,
        pytest.raises(MissingDependencyError, match="pip install deepagents"),
    ):
        project.at("guide").backend()


READS = f"""\
name: shop
{PARTS}
knowledge_bases:
  - id: guide
    description: How keys are handled.
    sources: [{{ type: markdown_glob, path: "guide/*.md" }}]
  - id: rules
    sources: [{{ type: markdown_glob, path: "rules/*.md" }}]
knowledge: [{{ id: guide, top_k: 1, read_tools: [find] }}, {{ id: rules, top_k: 1 }}]
agents:
  - {{ id: clerk, read_tools: [list_documents, fetch] }}
  - {{ id: plain }}
  - {{ id: tooled, knowledge: [], tools: [{{ knowledge: rules, read_tools: [find] }}] }}
workflows:
  - id: reply
    input: {{ question: {{ type: string }} }}
    tasks: [{{ id: say, agent: clerk, prompt: "{{{{ .workflow.input.question }}}}" }}]
"""


def test_an_agent_reads(tmp_path: Path) -> None:
    """`read_tools` of bindings and agents add up, and numbers continue those of the passages."""
    asks = [
        {"name": "find", "args": {"pattern": "when they leak"}, "id": "1"},
        {
            "name": "fetch",
            "args": {"document": "rules/snow.md", "knowledge_base": "rules"},
            "id": "2",
        },
    ]
    with shop(tmp_path, files={"lorebind.yaml": READS}) as project:
        model = Agentic(says=[AIMessage("", tool_calls=asks), AIMessage("By [1], [3] and [23].")])
        answer = project.generate(QUESTION, agent="clerk", model=model)
        assert model.offered[0][0] == ["list_documents", "find", "fetch"]
        assert [passage.marker for passage in parse(str(model.heard[0][-1].text))] == ["[1]", "[2]"]
        cited = [(citation.marker, citation.uri) for citation in answer.citations]
        assert cited[1:] == [("[3]", "guide/old.md"), ("[23]", "rules/snow.md")]
        assert not answer.unknown_markers
        bound = Agentic(says=[AIMessage("Yes.")])
        project.generate(QUESTION, agent="plain", model=bound)
        assert bound.offered[0][0] == ["find"]
        tooled = Agentic(says=[AIMessage("Yes.")])
        project.generate(QUESTION, agent="tooled", model=tooled)
        assert tooled.offered[0][0] == ["search_rules", "find"]
        (knowledge_base,) = [tool for tool in project.tools() if tool.name == "find"]
        assert "guide (How keys are handled.); rules" in str(knowledge_base.args)


def test_read_tools_keep_to_the_filters_of_a_call(tmp_path: Path) -> None:
    """A filter that the caller sets holds for the tools of the answer too."""
    asks = [{"name": "find", "args": {"pattern": "keys"}, "id": "1"}]
    with shop(tmp_path, files={"lorebind.yaml": READS}) as project:
        model = Agentic(says=[AIMessage("", tool_calls=asks), AIMessage("Yes.")])
        project.generate(
            QUESTION, "guide", model=model, read_tools=["find"], filters={"uri": "guide/old.md"}
        )
        (reply,) = [message for message in model.heard[-1] if isinstance(message, ToolMessage)]
    assert [passage.content for passage in parse(reply.text)] == [f"1: {OLD}"]


def test_middleware_brings_the_tools(tmp_path: Path) -> None:
    """An agent of `create_agent` has them beside the passages, and cites what they return."""
    asks = [{"name": "find", "args": {"pattern": "when they leak"}, "id": "1"}]
    with shop(tmp_path, files={"lorebind.yaml": READS}) as project:
        model = Agentic(says=[AIMessage("", tool_calls=asks), AIMessage("By [3].")])
        agent = create_agent(model, middleware=[project.middleware(agent="plain")])
        result = agent.invoke({"messages": [("user", QUESTION)]})
        citation = result["messages"][-1].response_metadata["lorebind"]["citations"][0]
    assert (citation["marker"], citation["uri"]) == ("[3]", "guide/old.md")


def test_a_workflow_shows_its_tool_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event has the tool, its arguments, and what it found."""
    asks = [
        {"name": "fetch", "args": {"document": "old.md", "knowledge_base": "guide"}, "id": "1"},
        {"name": "find", "args": {"pattern": "when they leak"}, "id": "2"},
    ]
    model = Agentic(says=[AIMessage("", tool_calls=asks), AIMessage("By [3].")])
    with shop(tmp_path, files={"lorebind.yaml": READS}) as project:
        monkeypatch.setattr(project._models, "at", lambda *_: (model, EstimateCounter()))
        stream = project.run_stream("reply", {"question": QUESTION})
        events = [event for event in stream if event.type == "tool_call"]
    for event in events:
        Draft202012Validator(event_schema()).validate(event.as_json())
    by_tool = {event.data["tool"]: event.data for event in events}
    assert by_tool["find"]["arguments"] == {"pattern": "when they leak"}
    assert by_tool["find"]["found"][0]["uri"] == "guide/old.md"
    assert by_tool["fetch"]["found"] == []
    assert by_tool["fetch"]["text"].startswith("Nothing was read: knowledge base 'guide' has no")
