"""OpenAI's client against a local server that answers, refuses, hangs and sends nonsense."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.errors import EmbedderError, MissingDependencyError
from lorebind_config.templates import Environment
from lorebind_knowledge.embedders.base import Embedder, embed_documents, embed_query
from lorebind_knowledge.embedders.hashing import HashingEmbedderDeclaration
from lorebind_knowledge.embedders.langchain import LangChainEmbedderDeclaration
from lorebind_knowledge.embedders.local import LocalEmbedderDeclaration
from lorebind_knowledge.embedders.openai import MAX_TOKENS, OpenAIEmbedderDeclaration, cut_to_limit
from lorebind_knowledge.embedders.retrying import RetryingEmbedder
from lorebind_knowledge.embedders.wrapper import make_embedder
from lorebind_knowledge.plumbing.bridge import run
from lorebind_knowledge.plumbing.tokenizing import encode
from tests.density import examples

from .embedding_server import (
    DIMENSION,
    KEY,
    EmbeddingServer,
    Reply,
    embedding_server,
    embeddings,
    openai_embedder,
    refusal,
    vector_of,
)
from .test_embedders_retrying import Clock

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

NOW = {"backoff_ms": 0, "max_backoff_ms": 0}
"""Retries without waits."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with embedding_server() as server:
        yield server


def declared(
    root: Path, server: EmbeddingServer | None, environ: dict[str, str] | None = None, **data: Any
) -> Embedder:
    """Return an embedder as YAML declares it, with additions to its `config`."""
    config = {"retry": NOW} | ({"base_url": server.url} if server else {})
    data = {"id": "e", "provider": "openai", "config": config | data.pop("config", {})} | data
    declaration = OpenAIEmbedderDeclaration.model_validate(data)
    return make_embedder(declaration, Environment(root, environ or {"OPENAI_API_KEY": KEY}))


# Requests and responses.


async def test_vectors(tmp_path: Path, server: EmbeddingServer) -> None:
    """Texts are sent in one request with the key, and their vectors return in order."""
    embedder = declared(tmp_path, server, model="small")
    texts = ["one", "two", "three"]
    matrix = await embed_documents(embedder, texts)
    assert matrix.tolist() == [vector_of(text, DIMENSION) for text in texts]
    assert (await embed_query(embedder, "two")).tolist() == matrix[1].tolist()
    assert [body["path"] for body in server.bodies] == ["/v1/embeddings"] * 2
    assert server.bodies[0]["input"] == texts
    assert server.bodies[0]["model"] == "small"
    assert {name.lower(): value for name, value in server.headers[0].items()}[
        "authorization"
    ] == f"Bearer {KEY}"


async def test_answers_as_plain_numbers(server: EmbeddingServer) -> None:
    """Servers that do not support the requested base64 encoding are understood too."""
    server.replies.append(Reply(body=embeddings([[1.0, 2.0], [3.0, 4.0]], "float")))
    matrix = await embed_documents(openai_embedder(server), ["a", "b"])
    assert matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("model", "dimension", "sent", "stated"),
    [
        ("text-embedding-3-small", 64, 64, 64),
        ("text-embedding-3-small", None, None, 1536),
        ("text-embedding-3-large", 3072, None, 3072),
        ("text-embedding-ada-002", 1536, None, 1536),
        ("another", 32, 32, 32),
        ("another", None, None, None),
    ],
)
async def test_dimension(
    server: EmbeddingServer, model: str, dimension: int | None, sent: int | None, stated: int | None
) -> None:
    """The dimension is sent if it differs from the model's own, and reported if it is known."""
    embedder = openai_embedder(server, model=model, dimension=dimension)
    server.replies.append(Reply(body=embeddings([[1.0] * (stated or 5)])))
    await embed_query(embedder, "a")
    assert server.bodies[0].get("dimensions") == sent
    assert embedder.fingerprint.dimension == stated


async def test_what_no_model_reads_is_changed(server: EmbeddingServer) -> None:
    """An empty text is sent as a space, since OpenAI refuses a batch with an empty one."""
    await embed_documents(openai_embedder(server), ["", "a\r\nb\nc", "half \ud83d"])
    assert server.bodies[0]["input"] == [" ", "a\r\nb\nc", "half ?"]


