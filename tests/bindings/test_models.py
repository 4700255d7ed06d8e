"""Declared chat models: Lorebind's own, and a provider's client with a local server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langchain_core.tools import tool

from lorebind_bindings import ModelPool, Request, answer, make_model
from lorebind_config.declarations.models import ModelDeclaration
from lorebind_config.errors import (
    LorebindError,
    MissingDependencyError,
    MissingVariableError,
    ModelError,
    NotFoundError,
)
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import build_project
from lorebind_config.templates import Environment
from lorebind_knowledge import KnowledgeService
from lorebind_prompts import EstimateCounter, ExtractiveChatModel

KEY = "sk-test-0123456789abcdef"


class FakeOpenAI(ThreadingHTTPServer):
    """A server for chat completions, which fails if `status` is not 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.says: list[dict[str, Any]] = []
        """Its messages in turn; if empty, always the same message."""
        self.requests: list[tuple[str, str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: FakeOpenAI

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Authorization"]
        self.server.requests.append((self.path, key, body))
        if self.server.status == 200:
            usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
            message = {"role": "assistant", "content": "Every ninety days."}
            message = self.server.says.pop(0) if self.server.says else message
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 1}
            answer |= {"model": body["model"], "choices": [choice], "usage": usage}
        else:
            # Like real providers, quote the rejected key.
            answer = {"error": {"message": f"refused: {key}", "type": "x", "code": "x"}}
        data = json.dumps(answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FakeOpenAI() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def project(root: Path, *models: dict[str, Any], environ: dict[str, str]) -> LoadedProject:
    declared = {"name": "p", "models": list(models)}
    return build_project(declared, root=root, environ=environ)


def openai(server: FakeOpenAI, **config: Any) -> dict[str, Any]:
    config = {"base_url": server.url, "max_retries": 0, **config}
    declared = {"id": "cloud", "provider": "openai", "model": "gpt-4o-mini", "config": config}
    return declared | {"api_key": "{{ .env.TEAM_KEY }}"}


def test_without_models_there_is_the_extractive_one(tmp_path: Path) -> None:
    """A project without models uses the extractive model, which needs no key."""
    model, counter = ModelPool(project(tmp_path, environ={})).get()
    assert isinstance(model, ExtractiveChatModel)
    assert counter.count("some words") > 0


def test_a_model_is_made_once(tmp_path: Path) -> None:
    """The same id returns the same object, so that connections are shared."""
    pool = ModelPool(project(tmp_path, environ={}))
    assert pool.get()[0] is pool.get("default")[0]


def test_an_unknown_model_is_named(tmp_path: Path) -> None:
    """An unknown model is an error that suggests the closest name."""
    with pytest.raises(NotFoundError, match="no model 'defualt'; did you mean 'default'"):
        ModelPool(project(tmp_path, environ={})).get("defualt")


def test_the_default_is_called_so_or_comes_first(tmp_path: Path) -> None:
    """Without an id, the model named `default` is used, at any position; otherwise the first."""
    first = {"id": "first", "provider": "nobody", "model": "m"}
    default = {"id": "default", "provider": "extractive"}
    model, _ = ModelPool(project(tmp_path, first, default, environ={})).get()
    assert isinstance(model, ExtractiveChatModel)


def test_an_unknown_provider_is_named(tmp_path: Path) -> None:
    """An unknown provider is an error that names the model and the provider."""
    declaration = ModelDeclaration(id="m", provider="opena1", model="gpt-4o")
    with pytest.raises(LorebindError, match=r"model 'm'.*opena1"):
        make_model(declaration, Environment(tmp_path, {}))


def test_a_provider_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a provider's package is not installed, the error names it."""
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    declaration = ModelDeclaration(id="m", provider="anthropic", model="claude")
    with pytest.raises(MissingDependencyError, match=r"model 'm'.*langchain-anthropic"):
        make_model(declaration, Environment(tmp_path, {}))


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    """An environment variable that is not set is named when the model is created."""
    declaration = ModelDeclaration(
        id="m", provider="openai", model="gpt-4o", api_key="{{ .env.TEAM_KEY }}"
    )
    with pytest.raises(MissingVariableError, match="model 'm': variable TEAM_KEY is not set"):
        make_model(declaration, Environment(tmp_path, {}))


def test_a_constructors_error_does_not_show_the_key(tmp_path: Path) -> None:
    """If a provider rejects the settings, the error does not contain the key."""
    declaration = ModelDeclaration(
        id="m",
        provider="openai",
        model="gpt-4o",
        api_key="{{ .env.TEAM_KEY }}",
        config={"temperature": "hot"},
    )
    with pytest.raises(ModelError, match=r"model 'm' \(openai:gpt-4o\)") as caught:
        make_model(declaration, Environment(tmp_path, {"TEAM_KEY": KEY}))
    assert KEY not in str(caught.value)


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_a_providers_client_gets_key_address_and_messages(
    tmp_path: Path, server: FakeOpenAI
) -> None:
    """The key comes from the environment, the address from `config`; the usage is reported."""
    loaded = project(tmp_path, openai(server), environ={"TEAM_KEY": KEY})
    model, counter = ModelPool(loaded).get("cloud")
    assert counter.name == "o200k_base"
    reply = await answer(
        KnowledgeService(loaded), [], model, counter, Request("How often?", instructions="Short.")
    )
    ((path, key, body),) = server.requests
    assert (path, key) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert body["model"] == "gpt-4o-mini"
    assert body["messages"] == [
        {"role": "system", "content": "Short."},
        {"role": "user", "content": "How often?"},
    ]
    assert reply.text == "Every ninety days."
    assert reply.usage["model"]["input_tokens"] == 7
    assert reply.usage["tokenizer"] == "o200k_base"


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize("status", [401, 500])
async def test_a_refusal_is_an_error_without_the_key(
    tmp_path: Path, server: FakeOpenAI, status: int
) -> None:
    """The error names the status but not the key, even if the provider quotes it."""
    server.status = status
    loaded = project(tmp_path, openai(server), environ={"TEAM_KEY": KEY})
    model, _ = ModelPool(loaded).get("cloud")
    with pytest.raises(ModelError, match=str(status)) as caught:
        await answer(KnowledgeService(loaded), [], model, EstimateCounter(), Request("How often?"))
    assert caught.value.__cause__ is not None
    assert KEY not in str(caught.value)


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_an_unreachable_provider_is_a_model_error(tmp_path: Path, server: FakeOpenAI) -> None:
    """If the server cannot be reached, the error says that the model failed."""
    nowhere = openai(server, base_url="http://127.0.0.1:9/v1")
    loaded = project(tmp_path, nowhere, environ={"TEAM_KEY": KEY})
    model, _ = ModelPool(loaded).get("cloud")
    with pytest.raises(ModelError, match=r"the chat model failed: \w*ConnectionError"):
        await answer(KnowledgeService(loaded), [], model, EstimateCounter(), Request("How often?"))


def called(name: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a message of the provider that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"{name}-1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@tool
def price(name: str) -> str:
    """Tell what a thing costs."""
    return f"A {name} costs 2 coins."


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_a_providers_client_takes_tools_and_a_schema(
    tmp_path: Path, server: FakeOpenAI
) -> None:
    """Tools, their results and the schema reach the provider, and its calls are returned."""
    schema = {"type": "object", "properties": {"coins": {"type": "integer"}}, "required": ["coins"]}
    server.says = [called("price", name="pen"), called("final_answer", coins=2)]
    loaded = project(tmp_path, openai(server), environ={"TEAM_KEY": KEY})
    model, counter = ModelPool(loaded).get("cloud")
    request = Request("How much?", tools=[price], output_schema=schema)
    reply = await answer(KnowledgeService(loaded), [], model, counter, request)
    assert (reply.output, reply.text) == ({"coins": 2}, '{"coins": 2}')
    assert reply.usage["model"]["input_tokens"] == 14
    first, second = (body for _, _, body in server.requests)
    offered = {tool["function"]["name"]: tool["function"] for tool in first["tools"]}
    assert offered["final_answer"]["parameters"] == schema
    assert offered["price"]["description"] == "Tell what a thing costs."
    assert first["tool_choice"] == "required"
    assert second["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "price-1",
        "content": "A pen costs 2 coins.",
    }


CLASSES = """\
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

class Mine(BaseChatModel):
    model: str = "none"
    api_key: str = ""
    voice: str = "plain"

    @property
    def _llm_type(self):
        return "mine"

    def _generate(self, messages, *args, **kwargs):
        if self.voice == "broken":
            raise ConnectionError(f"refused: {self.api_key}")
        text = f"{self.model} {self.voice}: {messages[-1].text}"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    @classmethod
    def loud(cls, model, voice):
        return cls(model=model, voice=voice.upper())

def made(**settings):
    return Mine(**settings)

def nothing(**settings):
    return "a text"

class Other:
    pass
"""


def with_code(tmp_path: Path, **declared: Any) -> LoadedProject:
    """Create a project with a chat model in its own code."""
    (tmp_path / "chat.py").write_text(CLASSES, encoding="utf-8")
    return project(
        tmp_path, {"id": "own", "provider": "langchain", **declared}, environ={"TEAM_KEY": KEY}
    )


@pytest.mark.parametrize(
    ("maker", "says"),
    [
        ({"class": "chat:Mine"}, "m low: Hello"),
        ({"factory": "chat:Mine.loud"}, "m LOW: Hello"),
        ({"factory": "chat:made"}, "m low: Hello"),
    ],
)
async def test_a_chat_model_by_class(tmp_path: Path, maker: dict[str, str], says: str) -> None:
    """A class or factory of the project receives `model` and `config`, and answers."""
    loaded = with_code(tmp_path, model="m", config={"voice": "low"}, **maker)
    model, counter = ModelPool(loaded).get("own")
    reply = await answer(KnowledgeService(loaded), [], model, counter, Request("Hello"))
    assert (reply.text, reply.output) == (says, says)
    assert not counter.exact


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"class": "chat:Other"}, "chat:Other is the class Other; expected a class derived from"),
        ({"class": "chat:Nobody"}, "module 'chat' has no 'Nobody'"),
        (
            {"class": "chat:Mine", "config": {"voice": 1}},
            r"model 'own' \(chat:Mine\) cannot be created",
        ),
        ({"factory": "chat:nothing"}, "expected a LangChain chat model.*, got a str"),
        ({"factory": "chat:CLASSES"}, "module 'chat' has no 'CLASSES'"),
    ],
)
def test_a_class_that_is_none(tmp_path: Path, declared: dict[str, Any], problem: str) -> None:
    """The named object is checked before it is called, and so is the object that it returns."""
    with pytest.raises(LorebindError, match=problem):
        ModelPool(with_code(tmp_path, **declared)).get("own")


