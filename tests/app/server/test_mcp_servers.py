"""Agents whose tools are those of an MCP server: a command, or a URL."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import AIMessage, ToolMessage

from lorebind import ConfigurationError, Project, ToolError, UsageError
from lorebind_bindings import mcp_servers
from lorebind_config.errors import MissingVariableError
from lorebind_config.trust import demands_of
from tests.bindings.helpers import PARTS, Agentic, write

from ..forked_python import ForkedPython
from ..test_agent_tools import FACES, Streaming, ask, call, calling, results
from .conftest import serving, write_project
from .tool_server import NAMES

SERVER = Path(__file__).with_name("tool_server.py")
COMMAND = {"command": sys.executable, "args": ["server.py"]}


@pytest.fixture(scope="module", autouse=True)
def forked_servers() -> Iterator[None]:
    """Fork the servers, because importing their libraries takes most of the time of a test."""
    libraries = ("mcp.server.lowlevel", "mcp.server.stdio")
    with (
        closing(ForkedPython("-W", "error", libraries=libraries)) as python,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setitem(COMMAND, "command", str(python.commands / "python"))
        yield


def project(folder: Path, *servers: dict[str, Any], env: str = "KEY=zebra\n") -> Project:
    """Return a project with an agent that has the tools of these servers."""
    agent = {"id": "a", "tools": [{"mcp": server} for server in servers]}
    declared = {"name": "shop", **yaml.safe_load(PARTS), "agents": [agent]}
    write(folder, {"lorebind.yaml": yaml.safe_dump(declared), ".env": env})
    (folder / "server.py").write_bytes(SERVER.read_bytes())
    return Project.load(folder, environ={})


@pytest.mark.parametrize("face", FACES)
def test_the_tools_of_a_command(tmp_path: Path, face: str) -> None:
    """They are called in one session, in the folder and with the variables of the project."""
    settings = {**COMMAND, "env": {"TOKEN": "{{ .secrets.KEY }}"}}
    says = [
        calling(call("echo", text="a"), call("echo", text="b")),
        calling(call("variable", text="TOKEN"), call("variable", text="KEY"), call("folder")),
        calling(call("fail", text="zebra"), call("long"), call("missing")),
        AIMessage("Done."),
    ]
    model = (Streaming if "stream" in face else Agentic)(says=says)
    with project(tmp_path, settings) as shop:
        assert ask(shop, face, model, "a").text.strip() == "Done."
    assert model.offered[0][0] == NAMES
    replies = [reply for reply in model.heard[-1] if isinstance(reply, ToolMessage)]
    texts = [str(reply.text) for reply in replies]
    (first, _), (second, _) = (text.split() for text in texts[:2])
    assert first == second
    with pytest.raises(ProcessLookupError):  # it has ended with the answer
        os.kill(int(first), 0)
    assert texts[2:5] == ["zebra", "not set", str(tmp_path.resolve())]
    assert (replies[5].status, texts[5]) == ("error", "there is no zebra")
    assert texts[6].endswith("… [100000 characters omitted]")
    assert "There is no tool 'missing'" in texts[7]


async def test_the_tools_of_a_workflow_and_a_broken_off_stream(tmp_path: Path) -> None:
    """A session ends with its task, and when nobody reads on."""
    says = [calling(call("echo", text="a")), AIMessage("one two three")]
    with project(tmp_path, COMMAND) as shop:
        model = Streaming(says=says)
        stream = shop.stream("How?", agent="a", model=model)
        parts = aiter(stream)
        while not (await anext(parts)).strip():
            pass
        (reply,) = results(model)
        process = int(str(reply.text).split()[0])
        os.kill(process, 0)
        await parts.aclose()  # type: ignore[attr-defined]
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
        waiting = Agentic(says=says)
        asking = asyncio.create_task(shop.agenerate("How?", agent="a", model=waiting))
        while not (waiting.heard or asking.done()):  # noqa: ASYNC110 - a model sets no event
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


def test_chosen_tools(tmp_path: Path) -> None:
    """Names can be chosen, and need a prefix where two servers have the same ones."""
    chosen = {**COMMAND, "tools": ["folder", "echo"], "prefix": "shop_"}
    model = Agentic(says=[calling(call("shop_echo", text="a")), AIMessage("Done.")])
    with project(tmp_path / "a", chosen, {**COMMAND, "tools": ["echo"]}) as shop:
        shop.generate("How?", agent="a", model=model)
    assert model.offered[0][0] == ["shop_folder", "shop_echo", "echo"]
    assert results(model)[0].status == "success"
    with (
        project(tmp_path / "b", COMMAND, {**COMMAND, "tools": ["echo"]}) as shop,
        pytest.raises(UsageError, match="two tools with the name 'echo'; set 'prefix'"),
    ):
        shop.generate("How?", agent="a", model=model)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": "no-such-program"}, r"no-such-program cannot be used: .*No such file"),
        ({"args": ["server.py", "crash"]}, r"its last lines: the key \[secret\] is wrong"),
        ({"args": ["server.py", "hang"]}, "no answer within 1 s"),
        ({"args": ["server.py", "many"]}, "206 tools, and chat models accept 128; name those"),
        ({"tools": ["ecko"]}, "has no tool 'ecko'; did you mean 'echo'"),
        ({"env": {"KEY": "{{ .env.OTHER_KEY }}"}}, "OTHER_KEY is not set"),
    ],
)
def test_a_server_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], reason: str
) -> None:
    """The error says where it is declared, and what the command has said, without secrets."""
    if "no answer" in reason:
        monkeypatch.setattr(mcp_servers, "_OPEN_SECONDS", 1)
    declared = {**COMMAND, "env": {"KEY": "{{ .env.KEY }}"}, **settings}
    with (
        project(tmp_path, declared) as shop,
        pytest.raises((ToolError, MissingVariableError), match=reason) as caught,
    ):
        shop.generate("How?", agent="a", model=Agentic(says=[]))
    assert "lorebind.yaml:" in str(caught.value)
    assert "zebra" not in str(caught.value)


def test_a_server_that_stops(tmp_path: Path) -> None:
    """A lost connection ends the answer, because the model can do nothing about it."""
    model = Agentic(says=[calling(call("exit")), AIMessage("Done.")])
    with (
        project(tmp_path, COMMAND) as shop,
        pytest.raises(ToolError, match=r"cannot be used: .*closed; its last lines: I am leaving"),
    ):
        shop.generate("How?", agent="a", model=model)


def test_the_tools_of_a_url(tmp_path: Path, socket_enabled: None) -> None:
    """Here, of another project's server; a wrong token and a stopped server are explained."""
    folder = write_project(tmp_path / "served")
    with serving(folder, "--port", "0") as server:
        url = f"{server.url}/mcp"
        settings = {"url": url, "headers": {"Authorization": "Bearer {{ .env.KEY }}"}}
        says = [calling(call("list_knowledge_bases")), AIMessage("Done.")]
        with project(tmp_path / "a", {"url": url, "tools": ["list_knowledge_bases"]}) as agent:
            model = Agentic(says=says)
            agent.generate("How?", agent="a", model=model)
            assert "handbook" in results(model)[0].text
        with (
            project(tmp_path / "b", settings) as agent,
            pytest.raises(
                ToolError, match="it answered 401 Unauthorized; check its 'url' and 'headers'"
            ) as caught,
        ):
            agent.generate("How?", agent="a", model=Agentic(says=says))
        assert "zebra" not in str(caught.value)
    with (
        project(tmp_path / "c", {"url": url}) as agent,
        pytest.raises(ToolError, match=r"cannot be used: .*[Cc]onnect"),
    ):
        agent.generate("How?", agent="a", model=Agentic(says=says))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has no address; write either 'command' or 'url'"),
        ({**COMMAND, "url": "https://x.example"}, "command and url are both given"),
        ({"url": "https://x.example", "args": ["x"]}, "args needs 'command'; remove args"),
        ({**COMMAND, "headers": {"X": "y"}}, "headers needs 'url'"),
        ({**COMMAND, "env": {"API_KEY": "abc"}}, "API_KEY holds a literal value"),
        ({**COMMAND, "prefix": "a b"}, "'a b' cannot begin the name of a tool"),
    ],
)
def test_mistakes_in_the_declaration(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        project(tmp_path, settings)


def test_a_command_needs_trust(tmp_path: Path) -> None:
    """So do the files that it names, its variables, and the host of a URL."""
    command = {"command": "python", "args": ["server.py", "{{ .env.MODE }}"]}
    command["env"] = {"TOKEN": "{{ .env.KEY }}", "PYTHONPATH": "."}  # type: ignore[assignment]
    url = {"url": "https://tools.example/mcp", "headers": {"Authorization": "{{ .env.KEY }}"}}

    def demands(env: str) -> dict[str, str]:
        shop = project(tmp_path, command, url, env=env)
        return {str(demand): demand.digest for demand in demands_of(shop.config).all}

    before = demands("MODE=x\n")
    whole = "\n".join(before)
    assert "wants to run the command" in whole
    assert "PYTHONPATH=. 'TOKEN={{ .env.KEY }}' python server.py '{{ .env.MODE }}', with" in whole
    assert "read the variable KEY, and give it to python server.py" in whole
    assert "read the variable KEY, and send it to tools.example" in whole
    after = demands("MODE=y\n")
    assert [name for name in before if before[name] != after[name]] == [
        name for name in before if "run the command" in name
    ]