async def test_strip_newlines(server: EmbeddingServer) -> None:
    """If configured, line breaks are sent as spaces; that means another embedder."""
    embedder = openai_embedder(server, strip_newlines=True)
    await embed_documents(embedder, ["a\r\nb\nc\rd", "\n"])
    assert server.bodies[0]["input"] == ["a b c d", " "]
    assert embedder.fingerprint.key != openai_embedder(server).fingerprint.key


async def test_long_texts_are_cut(tmp_path: Path, server: EmbeddingServer) -> None:
    """Text beyond the limit of OpenAI's models is not sent, and is counted."""
    embedder = declared(tmp_path, server, config={"dimension": 8})
    texts = [" word" * MAX_TOKENS, " word" * (MAX_TOKENS + 50), "short", "é" * 5000]
    await embed_documents(embedder, texts)
    whole, cut, *others = server.bodies[0]["input"]
    assert [whole, *others] == [texts[0], *texts[2:]]
    assert texts[1].startswith(cut)
    assert len(encode("cl100k_base", cut)) == MAX_TOKENS
    assert embedder.count_truncated(texts) == 1


async def test_long_texts_of_other_models_are_not_cut(server: EmbeddingServer) -> None:
    """The limits of other models are unknown, so their server decides."""
    embedder = openai_embedder(server)
    text = "word " * 9000
    await embed_query(embedder, text)
    assert server.bodies[0]["input"] == [text]
    assert embedder.count_truncated([text]) == 0


@settings(max_examples=examples(15), deadline=None)
@given(st.integers())
def test_cutting(seed: int) -> None:
    """A truncated text is the start of the text, in whole characters, as long as the limit."""
    dice = random.Random(seed)
    alphabet = [chr(dice.randrange(1, 0x2FFFF)) for _ in range(40)] + [
        "a",
        " ",
        "\n",
        "é",
        "\ud83d",
    ]
    text = "".join(dice.choices(alphabet, k=dice.randrange(2000, 9000)))
    cut = cut_to_limit(text)
    sent = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert (sent if cut != text else text).startswith(cut)
    assert len(encode("cl100k_base", cut)) <= MAX_TOKENS
    if cut != text:
        assert len(encode("cl100k_base", cut)) > MAX_TOKENS - 10


