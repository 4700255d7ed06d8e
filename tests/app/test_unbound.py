"""`knowledge: []`: what outer scopes bind is not searched there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage

from lorebind import Project, UsageError
from tests.bindings.helpers import Agentic, Scripted, line_of

from .helpers import Cli
from .shop import KEYS, PROJECT, QUESTION, shop

FREED = (
    PROJECT
    + """\
  - id: free
    knowledge: []
    input: { question: { type: string } }
    tasks:
      - { id: say, prompt: "{{ .workflow.input.question }}" }
      - { id: bound, prompt: "{{ .workflow.input.question }}", knowledge: [{ id: guide }] }
  - id: freed_task
    input: { question: { type: string } }
    tasks: [{ id: say, prompt: "{{ .workflow.input.question }}", knowledge: [] }]
"""
).replace("workflows:\n", "  - { id: poet, instructions: Rhyme., knowledge: [] }\nworkflows:\n")

PLACES: list[dict[str, str]] = [
    {"agent": "poet"},
    {"workflow": "free"},
    {"workflow": "free", "task": "say"},
    {"workflow": "freed_task", "task": "say"},
    {"workflow": "free", "task": "bound", "agent": "poet"},
]


class Searches(BaseCallbackHandler):
    """Counts the searches that callbacks are told about."""

    def __init__(self) -> None:
        self.count = 0

    def on_retriever_start(self, *args: Any, **kwargs: Any) -> None:
        self.count += 1


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with shop(tmp_path, files={"lorebind.yaml": FREED}) as opened:
        yield opened


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_bound(project: Project, place: dict[str, str]) -> None:
    """`explain` returns no bindings, and `unbound_by` the line that says so."""
    bindings = project.explain(**place)
    assert bindings == []
    location = bindings.unbound_by
    assert location is not None
    file = project.config.root / location.file
    assert "knowledge: []" in file.read_text("utf-8").splitlines()[location.line - 1]


def test_inner_scopes_bind_again(project: Project) -> None:
    """A task of a freed workflow binds what it needs, and nothing of the project's."""
    (bound,) = project.explain(workflow="free", task="bound")
    assert bound.id == "guide"
    assert bound.provenance["top_k"].scope == "default"
    assert project.explain(agent="clerk").unbound_by is None


@pytest.mark.parametrize("place", PLACES)
def test_answers_need_no_search(project: Project, place: dict[str, str]) -> None:
    """`generate`, `prompt`, the middleware and a retriever work, with no passage and no search."""
    searches = Searches()
    model = Scripted(says=["From memory [1]."])
    at = project.at(**place)
    config: Any = {"callbacks": [searches]}
    answer = at.generate(QUESTION, model=model, config=config)
    assert (answer.verdict, answer.results, answer.offered) == ("none", [], [])
    assert answer.unknown_markers == ["[1]"]
    streamed = at.stream(QUESTION, model=model, config=config)
    assert "".join(streamed) == "From memory [1]."
    assert streamed.answer.verdict == "none"
    chain = at.prompt() | model | at.citations()
    assert chain.invoke(QUESTION, config).verdict == "none"
    assert [heard[-1].text for heard in model.heard] == [QUESTION] * 3
    assert at.retriever().invoke(QUESTION) == []
    assert asyncio.run(at.retriever().ainvoke(QUESTION)) == []
    assert searches.count == 0
    agentic = Agentic(says=[AIMessage("From memory.")])
    agent = create_agent(agentic, [], middleware=[at.middleware()])
    *_, last = agent.invoke({"messages": [("user", QUESTION)]}, config)["messages"]
    assert last.response_metadata["lorebind"]["verdict"] == "none"
    assert agentic.heard[0][-1].text == QUESTION
    assert searches.count == 0


def test_named_knowledge_bases_are_searched_anyway(project: Project) -> None:
    """A call that names a knowledge base does not ask the scopes."""
    (match, *_) = project.retriever("guide", agent="poet").invoke(QUESTION)
    assert match.page_content == KEYS


def test_a_tool_of_nothing_is_refused(project: Project) -> None:
    """A tool that could find nothing would mislead a model; the error names the line."""
    line = line_of(project.config.root / "lorebind.yaml", "id: poet")
    with pytest.raises(UsageError, match=rf"^lorebind.yaml:{line}: agent/poet binds nothing"):
        project.tool(agent="poet")


@pytest.mark.parametrize("workflow", ["free", "freed_task"])
def test_a_freed_task_answers_without_passages(project: Project, workflow: str) -> None:
    """A task at such a place has the verdict `none`, and one that binds again has passages."""
    tasks = project.run(workflow, {"question": QUESTION}).tasks
    assert tasks["say"].verdict == "none"
    assert "No passages were retrieved" in tasks["say"].output
    if workflow == "free":
        assert tasks["bound"].verdict == "hit"


def test_a_project_may_bind_nothing(tmp_path: Path) -> None:
    """A project with `knowledge: []` answers without a search; its agents bind for themselves."""
    yaml = PROJECT.replace("knowledge: [{ id: guide }]", "knowledge: []")
    with shop(tmp_path, files={"lorebind.yaml": yaml}) as project:
        assert project.generate(QUESTION, model=Scripted()).verdict == "none"
        assert [binding.id for binding in project.explain(agent="clerk")] == ["rules"]


def test_explain_prints_the_line(empty_cli: Cli) -> None:
    """`bindings explain` says which line removes the bindings, in a table and as JSON."""
    shop(empty_cli.root, files={"lorebind.yaml": FREED}).close()
    at = f"lorebind.yaml:{line_of(empty_cli.root / 'lorebind.yaml', 'id: poet')}"
    done = empty_cli("bindings", "explain", "--agent", "poet")
    assert done.out.splitlines() == [
        "Nothing is bound here.",
        f"agent/poet removes all bindings of outer scopes: {at}",
    ]
    again = empty_cli("bindings", "explain", "--workflow", "free", "--task", "bound")
    assert "workflow/free removes all bindings of outer scopes: lorebind.yaml:" in again.out
    assert "guide ──" in again.out
    data = json.loads(empty_cli("bindings", "explain", "--agent", "poet", "-o", "json").out)
    assert data["bindings"] == []
    assert data["unbound_by"]["scope"] == "agent/poet"
