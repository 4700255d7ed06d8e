"""Clients and agents get over MCP what the project itself finds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core._api import suppress_langchain_beta_warning
from langchain_core.messages import AIMessage, ToolMessage

from lorebind import Project
from tests.bindings.helpers import Agentic

from ..test_agent_tools import call, calling
from .conftest import forked_lorebind, serving
from .in_process import served
from .test_mcp import FETCHED, NAMES, TWO, data, ingested, over_http, over_stdio

Search = Callable[..., Any]
"""Calls the tool `search` and returns its results."""

SEARCHES: list[dict[str, Any]] = [
    {"query": "goods", "knowledge_bases": ["handbook"]},
    {"query": "Line 7 about parcels", "knowledge_bases": ["long"], "top_k": 3},
    {"query": "When do parcels arrive?", "knowledge_bases": ["long", "handbook"]},
    {"query": "days", "knowledge_bases": ["handbook"], "filters": {"uri": "inline:shipping"}},
    {"query": "nothing", "knowledge_bases": ["handbook"], "filters": {"uri": "x"}},
]


@asynccontextmanager
async def by_stdio(folder: Path) -> AsyncIterator[Search]:
    async with over_stdio(folder) as client:
        yield lambda **arguments: client.call_tool("search", arguments)


@asynccontextmanager
async def by_http(folder: Path) -> AsyncIterator[Search]:
    async with served(folder, TWO) as server, over_http(server) as client:
        yield lambda **arguments: client.call_tool("search", arguments)


async def expected(project: Project, arguments: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Return the passages that the project itself finds, with their uris and scores."""
    settings = dict(arguments)
    query, kb_ids = settings.pop("query"), settings.pop("knowledge_bases")
    if len(kb_ids) == 1:
        result = await project.aquery(kb_ids[0], query, **settings)
    else:
        result = await project.aquery_many(kb_ids, query, **settings)
    return [(match.metadata["uri"], match.text, match.score) for match in result.matches]


def passages(results: list[dict[str, Any]]) -> list[tuple[str, str, float]]:
    return [(entry["uri"], entry["text"], entry["score"]) for entry in results]


@pytest.mark.parametrize("face", [by_stdio, by_http])
async def test_a_client_gets_the_passages_of_the_project(
    tmp_path: Path, face: Callable[[Path], AbstractAsyncContextManager[Search]]
) -> None:
    """With their order and scores, for one knowledge base or several, and with filters."""
    async with await ingested(tmp_path) as project:
        of_project = [await expected(project, arguments) for arguments in SEARCHES]
    assert [len(results) > 0 for results in of_project] == [True, True, True, True, False]
    async with face(tmp_path) as search:
        for arguments, passages_of_project in zip(SEARCHES, of_project, strict=True):
            results = data(await search(**arguments))["results"]
            assert passages(results) == passages_of_project


@asynccontextmanager
async def a_command(folder: Path) -> AsyncIterator[Any]:
    arguments = ["mcp", "--project", str(folder)]
    yield {"mcpServers": {"shop": {"command": forked_lorebind(), "args": arguments}}}


@asynccontextmanager
async def a_url(folder: Path) -> AsyncIterator[Any]:
    with serving(folder, "--port", "0") as server:
        yield f"{server.url}/mcp"


@pytest.mark.parametrize("target", [a_command, a_url])
async def test_an_agent_of_langchain(
    tmp_path: Path,
    socket_enabled: None,
    target: Callable[[Path], AbstractAsyncContextManager[Any]],
) -> None:
    """It uses all tools through LangChain's adapter, and corrects a wrong call."""
    async with await ingested(tmp_path) as project:
        of_project = [await expected(project, arguments) for arguments in SEARCHES]
    says = [
        calling(call("list_knowledge_bases")),
        calling(*(call("search", **arguments) for arguments in SEARCHES)),
        calling(call("fetch", id="lorebind://handbook/x")),
        calling(call("fetch", id=FETCHED), call("find", pattern="five working days")),
        calling(call("list_documents", knowledge_base="handbook")),
        AIMessage("Within 30 days."),
    ]
    with suppress_langchain_beta_warning():
        from langchain.mcp import MCPAdapter

    async with target(tmp_path) as where, MCPAdapter(where) as adapter:
        agent = create_agent(Agentic(says=says), await adapter.list_tools())
        ended = await agent.ainvoke({"messages": [("user", "When can I return goods?")]})
    assert ended["messages"][-1].text == "Within 30 days."
    replies = [message for message in ended["messages"] if isinstance(message, ToolMessage)]
    assert {reply.name for reply in replies} == set(NAMES)
    kbs, *searches, missing, fetched, lines, documents = map(result_of, replies)
    assert [kb["id"] for kb in kbs["knowledge_bases"]] == ["handbook", "long"]
    assert [passages(result["results"]) for result in searches] == of_project
    assert "has no document 'x'; known:" in missing
    assert fetched["text"] == "You can return goods within 30 days."
    assert lines["results"][0]["uri"] == "inline:shipping"
    assert len(documents["documents"]) == 2


def result_of(reply: ToolMessage) -> Any:
    """Return the data of a reply, or the text of an error."""
    if reply.status == "error":
        return reply.text
    assert json.loads(reply.text) == reply.artifact["structured_content"]
    return reply.artifact["structured_content"]
