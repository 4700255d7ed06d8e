"""OpenAI's routes, called by OpenAI's client, by LangChain's, and as chat programs call them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI

from lorebind.server.state.tables import TABLES
from lorebind.server.state.tokens import Tokens
from lorebind_knowledge.database.databases import EmbeddedDatabase

from .conftest import Process, serving
from .test_answers import DOWN, declared, project

pytestmark = pytest.mark.enable_socket  # loopback: OpenAI's client has no Unix sockets

QUESTION = "When can I return goods?"
TEXT = "Within 30 days [1]. See also [7]."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = project(tmp_path_factory.mktemp("chat"))
    with serving(folder, "--port", "0") as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Process) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, **more: Any) -> Any:
    messages = [{"role": "user", "content": QUESTION}]
    return client.chat.completions.create(**{"model": "shop", "messages": messages, **more})


def test_models(client: openai.OpenAI) -> None:
    """The project, its agents and its chat models answer."""
    assert [model.id for model in client.models.list()] == ["shop", "guide", "silent", "default"]
    assert client.models.retrieve("guide").id == "guide"
    with pytest.raises(openai.NotFoundError, match="there is no model 'guid'; did you mean"):
        client.models.retrieve("guid")


def test_an_answer_cites(client: openai.OpenAI) -> None:
    done = ask(client)
    (choice,) = done.choices
    assert (choice.message.content, choice.finish_reason) == (TEXT, "stop")
    (annotation,) = choice.message.annotations
    citation = annotation.url_citation
    assert citation.url == "lorebind://handbook/inline%3Areturns"
    assert TEXT[citation.start_index : citation.end_index] == "[1]"
    assert done.usage.prompt_tokens > 30
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens


def test_a_stream(client: openai.OpenAI) -> None:
    """Chunks have the text as it comes; the last ones the citations and the usage."""
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == TEXT
    assert texts.count(" [1].") == 1
    last, usage = chunks[-2], chunks[-1]
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].delta.annotations[0]["url_citation"]["title"] == "inline:returns"
    assert usage.choices == []
    assert usage.usage.prompt_tokens > 30
    assert len({chunk.id for chunk in chunks}) == 1


def test_sources_for_clients_that_show_only_text(client: openai.OpenAI) -> None:
    listed = {"citations": {"list": True}}
    text = ask(client, extra_body=listed).choices[0].message.content
    assert text == f"{TEXT}\n\nSources:\n[1] inline:returns, line 1"
    chunks = ask(client, stream=True, extra_body=listed)
    streamed = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(streamed) == text


def test_langchains_client(server: Process) -> None:
    model = ChatOpenAI(model="guide", base_url=f"{server.url}/v1", api_key="-", max_retries=0)
    message = model.invoke([("system", "Be brief."), ("user", QUESTION)])
    assert message.text == TEXT
    assert message.usage_metadata["input_tokens"] > 30
    assert "".join(chunk.text for chunk in model.stream(QUESTION)) == TEXT


def test_an_agent_and_a_plain_model(tmp_path: Path) -> None:
    """An agent has its own bindings and instructions; a chat model gets nothing but the messages.

    The model of this project repeats what it is told.
    """
    whole = declared()
    whole["models"] = [{"id": "default", "provider": "langchain", "class": "echo:Echo"}]
    folder = project(tmp_path)
    (folder / "lorebind.yaml").write_text(json.dumps(whole))
    (folder / "echo.py").write_text(ECHO)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": [{"type": "text", "text": "When do tours start?"}]},
    ]
    with serving(folder, "--port", "0") as server, client_of(server) as client:

        def told(model: str) -> Any:
            sampling = {"temperature": 0.5, "max_tokens": 7, "user": "u", "metadata": {"a": "b"}}
            done = ask(client, model=model, messages=messages, **sampling)
            return json.loads(done.choices[0].message.content)

        guide, plain = told("guide"), told("default")
    assert guide["messages"][0] == "Guide.\n\nBe brief."
    assert guide["messages"][1:3] == ["Hello", "Hello!"]
    assert "Tours start at nine." in guide["messages"][3]
    assert guide["settings"] == {"temperature": 0.5, "max_tokens": 7}
    assert plain["messages"] == ["Be brief.", "Hello", "Hello!", "When do tours start?"]


ECHO = """
import json
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