async def test_a_class_that_quotes_its_key(tmp_path: Path) -> None:
    """Errors show a secret's template instead of its value, when creating and when answering."""
    declared: dict[str, Any] = {"class": "chat:Mine", "api_key": "{{ .env.TEAM_KEY }}"}
    loaded = with_code(tmp_path, **declared, config={"voice": "broken"})
    model, counter = ModelPool(loaded).get("own")
    with pytest.raises(ModelError, match=r"refused: \{\{ .env.TEAM_KEY \}\}") as caught:
        await answer(KnowledgeService(loaded), [], model, counter, Request("Hello"))
    assert KEY not in str(caught.value)
    del model
    with pytest.raises(ModelError, match="cannot be created") as caught:
        ModelPool(with_code(tmp_path, **declared, config={"voice": 1})).get("own")
    assert KEY not in str(caught.value)


def test_a_class_is_declared_not_named(tmp_path: Path) -> None:
    """`provider:model` cannot name a class: a class has to be declared."""
    with pytest.raises(NotFoundError, match="no model 'langchain:chat'"):
        ModelPool(with_code(tmp_path, **{"class": "chat:Mine"})).get("langchain:chat")


def test_an_object_as_class(tmp_path: Path) -> None:
    """In Python, an object can be given in place of a class, and is used as it is."""
    chat = ExtractiveChatModel()
    declared = {"id": "own", "provider": "langchain", "class": chat}
    assert ModelPool(project(tmp_path, declared, environ={})).get("own")[0] is chat
