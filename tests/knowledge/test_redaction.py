"""Messages of third parties, without the secrets they were given."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, SecretStr

from lorebind_config.errors import EmbedderError
from lorebind_config.redaction import redacted_message, without
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.langchain import LangChainEmbedder


class _Client(BaseModel):
    key: SecretStr = SecretStr("sk-1")
    empty: SecretStr = SecretStr("")
    plain: str = "plain"


def test_what_the_holder_keeps_is_hidden() -> None:
    """A secret of the failed object is not repeated; the rest of the message is."""
    message = redacted_message(
        ValueError("Incorrect API key provided: sk-1 (plain)"), holder=_Client()
    )
    assert message == "ValueError: Incorrect API key provided: [secret] (plain)"


def test_what_templates_gave_is_hidden() -> None:
    """Values filled into templates are hidden at any depth; text from the file is not."""
    written = {"api_key": "{{ .env.A }}", "more": [{"token": "{{ .env.B }}"}], "mode": "e", "n": 3}
    resolved = {"api_key": "sk-2", "more": [{"token": "tk"}], "mode": "e", "n": 3}
    message = redacted_message(KeyError("sk-2 tk e 3"), written=written, resolved=resolved)
    assert message == "KeyError: '[secret] [secret] e 3'"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a/b c+é", "X"),
        ("http://h/a%2Fb%20c%2b%C3%A9?q=a%252Fb%2520c%252B%25C3%25A9", "http://h/X?q=X"),
        ("A%2FB+c%2B%c3%a9.", "X."),
        ("'a/b c+\\xe9' \"a/b c+\\u00e9\"", "'a/b c+\\xe9' \"X\""),
        ("a/b\nc+é", "a/b\nc+é"),
    ],
)
def test_a_value_in_other_words(text: str, safe: str) -> None:
    """A value is found when it is encoded for URLs, once or twice, or for JSON, in any case."""
    assert without(text, {"a/b c+é": "X"}) == safe


def test_parts_of_an_address() -> None:
    """The host, path and password of a URL are hidden when they are quoted alone."""
    value = "https://me:hidden1@Wiki.Internal:8443/team/pages?sig=hidden2"
    text = "host='wiki.internal', port=8443: /team/pages?sig=hidden2 for me (hidden1)"
    assert without(text, {value: "{{ .env.WIKI }}"}) == (
        "host='{{ .env.WIKI }}', port=8443: {{ .env.WIKI }}?{{ .env.WIKI }} for {{ .env.WIKI }} "
        "({{ .env.WIKI }})"
    )


def test_short_values_are_words() -> None:
    """Short values are removed only as whole words; longer words are left intact."""
    assert without("eu-1: a queue in EU, 10 of 1", {"eu": "X", "1": "Y"}) == (
        "X-Y: a queue in X, 10 of Y"
    )


def test_the_longest_value_goes_first() -> None:
    """If a value is a prefix of another one, the rest of the longer value is hidden too."""
    assert without("abcdef abcd", {"abcd": "X", "abcdef": "Y"}) == "Y X"


async def test_an_embedder_that_quotes_its_key() -> None:
    """The error of a failed LangChain embedder contains its message, but not its key."""
    from langchain_core.embeddings import Embeddings

    class Quoting(Embeddings):
        def __init__(self) -> None:
            self.openai_api_key = SecretStr("sk-3")

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise PermissionError("refused: sk-3")

        def embed_query(self, text: str) -> list[float]:
            raise PermissionError("refused: sk-3")

    with pytest.raises(EmbedderError, match=r"PermissionError: refused: \[secret\]$"):
        await embed_query(LangChainEmbedder(Quoting()), "x")


@pytest.mark.parametrize("value", ["*", "/", "./", "**", "-"])
def test_values_that_every_message_may_contain(value: str) -> None:
    """A value of up to three marks is not hidden: it tells nothing."""
    text = "1 pattern */*.md or ./a - of **/*.md matches a file"
    assert without(text, {value: "{{ .env.X }}"}) == text


@pytest.mark.parametrize("value", ["a", "1", "eu", "k1", "a-b", "****", "é2"])
def test_short_values_are_hidden(value: str) -> None:
    """A value with a letter or digit is hidden where it is a word."""
    assert without(f"in {value} here", {value: "X"}) == "in X here"
