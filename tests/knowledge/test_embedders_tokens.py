"""Token counts of embedders before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest
import tiktoken
from langchain_core.embeddings import DeterministicFakeEmbedding

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.embedders.base import TokenCount
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.embedders.langchain import LangChainEmbedder
from lorebind_knowledge.embedders.openai import MAX_TOKENS, OpenAIEmbedder
from lorebind_knowledge.embedders.retrying import RetryingEmbedder
from lorebind_knowledge.embedders.wrapper import make_embedder
from lorebind_knowledge.plumbing.tokenizing import encode

TEXTS = ["Rotate the keys.", "", "Öl und 東京 🙂", "<|endoftext|>", "half: \ud83d", "a\nb\n"]


def no_key() -> str:
    raise AssertionError("nobody is to be asked")


def openai(model: str, **settings: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(model=model, api_key=no_key, **settings)


def test_without_a_tokenizer_it_is_an_estimate() -> None:
    """The count is one token per four characters of each text, rounded up, marked as estimated."""
    for embedder in (HashingEmbedder(), openai("own-model")):
        assert embedder.count_tokens(["", "a", "abcd", "abcde"][1:]) == TokenCount(
            4, "len/4", False
        )


@pytest.mark.parametrize(
    "model", ["text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"]
)
def test_openai_is_exact(model: str) -> None:
    """The sent texts are counted with the model's own encoding, as tiktoken names it."""
    count = openai(model).count_tokens(["Rotate the keys.", "<|endoftext|> is text"])
    assert (count.tokenizer, count.exact) == (tiktoken.encoding_name_for_model(model), True)
    expected = [
        encode("cl100k_base", text) for text in ("Rotate the keys.", "<|endoftext|> is text")
    ]
    assert count.tokens == sum(map(len, expected))


def test_openai_counts_what_is_sent() -> None:
    """Texts are counted as sent: truncated, without line breaks, and a space for empty ones."""
    embedder = openai("text-embedding-3-small")
    assert embedder.count_tokens(["word " * 20_000]).tokens == MAX_TOKENS
    assert embedder.count_tokens([""]).tokens == 1
    lines = ["a\n\nb"]
    stripped = openai("text-embedding-3-small", strip_newlines=True)
    assert stripped.count_tokens(lines) == embedder.count_tokens(["a  b"])


def test_langchain_counts_by_the_model() -> None:
    """OpenAI's models are counted exactly with any class; other models are estimated."""
    inner = DeterministicFakeEmbedding(size=8)
    exact = openai("text-embedding-3-small").count_tokens(TEXTS[:1])
    named = LangChainEmbedder(inner, model="text-embedding-3-small")
    configured = LangChainEmbedder(inner, settings={"model": "text-embedding-3-small"})
    assert named.count_tokens(TEXTS[:1]) == configured.count_tokens(TEXTS[:1]) == exact
    for other in (LangChainEmbedder(inner), LangChainEmbedder(inner, settings={"model": ["x"]})):
        assert other.count_tokens(TEXTS[:1]) == TokenCount(4, "len/4", False)
    assert named.count_tokens(TEXTS).tokens > exact.tokens


def test_wrapped_it_counts_the_same() -> None:
    """An embedder with retries counts the same as the inner one."""
    inner = openai("text-embedding-3-small")
    assert RetryingEmbedder(inner).count_tokens(TEXTS) == inner.count_tokens(TEXTS)


@pytest.mark.parametrize(
    "declared",
    [
        {"provider": "openai", "api_key": "{{ .env.KEY }}"},
        {
            "provider": "langchain",
            "class": "langchain_core.embeddings:DeterministicFakeEmbedding",
            "config": {"size": 8},
        },
    ],
    ids=["openai", "langchain"],
)
def test_the_price_is_declared(declared: dict[str, Any], tmp_path: Any) -> None:
    """The price is a positive number, and is not part of the fingerprint."""

    def loaded(**more: Any) -> Any:
        data = {"name": "shop", "embedders": [{"id": "paid", **declared, **more}]}
        return build_project(data, root=tmp_path, environ={"KEY": "k"})

    free, paid = loaded(), loaded(price_per_million_tokens=0.02)
    assert (free.embedder().token_price, paid.embedder().token_price) == (None, 0.02)
    pair = [make_embedder(file.embedder(), file.environment) for file in (free, paid)]
    assert pair[0].fingerprint == pair[1].fingerprint
    for wrong in (0, -1, "0.02", float("inf"), float("nan"), True):
        with pytest.raises(ConfigurationError, match="price_per_million_tokens"):
            loaded(price_per_million_tokens=wrong)


@pytest.mark.parametrize("provider", ["local", "hashing"])
def test_what_runs_here_has_no_price(provider: str, tmp_path: Any) -> None:
    """Local embedders do not have the key for a price."""
    declared = {"id": "free", "provider": provider}
    data = {"name": "shop", "embedders": [declared]}
    assert build_project(data, root=tmp_path).embedder().token_price is None
    data = {"name": "shop", "embedders": [{**declared, "price_per_million_tokens": 1}]}
    with pytest.raises(ConfigurationError, match="unknown key 'price_per_million_tokens'"):
        build_project(data, root=tmp_path)
