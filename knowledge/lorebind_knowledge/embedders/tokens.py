"""How many tokens an embedder would read: by the model's own tokenizer where it is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.tokenizing import EncodingName, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

OPENAI_ENCODING: EncodingName = "cl100k_base"
"""That of all of OpenAI's embedding models."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The tokens of some texts, and what counted them."""

    tokens: int
    tokenizer: str
    """The encoding's name, or `len/4`."""
    exact: bool
    """Whether the model's provider counts the same."""


def estimated(texts: Iterable[str]) -> TokenCount:
    """A token for every four characters of a text, rounded up."""
    return TokenCount(sum((len(text) + 3) // 4 for text in texts), "len/4", exact=False)


def counted(texts: Iterable[str]) -> TokenCount:
    """The tokens that OpenAI's embedding models read, each text by itself.

    Raises:
        MissingDependencyError: the encoding is not installed.
    """
    tokens = sum(len(encode(OPENAI_ENCODING, text)) for text in texts)
    return TokenCount(tokens, OPENAI_ENCODING, exact=True)