class Echo(BaseChatModel):
    @property
    def _llm_type(self):
        return "echo"

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        told = {"messages": [str(message.text) for message in messages], "settings": settings}
        message = AIMessage(json.dumps(told))
        return ChatResult(generations=[ChatGeneration(message=message)])
"""


@pytest.mark.parametrize(
    ("more", "param", "reason"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "not supported"),
        ({"n": 2}, "n", "not supported"),
        ({"logprobs": True}, "logprobs", "not supported"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages", "asks nothing"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages", "asks nothing"),
        ({"messages": [{"role": "boss", "content": "a"}]}, "messages.0.role", "Input should be"),
        ({"response_format": {"type": "json_object"}}, "response_format", "not supported"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_answered_is_named(
    client: openai.OpenAI, more: dict[str, Any], param: str, reason: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, **more)
    assert reason in refused.value.message
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"


def test_an_unknown_model(client: openai.OpenAI) -> None:
    for stream in (False, True):
        with pytest.raises(openai.NotFoundError) as refused:
            ask(client, model="gpt-5", stream=stream)
        assert refused.value.code == "model_not_found"
        assert "known: default, guide, shop, silent" in refused.value.message


def test_requests_of_chat_programs(server: Process) -> None:
    """Further keys of programs are ignored; errors of broken requests have OpenAI's shape."""
    with httpx.Client(base_url=server.url) as api:
        body = {
            "model": "shop",
            "messages": [{"role": "user", "content": QUESTION}],
            "stream": False,
            "chat_id": "x",
            "session_id": "y",
            "keep_alive": "5m",
            "tools": [],
            "logit_bias": None,
        }
        assert api.post("/v1/chat/completions", json=body).status_code == 200
        wrong = api.post("/v1/chat/completions", content=b"{", headers={"content-type": JSON})
        assert (wrong.status_code, wrong.json()["error"]["type"]) == (400, "invalid_request_error")
        for path, status in (("/v1/nothing", 404), ("/v1/chat/completions", 405)):
            refused = api.get(path)
            assert refused.status_code == status
            assert refused.json()["error"]["message"]


JSON = "application/json"


def client_of(server: Process, key: str = "-") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


def test_tokens_and_rates(tmp_path: Path) -> None:
    """The key is a token with the right to read; without a valid one, the error is OpenAI's."""
    folder = project(tmp_path, rate_limit={"per_second": 0.01, "burst": 2})
    (folder / ".lorebind").mkdir()
    database = EmbeddedDatabase(folder / ".lorebind" / "server.db", TABLES)
    _, key = Tokens(database).create("reader", "read")
    database.close()
    with serving(folder, "--port", "0") as server:
        with client_of(server, "wrong") as client, pytest.raises(openai.AuthenticationError):
            ask(client)
        with client_of(server, key) as client:
            assert ask(client).choices[0].message.content == TEXT
            ask(client)
            with pytest.raises(openai.RateLimitError) as limited:
                ask(client)
        assert limited.value.type == "rate_limit_error"


def test_a_model_that_fails(tmp_path: Path) -> None:
    whole = declared() | {"models": [DOWN]}
    folder = project(tmp_path)
    (folder / "lorebind.yaml").write_text(json.dumps(whole))
    with serving(folder, "--port", "0", KEY="k") as server, client_of(server) as client:
        with pytest.raises(openai.InternalServerError, match="the chat model failed"):
            ask(client)
        with pytest.raises(openai.APIError, match="the chat model failed"):
            list(ask(client, stream=True))


def test_a_schema(tmp_path: Path) -> None:
    """`response_format` with a JSON Schema makes the answer match it, or the request fail."""
    folder = project(tmp_path, says='{"days": 30}')
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    with serving(folder, "--port", "0") as server, client_of(server) as client:
        done = ask(client, response_format=wanted)
    assert json.loads(done.choices[0].message.content) == {"days": 30}
