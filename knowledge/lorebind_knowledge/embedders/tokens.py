"""Count the tokens that an embedder would read, with the model's own tokenizer where it is fast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lorebind_knowledge.plumbing.tokenizing import EncodingName, encode

OPENAI_ENCODING: EncodingName = "cl100k_base"
"""The encoding of all of OpenAI's embedding models."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The number of tokens of some texts, and the tokenizer that counted them."""

    tokens: int
    tokenizer: str
    """The encoding's name, or `len/4`."""
    exact: bool
    """Whether the model's provider counts the same."""


def estimated(texts: Iterable[str]) -> TokenCount:
    """Count one token per four characters of each text, rounded up."""
    return TokenCount(sum((len(text) + 3) // 4 for text in texts), "len/4", exact=False)


def counted(texts: Iterable[str]) -> TokenCount:
    """Count the tokens that OpenAI's embedding models read, each text by itself.

    Raises:
        MissingDependencyError: the encoding is not installed.
    """
    tokens = sum(len(encode(OPENAI_ENCODING, text)) for text in texts)
    return TokenCount(tokens, OPENAI_ENCODING, exact=True)
