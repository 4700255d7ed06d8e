"""The Model Context Protocol over HTTP and standard input, through the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from lorebind import ConfigurationError, KnowledgeBase, Project
from lorebind.mcp.server import make_server
from tests.density import examples

from .conftest import PROJECT, forked_lorebind, serving, write_project
from .in_process import Served, problem, served

NAMES = ["search", "fetch", "list_documents", "find", "list_knowledge_bases"]
HANDBOOK = PROJECT["knowledge_bases"][0]
TWO = {
    "description": "The shop.",
    "knowledge_bases": [
        HANDBOOK | {"description": "Returns and shipping."},
        {"id": "long", "sources": [{"type": "markdown_glob", "path": "long/*.md"}]},
    ],
}
FETCHED = "lorebind://handbook/inline%3Areturns"
MCP = "http://localhost/mcp"
ASKS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPTS = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def over_http(server: Served, token: str | None = None, **headers: str) -> AsyncIterator[Any]:
    """Return a client of the route, with or without a token."""
    sent = headers if token is None else {"Authorization": f"Bearer {token}", **headers}
    transport = httpx2.ASGITransport(app=server.app)
    async with (
        httpx2.AsyncClient(transport=transport, headers=sent, timeout=30) as http,
        Client(streamable_http_client(MCP, http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(folder: Path, *options: str, forked: bool = True) -> AsyncIterator[Any]:
    command, *before = [forked_lorebind()] if forked else [sys.executable, "-m", "lorebind"]
    arguments = [*before, "mcp", "--project", str(folder), *options]
    async with Client(StdioServerParameters(command=command, args=arguments)) as client:
        yield client


@asynccontextmanager
async def in_memory(project: Project) -> AsyncIterator[Any]:
    """Return a client that calls the server in this process."""
    failures: list[BaseException] = []

    @asynccontextmanager
    async def of_caller(_: Any) -> AsyncIterator[Project]:
        yield project

    server = make_server(project, of_caller, lambda _, error, sent: failures.append(error))
    async with Client(server) as client:
        yield client
    assert not failures


def long_project(folder: Path, **more: Any) -> Path:
    (folder / "long").mkdir(parents=True)
    lines = "\n".join(f"Line {number} says a little about parcels." for number in range(1, 2001))
    (folder / "long/a.md").write_text(f"# Parcels\n\n{lines}\n")
    return write_project(folder, {**PROJECT, **TWO, **more})


async def ingested(folder: Path, **more: Any) -> Project:
    project = Project.load(long_project(folder, **more))
    for kb in project.config.project.knowledge_bases:
        await project.aingest(kb.id)
    return project


def data(result: Any) -> Any:
    """Return the data of a result, which is its only text and its structured content."""
    assert not result.is_error, result.content[0].text
    (item,) = result.content
    assert json.loads(item.text) == result.structured_content
    return result.structured_content


def mistake(result: Any) -> str:
    assert result.is_error
    return str(result.content[0].text)


async def test_the_tools(tmp_path: Path) -> None:
    """Names are stable; descriptions and instructions say what each knowledge base is for."""
    async with await ingested(tmp_path) as project, in_memory(project) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == NAMES
        assert all(tool.annotations.read_only_hint for tool in tools)
        assert all("- handbook: Returns and shipping." in tool.description for tool in tools)
        assert client.instructions.startswith("The shop.\n\nSearch before")
        listed = data(await client.call_tool("list_knowledge_bases"))["knowledge_bases"]
        assert listed[0] == {"id": "handbook", "description": "Returns and shipping."}


async def test_a_search_is_that_of_the_project(tmp_path: Path) -> None:
    """Passages, order and scores are those of `Project.query`; a page of ChatGPT reads the rest."""
    async with await ingested(tmp_path) as project, in_memory(project) as client:
        arguments = {"query": "goods", "knowledge_bases": ["handbook"], "top_k": 2}
        results = data(await client.call_tool("search", arguments))["results"]
        expected = await project.aquery("handbook", "goods", top_k=2)
        assert [(entry["text"], entry["score"]) for entry in results] == [
            (match.text, match.score) for match in expected
        ]
        assert results[0].keys() == {"id", "title", "url", "uri", "text", "score"}
        assert (results[0]["id"], results[0]["url"]) == (FETCHED, FETCHED)
        both = data(await client.call_tool("search", {"query": "goods"}))["results"]
        several = await project.aquery_many(["handbook", "long"], "goods")
        assert [entry["text"] for entry in both] == [match.text for match in several]
        none = {"query": "goods", "filters": {"uri": "x"}}
        assert data(await client.call_tool("search", none)) == {"results": []}


async def test_a_document_is_read_in_parts(tmp_path: Path) -> None:
    """Each part keeps to the budget, and its note leads to the next one."""
    async with await ingested(tmp_path) as project, in_memory(project) as client:
        whole = data(await client.call_tool("fetch", {"id": FETCHED}))
        assert whole.keys() == {"id", "title", "url", "uri", "text", "metadata"}
        assert whole["text"] == "You can return goods within 30 days."
        first, text = 1, list[str]()
        while True:
            arguments = {"id": "lorebind://long/long%2Fa.md", "first_line": first}
            part = data(await client.call_tool("fetch", arguments))
            assert len(json.dumps(part)) <= 4 * 4096
            text += part["text"].split("\n")
            if "note" not in part["metadata"]:
                break
            first = part["metadata"]["last_line"] + 1
        assert "\n".join(text) == (tmp_path / "long/a.md").read_text().rstrip()


async def test_finding_and_listing(tmp_path: Path) -> None:
    """All knowledge bases are looked in; a cut result says how to narrow the search."""
    async with await ingested(tmp_path) as project, in_memory(project) as client:
        found = data(await client.call_tool("find", {"pattern": "line 1999 SAYS"}))["results"]
        assert [line["line"] for entry in found for line in entry["lines"]] == [2001]
        many = data(await client.call_tool("find", {"pattern": "^line .*s$", "regex": True}))
        assert many == {"results": []}
        cut = data(await client.call_tool("find", {"pattern": "parcels"}))
        assert "write a longer pattern" in cut["note"]
        assert len(json.dumps(cut)) <= 4 * 4096
        listed = data(await client.call_tool("list_documents", {"knowledge_base": "handbook"}))
        assert [entry["uri"] for entry in listed["documents"]] == [
            "inline:returns",
            "inline:shipping",
        ]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("search", {}, "query: Field required"),
        ("search", {"query": " "}, "the question is empty"),
        ("search", {"query": "x", "top_k": 0}, "top_k: Input should be greater"),
        ("search", {"query": "x", "colour": 1}, "colour: Extra inputs are not permitted"),
        ("search", {"query": "x", "knowledge_bases": ["hand"]}, "no knowledge base 'hand'; did"),
        ("search", {"query": "x", "filters": {"$x": 1}}, "unknown operator '$x'"),
        ("fetch", {"id": "lorebind://handbook/x"}, "has no document 'x'; known:"),
        ("fetch", {"id": "x"}, "'x' is no id; take it from search"),
        ("fetch", {"id": FETCHED, "first_line": 9}, "has lines 1-1, but"),
        ("find", {"pattern": "(", "regex": True}, "not a regular expression"),
        ("list_documents", {}, "set knowledge_base to one of"),
        ("serch", {}, "there is no tool 'serch'; did you mean 'search'"),
    ],
)
async def test_mistakes_are_explained(
    tmp_path: Path, name: str, arguments: dict[str, Any], message: str
) -> None:
    """A wrong call is a tool error that says what to do, and no protocol error."""
    async with await ingested(tmp_path) as project, in_memory(project) as client:
        assert message in mistake(await client.call_tool(name, arguments))


async def test_resources(tmp_path: Path) -> None:
    """Knowledge bases are listed, and documents have an address."""
    async with await ingested(tmp_path) as project, in_memory(project) as client:
        resources = (await client.list_resources()).resources
        assert [resource.uri for resource in resources] == [
            "lorebind://handbook",
            "lorebind://long",
        ]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "lorebind://{kb}/{uri}"
        (document,) = (await client.read_resource(FETCHED)).contents
        assert document.text == "You can return goods within 30 days."
        (listed,) = (await client.read_resource("lorebind://handbook")).contents
        assert len(json.loads(listed.text)["documents"]) == 2
        for missing in ("lorebind://handbook/x", "lorebind://x", "https://example.com"):
            with pytest.raises(MCPError):
                await client.read_resource(missing)


async def test_what_clients_see_can_be_narrowed(tmp_path: Path) -> None:
    """Nothing else is listed, searched, or read."""
    narrow = {"knowledge_bases": ["handbook"], "tools": ["search", "fetch"]}
    async with await ingested(tmp_path, mcp=narrow) as project, in_memory(project) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["search", "fetch"]
        assert not any("long" in tool.description for tool in tools)
        assert "no tool 'find'" in mistake(await client.call_tool("find", {"pattern": "x"}))
        fetched = await client.call_tool("fetch", {"id": "lorebind://long/long%2Fa.md"})
        assert "there is no knowledge base 'long'" in mistake(fetched)
        found = data(await client.call_tool("search", {"query": "parcels", "top_k": 50}))["results"]
        assert {entry["id"].split("/")[2] for entry in found} == {"handbook"}
        with pytest.raises(MCPError):
            await client.read_resource("lorebind://long")
    with pytest.raises(ConfigurationError, match="mcp names the unknown knowledge base 'x'"):
        Project.load(write_project(tmp_path, {**PROJECT, "mcp": {"knowledge_bases": ["x"]}}))


async def test_a_project_without_knowledge_bases(tmp_path: Path) -> None:
    """Each tool that reads one says that there is none; the list is empty."""
    folder = write_project(tmp_path, {"name": "nothing"})
    async with Project.load(folder) as project, in_memory(project) as client:
        calls: dict[str, dict[str, Any]] = {
            "search": {"query": "x"},
            "find": {"pattern": "x"},
            "fetch": {"id": "x"},
            "list_documents": {},
        }
        for name, arguments in calls.items():
            message = mistake(await client.call_tool(name, arguments))
            assert "the project 'nothing' has no knowledge base yet" in message
        assert data(await client.call_tool("list_knowledge_bases")) == {"knowledge_bases": []}


async def test_a_declared_filter_holds(tmp_path: Path) -> None:
    """A client can narrow the filter of a knowledge base, but not replace it."""
    declared = HANDBOOK | {"retrieval": {"filters": {"uri": "inline:shipping"}}}
    folder = write_project(tmp_path, {**PROJECT, "knowledge_bases": [declared]})
    async with Project.load(folder) as project, in_memory(project) as client:
        await project.aingest("handbook")
        for filters, uris in ((None, {"inline:shipping"}), ({"uri": "inline:returns"}, set())):
            arguments = {"query": "goods", "filters": filters}
            results = data(await client.call_tool("search", arguments))["results"]
            assert {entry["uri"] for entry in results} == uris
        assert "no document 'inline:returns'" in mistake(
            await client.call_tool("fetch", {"id": FETCHED})
        )


async def test_several_are_searched_with_their_own_filters(tmp_path: Path) -> None:
    """Two filters hold side by side, also with that of a client, and a note says how passages of
    different embedders are ordered."""

    def filtered(kb_id: str, uri: str, embedder: str = "words") -> dict[str, Any]:
        retrieval = {"filters": {"uri": uri}}
        return HANDBOOK | {"id": kb_id, "embedder": embedder, "retrieval": retrieval}

    small = {"id": "small", "provider": "hashing", "config": {"dimension": 64}}
    declared = {
        **PROJECT,
        "embedders": [*PROJECT["embedders"], small],
        "knowledge_bases": [
            filtered("back", "inline:returns"),
            filtered("out", "inline:shipping"),
            filtered("elsewhere", "inline:shipping", "small"),
        ],
    }
    async with (
        Project.load(write_project(tmp_path, declared)) as project,
        in_memory(project) as client,
    ):
        for kb in project.config.project.knowledge_bases:
            await project.aingest(kb.id)

        async def search(*kb_ids: str, **more: Any) -> tuple[list[str], str]:
            arguments = {"query": "goods days", "knowledge_bases": kb_ids, **more}
            answer = data(await client.call_tool("search", arguments))
            return [entry["id"] for entry in answer["results"]], answer.get("note", "")

        back, out = FETCHED.replace("handbook", "back"), "lorebind://out/inline%3Ashipping"
        ids, note = await search("back", "out")
        assert (sorted(ids), note) == ([back, out], "")
        of_project = await project.aquery_many(["back", "out"], "goods days")
        assert [match.metadata["kb_id"] for match in of_project] == [
            entry.split("/")[2] for entry in ids
        ]
        assert await search("back", "out", filters={"uri": "inline:returns"}) == ([back], "")
        ids, note = await search()
        assert sorted(ids) == [back, "lorebind://elsewhere/inline%3Ashipping", out]
        assert "their passages are ordered by rank" in note


IDS = ["handbook", FETCHED, ["handbook"], ["handbook", "handbook"], "returns", {"uri": "x"}]
JSON = st.sampled_from(IDS) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS = ["query", "id", "pattern", "regex", "filters", "top_k", "knowledge_base", "after"]
KEYS += ["knowledge_bases", "first_line", "last_line"]


CALL = st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))


def test_any_arguments_are_answered(tmp_path: Path) -> None:
    """Whatever the arguments, the answer is a result or a tool error."""
    with Project.load(write_project(tmp_path)) as project:
        project.ingest("handbook")

        async def check_all(calls: list[tuple[str, dict[str, Any]]]) -> None:
            async with in_memory(project) as client:
                for name, arguments in calls:
                    result = await client.call_tool(name, arguments)
                    assert result.is_error is not bool(result.structured_content)

        @settings(max_examples=examples(100), deadline=None)
        @given(st.lists(CALL, min_size=10, max_size=10))
        def check(calls: list[tuple[str, dict[str, Any]]]) -> None:
            asyncio.run(check_all(calls))

        check()


async def test_over_stdio(tmp_path: Path) -> None:
    """A program that starts the command gets the same, and nothing else on standard output."""
    async with await ingested(tmp_path) as project:
        expected = [match.text for match in await project.aquery("handbook", "goods")]
    async with over_stdio(tmp_path, forked=False) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
        arguments = {"query": "goods", "knowledge_bases": ["handbook"]}
        results = data(await client.call_tool("search", arguments))["results"]
        assert [entry["text"] for entry in results] == expected
    async with over_stdio(tmp_path, "--tenant", "acme") as client:
        assert "nothing has been ingested" in mistake(await client.call_tool("search", arguments))


async def test_over_http(tmp_path: Path) -> None:
    """The route is exactly `/mcp`, and takes messages by POST only."""
    long_project(tmp_path)
    async with served(tmp_path, TWO) as server, server.client() as api:
        await api.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"})
        async with over_http(server) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
            found = data(
                await client.call_tool("search", {"query": "x", "knowledge_bases": ["handbook"]})
            )
            assert found["results"]
        assert problem(await api.get(MCP)) == (405, "method_not_allowed")
        assert (await api.post(f"{MCP}/", json=ASKS)).status_code == 404


async def test_tokens_and_tenants(tmp_path: Path) -> None:
    """A caller reads what its token allows, whatever session it names."""
    async with served(tmp_path) as server:
        ann = server.token("ann", "write", "ann")
        bob = server.token("bob", "read", "bob")
        async with server.client(ann) as api:
            document = {"id": "secret", "text": "Zebrawood is brown."}
            added = await api.post("/knowledge-bases/handbook/documents", json=document)
            assert added.status_code == 201
        async with over_http(server, ann) as client:
            found = data(await client.call_tool("find", {"pattern": "Zebrawood"}))["results"]
            assert len(found) == 1
        async with over_http(server, bob, **{"Mcp-Session-Id": "ann"}) as client:
            for name, arguments in (
                ("find", {"pattern": "Zebrawood"}),
                ("search", {"query": "Zebrawood"}),
                ("fetch", {"id": found[0]["id"]}),
            ):
                assert "nothing has been ingested" in mistake(
                    await client.call_tool(name, arguments)
                )
            with pytest.raises(MCPError):
                await client.read_resource(found[0]["id"])
        for headers in ({}, {"Authorization": "Bearer lb_wrong"}):
            async with server.client(**headers) as api:
                refused = await api.post(MCP, json=ASKS, headers=ACCEPTS)
            assert problem(refused) == (401, "unauthenticated")
            assert "lorebind token create" in refused.json()["detail"]
        async with server.client(bob, Host="evil.example") as api:
            assert problem(await api.post(MCP, json=ASKS, headers=ACCEPTS)) == (403, "host_refused")


async def test_a_knowledge_base_of_a_tenant(tmp_path: Path) -> None:
    """Only the tenant that has created a knowledge base over the API sees it."""
    async with served(tmp_path) as server:
        async with server.client(**{"X-Tenant-ID": "ann"}) as api:
            created = await api.put("/knowledge-bases/mine", json={"sources": HANDBOOK["sources"]})
            assert created.status_code == 201
        for tenant, listed in (("ann", ["handbook", "mine"]), ("bob", ["handbook"])):
            async with over_http(server, **{"X-Tenant-ID": tenant}) as client:
                kbs = data(await client.call_tool("list_knowledge_bases"))["knowledge_bases"]
                assert [kb["id"] for kb in kbs] == listed


@asynccontextmanager
async def over_socket(socket: Path, **headers: str) -> AsyncIterator[Any]:
    """Return a client of a real server, because a stream in this process would not be read."""
    transport = httpx2.AsyncHTTPTransport(uds=str(socket))
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers, timeout=30) as http,
        Client(streamable_http_client(MCP, http_client=http)) as client,
    ):
        yield client


async def test_clients_hear_of_new_knowledge_bases(tmp_path: Path) -> None:
    """Those of the same tenant that listen; a server that stops ends their streams in order."""
    ann, bob = ({"X-Tenant-ID": name} for name in ("ann", "bob"))
    flags = {"resources_list_changed": True, "tools_list_changed": True}
    with serving(write_project(tmp_path)) as server:
        async with (
            over_socket(server.socket, **ann) as hers,
            over_socket(server.socket, **bob) as his,
            hers.listen(**flags) as heard,
            his.listen(**flags) as other,
        ):
            assert hers.server_capabilities.resources.list_changed
            with server.client(headers=bob) as api:
                api.put("/knowledge-bases/tours", json={"sources": HANDBOOK["sources"]})
            events = [type(await anext(other)).__name__ for _ in range(2)]
            assert events == ["ResourcesListChanged", "ToolsListChanged"]
            with server.client(headers=ann) as api:
                mine = {"sources": HANDBOOK["sources"], "description": "Mine."}
                api.put("/knowledge-bases/mine", json=mine)
            assert [type(await anext(heard)).__name__ for _ in range(2)] == events
            tools = (await hers.list_tools()).tools
            assert "- mine: Mine." in tools[0].description
            assert "tours" not in tools[0].description
            stopping = asyncio.create_task(asyncio.to_thread(server.stop))
            assert [event async for event in heard] == []
            assert [event async for event in other] == []
        assert (await stopping)[0] == 0


async def test_a_tenant_is_required(tmp_path: Path) -> None:
    """Without a tenant, each request is refused with the reason."""
    async with served(tmp_path, {"tenancy": "required"}) as server:
        async with over_http(server) as client:
            with pytest.raises(MCPError, match="tenant"):
                await client.list_tools()
            assert "tenant" in mistake(await client.call_tool("list_knowledge_bases"))
        async with over_http(server, **{"X-Tenant-ID": "ann"}) as client:
            assert len((await client.list_tools()).tools) == len(NAMES)


async def test_a_bug_is_logged_without_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client learns only that there is a bug, and the log does not have its texts."""

    async def broken(_: Any, pattern: str, **__: Any) -> None:
        raise RuntimeError(f"cannot find {pattern}")

    monkeypatch.setattr(KnowledgeBase, "afind", broken)
    async with served(tmp_path) as server, over_http(server) as client:
        message = mistake(await client.call_tool("find", {"pattern": "Zebrawood"}))
    assert message.startswith("this is a bug")
    assert "RuntimeError" in caplog.text
    assert "Zebrawood" not in caplog.text


async def test_many_clients_at_once(tmp_path: Path) -> None:
    """Clients of several tenants each get their own answer, while an ingest runs."""
    async with served(tmp_path) as server:
        tenants = ["ann", "bob"]
        for tenant in tenants:
            async with server.client(**{"X-Tenant-ID": tenant}) as api:
                document = {"id": "mine", "text": f"The name is {tenant}."}
                await api.post("/knowledge-bases/handbook/documents", json=document)

        async def ask(tenant: str) -> None:
            async with over_http(server, **{"X-Tenant-ID": tenant}) as client:
                found = data(await client.call_tool("find", {"pattern": "The name is"}))
                (entry,) = found["results"]
                assert entry["lines"][0]["text"] == f"The name is {tenant}."

        async with server.client(**{"X-Tenant-ID": "ann"}) as api:
            ingest = asyncio.create_task(
                api.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"})
            )
            await asyncio.gather(*(ask(tenants[number % 2]) for number in range(200)))
            assert (await ingest).status_code < 300