async def test_no_tokenizer_and_no_network_are_needed(server: EmbeddingServer) -> None:
    """Texts of usual length are sent without loading any encoding."""
    usual = openai_embedder(server, model="text-embedding-3-small", dimension=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tiktoken_ext.openai_public", None)
        await embed_documents(usual, ["usual"])


# The fingerprint.


def test_fingerprint(server: EmbeddingServer, tmp_path: Path) -> None:
    """Model, dimension and server determine the fingerprint; the key and call settings do not."""
    plain = declared(tmp_path, None).fingerprint
    assert str(plain) == "openai/text-embedding-3-small"
    assert (plain.revision, plain.dimension) == ("", 1536)
    quick = declared(tmp_path, None, config={"batch_size": 1, "timeout_seconds": 3})
    assert quick.fingerprint == plain
    keys = {
        plain.key,
        declared(tmp_path, None, model="other").fingerprint.key,
        declared(tmp_path, None, config={"dimension": 8}).fingerprint.key,
        declared(tmp_path, None, config={"strip_newlines": True}).fingerprint.key,
    }
    assert len(keys) == 4


def test_another_address_is_no_other_embedder(tmp_path: Path) -> None:
    """Vectors of the same model at two addresses are comparable, until an ingest checks them."""
    environ = {"OPENAI_API_KEY": KEY, "HOST": "internal.example"}
    for more in ({}, {"strip_newlines": True}):
        address = "https://me:hun@ter2@{{ .env.HOST }}/v1"
        config = {"base_url": address, **more}
        moved = declared(tmp_path, None, environ, config=config).fingerprint
        elsewhere = declared(tmp_path, None, config=more).fingerprint
        assert moved.key == elsewhere.key
        assert moved.address != elsewhere.address


async def test_an_address_by_a_variable_is_not_told(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    """An outage at an address from a variable shows at most the variable's name."""
    environ = {"OPENAI_API_KEY": KEY, "PLACE": f"{server.url}/hidden"}
    config = {"base_url": "{{ .env.PLACE }}", "retry": {"attempts": 1}}
    embedder = declared(tmp_path, None, environ, config=config)
    server.replies.append(refusal(404, f"nothing at {environ['PLACE']}/embeddings"))
    with pytest.raises(EmbedderError, match=r"nothing at {{ \.env\.PLACE }}/embeddings") as caught:
        await embed_query(embedder, "a")
    assert "hidden" not in str(caught.value)


# The key.


async def test_a_key_of_ones_own(tmp_path: Path, server: EmbeddingServer) -> None:
    """The key comes from the declared template."""
    environ = {"TEAM_KEY": "sk-team", "OPENAI_API_KEY": KEY}
    embedder = declared(tmp_path, server, environ, api_key="{{ .env.TEAM_KEY }}")
    server.replies.append(Reply(body=embeddings([[1.0] * 1536])))
    await embed_query(embedder, "a")
    assert "Bearer sk-team" in server.headers[0].values()


async def test_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key, the first call raises an error that names the variable and `.env`."""
    monkeypatch.setenv("OPENAI_API_KEY", "of the process, which the project does not see")
    embedder = declared(tmp_path, None, {"OTHER": "x"})
    assert embedder.fingerprint.dimension == 1536
    with pytest.raises(EmbedderError, match=r"'e': variable OPENAI_API_KEY is not set.*\.env"):
        await embed_query(embedder, "a")


async def test_a_server_that_wants_no_key(tmp_path: Path, server: EmbeddingServer) -> None:
    """With a custom address, the key can be omitted."""
    embedder = declared(tmp_path, server, {"OTHER": "x"}, model="small")
    assert (await embed_query(embedder, "a")).shape == (DIMENSION,)


@pytest.mark.parametrize("key", ["", "sk-abc\n", "sk abc", "sk-ä", "sk\0"])
async def test_a_key_that_cannot_be(server: EmbeddingServer, key: str) -> None:
    """An invalid key raises an error that does not show it, and nothing is sent."""
    with pytest.raises(EmbedderError, match="the API key is empty or contains") as caught:
        await embed_query(openai_embedder(server, api_key=lambda: key), "a")
    assert not key or key not in str(caught.value)
    assert server.bodies == []


async def test_what_the_process_is_set_to_changes_nothing(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment variables of the client's libraries do not redirect texts."""
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_TYPE", "azure")
    assert (await embed_query(openai_embedder(server), "a")).shape == (DIMENSION,)
    client = await openai_embedder(server, base_url=None)._client()
    assert client.openai_api_base == "https://api.openai.com/v1"
    assert str(client.async_client._client.base_url) == "https://api.openai.com/v1/"


async def test_without_the_extra(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client is not installed, the error names the extra."""
    monkeypatch.setitem(sys.modules, "langchain_openai", None)
    with pytest.raises(MissingDependencyError, match=r"openai/small needs .*lorebind\[openai\]"):
        await embed_query(openai_embedder(server), "a")


# Failures.


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refusal(401, f"Incorrect API key provided: {KEY}"), r"401.*\[secret\].*check api_key"),
        (refusal(404, "The model `small` does not exist"), r"does not exist.*check model"),
        (refusal(400, "maximum context length is 8192 tokens"), r"chunking\.size"),
        (Reply(body=embeddings([[1.0, 2.0]])), r"shape \(1, 2\) for 2 texts"),
        (Reply(body=embeddings([[1.0], [2.0]])), r"shape \(2, 1\).*expected \(2, 8\)"),
        (Reply(body=embeddings([[1.0, 2.0], [1.0]])), "unequal length"),
        (Reply(body=embeddings([[float("nan")] * 8] * 2, "base64")), "not finite"),
    ],
)
async def test_refusals(server: EmbeddingServer, reply: Reply, message: str) -> None:
    """A refusal or a wrong answer is raised immediately, suggests a fix and shows no key."""
    server.replies.append(reply)
    embedder = RetryingEmbedder(openai_embedder(server, dimension=8))
    with pytest.raises(EmbedderError, match=message) as caught:
        await embed_documents(embedder, ["a", "b"])
    assert len(server.bodies) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refusal(429, "slow down", Retry_After="3"), "429 - slow down; gave up after 2 attempts"),
        (refusal(500, "oops"), "500"),
        (Reply(503, "<html>" + "x" * 9000, {"Content-Type": "text/html"}), "503"),
        (Reply(body="{not json"), "the answer contains no embeddings"),
        (Reply(body="<html>", headers={"Content-Type": "text/html"}), "contains no embeddings"),
        (Reply(body={"object": "list", "data": []}), "contains no embeddings"),
        (Reply(body={"data": [{"embedding": "AAA="}]}), "contains no embeddings"),
        (Reply(body=[1]), "contains no embeddings"),
        (Reply(drop=True), "Connection error"),
    ],
)
async def test_what_passes(server: EmbeddingServer, reply: Reply, message: str) -> None:
    """A transient failure is retried, and named if it persists."""
    embedder = RetryingEmbedder(openai_embedder(server), retry=RetryConfig(attempts=2, **NOW))
    server.replies.append(reply)
    assert (await embed_query(embedder, "a")).tolist() == vector_of("a", DIMENSION)
    assert len(server.bodies) == 2
    server.replies.extend([reply] * 2)
    with pytest.raises(EmbedderError, match=message) as caught:
        await embed_query(embedder, "a")
    assert len(server.bodies) == 4
    assert len(str(caught.value)) < 1000


async def test_a_server_that_hangs(server: EmbeddingServer) -> None:
    """A call is retried after its timeout; the final error names the timeout."""
    server.replies.append(Reply(hang=True))
    inner = openai_embedder(server, timeout=1)
    assert (await embed_query(RetryingEmbedder(inner), "a")).shape == (DIMENSION,)
    server.replies.append(Reply(hang=True))
    hasty = RetryingEmbedder(openai_embedder(server, timeout=0.05), retry=RetryConfig(attempts=1))
    with pytest.raises(EmbedderError, match=r"no answer within 0\.05 s; .*batch_size"):
        await embed_query(hasty, "a")


async def test_the_wait_that_the_server_asks_for(server: EmbeddingServer) -> None:
    """`Retry-After` determines the wait, although the client wraps it in its own exceptions."""
    clock = Clock()
    embedder = RetryingEmbedder(
        openai_embedder(server), sleep=clock.sleep, clock=clock, random=lambda: 0.0
    )
    server.replies.append(refusal(429, "slow down", Retry_After="17"))
    server.replies.append(refusal(503, "busy", retry_after_ms="250"))
    await embed_query(embedder, "a")
    assert clock.slept == [17, 0.25]


async def test_nobody_listens(server: EmbeddingServer) -> None:
    """An address without a server is reported with the system's own reason."""
    embedder = openai_embedder(server, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(EmbedderError, match=r"Connection error.*Connect call failed"):
        await embed_query(embedder, "a")


@pytest.mark.parametrize("status", [413, 400])
async def test_batches_shrink(tmp_path: Path, server: EmbeddingServer, status: int) -> None:
    """A batch that is refused because of its size is sent in parts, and later ones are smaller."""
    embedder = declared(tmp_path, server, model="small", config={"batch_size": 12})
    texts = [f"text {number}" for number in range(12)]
    if status == 413:
        server.most_texts = 3
    else:
        server.replies.append(refusal(400, "Requested 9 tokens, max 8 tokens per request"))
    matrix = await embed_documents(embedder, texts)
    np.testing.assert_array_equal(
        matrix, np.array([vector_of(text, DIMENSION) for text in texts], dtype=np.float32)
    )
    expected = [12, 6, 3, 3, 3, 3] if status == 413 else [12, 6, 6]
    assert server.batches == expected
    await embed_documents(embedder, texts)
    assert server.batches[len(expected) :] == expected[-(12 // expected[-1]) :]


async def test_calls_at_a_time(tmp_path: Path, server: EmbeddingServer) -> None:
    """The server receives as many concurrent calls as allowed, and never more."""
    embedder = declared(tmp_path, server, model="small", config={"max_concurrent": 5})
    server.gate = lambda: barrier.wait(20)
    barrier = threading.Barrier(5)
    await asyncio.gather(*(embed_query(embedder, f"text {number}") for number in range(50)))
    assert server.served_at_once == 5
    assert len(server.bodies) == 50


async def test_a_call_can_be_cancelled(server: EmbeddingServer) -> None:
    """A cancelled call does not wait for the server."""
    arrived = threading.Event()
    server.gate = arrived.set
    server.replies.append(Reply(hang=True))
    embedder = RetryingEmbedder(openai_embedder(server, timeout=600), max_concurrent=1)
    task = asyncio.create_task(embed_query(embedder, "a"))
    assert await asyncio.to_thread(arrived.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await embed_query(embedder, "b")).shape == (DIMENSION,)


def test_one_loop_after_another(server: EmbeddingServer) -> None:
    """Sync callers and successive event loops can share an embedder."""
    embedder = openai_embedder(server)
    for _ in range(3):
        asyncio.run(embed_documents(embedder, ["a"]))
    for _ in range(2):
        run(embed_documents(embedder, ["a"]))
    asyncio.run(embed_documents(embedder, ["a"]))
    assert len(server.bodies) == 6
    assert len(embedder._clients) == 2  # for the loop of sync callers, and for the last one


async def test_the_log_holds_no_secrets(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Even at the most verbose level, neither Lorebind nor the client logs the key."""
    caplog.set_level(logging.DEBUG)
    server.replies.append(refusal(500, f"cannot serve {KEY}"))
    retry = RetryConfig(attempts=2, **NOW)
    await embed_query(RetryingEmbedder(openai_embedder(server), retry=retry), "a")
    assert KEY not in caplog.text


# The declaration itself.


async def test_declared_limits(tmp_path: Path, server: EmbeddingServer) -> None:
    """Attempts and calls per minute are limited as declared."""
    config = {"retry": {"attempts": 5, **NOW}, "requests_per_minute": 60_000}
    embedder = declared(tmp_path, server, model="small", config=config)
    server.replies.extend([refusal(500, "oops")] * 4)
    assert (await embed_query(embedder, "a")).shape == (DIMENSION,)
    assert embedder.pace.per_minute == 60_000  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "data", "dimension"),
    [
        (OpenAIEmbedderDeclaration, {"provider": "openai"}, 1536),
        (OpenAIEmbedderDeclaration, {"provider": "openai", "model": "own"}, None),
        (OpenAIEmbedderDeclaration, {"provider": "openai", "config": {"dimension": 99}}, 99),
        (LocalEmbedderDeclaration, {"provider": "local"}, 384),
        (HashingEmbedderDeclaration, {"provider": "hashing", "config": {"dimension": 77}}, 77),
        (LangChainEmbedderDeclaration, {"provider": "langchain", "class": "a:B"}, None),
    ],
)
def test_known_dimension(kind: Any, data: dict[str, Any], dimension: int | None) -> None:
    """The length of the vectors is known before anything is loaded, if possible."""
    assert kind.model_validate({"id": "e"} | data).known_dimension == dimension


@pytest.mark.parametrize(
    ("model", "config", "message"),
    [
        ("text-embedding-3-small", {"dimension": 1537}, "expected at most 1536"),
        ("text-embedding-ada-002", {"dimension": 512}, "expected 1536"),
        ("own", {"base_url": "127.0.0.1/v1"}, "is not a web address"),
        ("own", {"retry": {"backoff_ms": 9, "max_backoff_ms": 8}}, "at most max_backoff_ms, 8"),
    ],
)
def test_declarations_that_cannot_be(model: str, config: dict[str, Any], message: str) -> None:
    """Settings that no model or server supports are refused when they are read."""
    with pytest.raises(ValidationError, match=message):
        OpenAIEmbedderDeclaration.model_validate(
            {"id": "e", "provider": "openai", "model": model, "config": config}
        )
