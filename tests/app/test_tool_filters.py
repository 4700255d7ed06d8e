"""`tool_filters`: with typed arguments, a model narrows the search of a tool by metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp import Client

from lorebind import ConfigurationError, Project
from lorebind.mcp.server import make_server

DOCUMENTS = [
    ("laptops", "it", 2026, "2026-01-05"),
    ("phones", "it", 2023, "2023-06-01"),
    ("chairs", "office", "2020", "2020-01-05"),
    ("secret", "board", 2026, "2026-02-01"),
]
OPEN = {"team": {"$ne": "board"}}


def sizes(name: str) -> list[int]:
    """More values than are listed as known; only phones have 8."""
    return [3, *range(100, 130), *([8] if name == "phones" else [])]


def declared(**kb: Any) -> dict[str, Any]:
    documents = [
        {
            "id": name,
            "text": f"The {name} are replaced.",
            "metadata": {"team": team, "year": year, "on": on, "sizes": sizes(name)},
        }
        for name, team, year, on in DOCUMENTS
    ]
    types = {"on": "date", "team": "string", "sizes": "list"}
    source = {"type": "inline", "documents": documents, "metadata": {"types": types}}
    base = {"id": "docs", "embedder": "words", "sources": [source], **kb}
    embedders = [{"id": "words", "provider": "hashing"}]
    return {"name": "p", "embedders": embedders, "knowledge_bases": [base]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    keys = {
        "tool_filters": ["team", "year", "on", "title", "sizes"],
        "retrieval": {"filters": OPEN, "top_k": 9},
    }
    with Project.build(declared(**keys), root=tmp_path_factory.mktemp("kb")) as project:
        project.ingest("docs")
        yield project


def tool(project: Project, name: str) -> Any:
    return next(tool for tool in project.tools("docs") if tool.name == name)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, {"laptops", "phones", "chairs"}),
        ({"team": "it"}, {"laptops", "phones"}),
        ({"team": ["it", "office"], "year": [2023, 2020]}, {"phones", "chairs"}),
        ({"year": "2026"}, {"laptops"}),
        ({"on_from": "2023-06-01", "on_to": "2026-01-04"}, {"phones"}),
        ({"on_to": "2020-01-05"}, {"chairs"}),
        ({"team": ["it", "unknown"]}, {"laptops", "phones"}),
        ({"team": [], "year": 2026}, {"laptops"}),
        ({"sizes": ["3"]}, {"laptops", "phones", "chairs"}),
        ({"sizes": 8}, {"phones"}),
        ({"title": "inline:chairs"}, {"chairs"}),
    ],
)
def test_arguments(project: Project, arguments: dict[str, Any], names: set[str]) -> None:
    """They are added to the declared filter; values of keys without a type match any type."""
    search, find, listed = (tool(project, name) for name in ("search", "find", "list_documents"))
    texts = [
        search.invoke({"query": "replaced", **arguments}),
        asyncio.run(search.ainvoke({"query": "replaced", **arguments})),
        find.invoke({"pattern": "replaced", **arguments}),
        listed.invoke(arguments),
    ]
    for text in texts:
        assert {name for name, *_ in DOCUMENTS if name in text} == names


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"team": "itt"}, "No document has team itt; did you mean 'it'; known: it, office."),
        ({"team": "board"}, "No document has team board; known: it, office."),
        ({"year": 1999}, "No document has year 1999; known: 2020, 2023, 2026."),
        ({"title": "none"}, "No document has title none; omit it."),
    ],
)
def test_unknown_values(project: Project, arguments: dict[str, Any], says: str) -> None:
    """The known values are those that the declared filter allows."""
    for name, query in (("search", {"query": "replaced"}), ("find", {"pattern": "replaced"})):
        assert tool(project, name).invoke({**query, **arguments}) == says
    assert tool(project, "list_documents").invoke(arguments) == says
    for query in ({"on_from": "2030-01-01"}, {"sizes": 8, "year": 2026}):
        nothing = tool(project, "search").invoke({"query": "replaced", **query})
        assert nothing.startswith("Nothing was found")


def test_conditions_of_a_place_add_up(project: Project) -> None:
    """Each call of `narrowed` adds its condition to the earlier ones and to the declared filter."""
    of_it = project.at("docs").narrowed({"team": "it"})
    uris = [
        {match.metadata["uri"] for match in place.query("replaced")}
        for place in (of_it, of_it.narrowed(None), of_it.narrowed({"year": {"$ne": 2023}}))
    ]
    both = {"inline:laptops", "inline:phones"}
    assert uris == [both, both, {"inline:laptops"}]


def test_schemas(project: Project) -> None:
    """The arguments are optional and typed, in the schema that providers of models get."""
    function = convert_to_openai_tool(tool(project, "search"))["function"]
    parameters = function["parameters"]
    Draft202012Validator.check_schema(parameters)
    assert parameters["required"] == ["query"]
    assert [*parameters["properties"]] == [
        *("query", "team", "year", "on_from", "on_to", "title", "sizes")
    ]
    assert "team" not in tool(project, "fetch").args
    for name in ("find", "list_documents"):
        assert {"team", "year", "on_from", "on_to"} <= tool(project, name).args.keys()


async def test_over_mcp(project: Project) -> None:
    """`search` has the same arguments, beside `filters`."""

    @asynccontextmanager
    async def everyone(_: Any) -> Any:
        yield project

    server = make_server(project, everyone, lambda *_: None)
    async with Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"team", "on_from", "filters"} <= tools["search"].input_schema["properties"].keys()

        async def searched(**arguments: Any) -> Any:
            result = await client.call_tool("search", {"query": "replaced", **arguments})
            return result.structured_content

        content = await searched(team="it", on_from="2025-01-01")
        assert [entry["uri"] for entry in content["results"]] == ["inline:laptops"]
        assert (await searched(team="it", filters={"year": 1}))["results"] == []
        assert "did you mean 'it'; known: it, office" in (await searched(team="itt"))["note"]


@pytest.mark.parametrize("value", ["NaN", "1e999", "Infinity", "007", "[" * 99_999, "null"])
def test_odd_texts(project: Project, value: str) -> None:
    """They stay texts."""
    reply = tool(project, "list_documents").invoke({"year": value})
    assert reply.startswith(f"No document has year {value}; known: 2020, 2023, 2026")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["query"], "'query' cannot be an argument of a tool"),
        (["model_dump"], "'model_dump' cannot be an argument of a tool"),
        (["a b"], "'a b' cannot be an argument of a tool"),
        (["team", "team"], "'team' is listed twice"),
        ([f"k{number}" for number in range(17)], "there are more than 16 keys"),
        (["on", "on_from"], "'on_from' is also an end of the dates of 'on'"),
    ],
)
def test_what_is_refused(keys: list[str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Project.build(declared(tool_filters=keys))
    assert says in str(caught.value)
