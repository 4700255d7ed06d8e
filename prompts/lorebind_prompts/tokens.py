"""Counting tokens: with the model's own tokenizer where there is one, else by length.

OpenAI's encodings are exact and need no network, see `lorebind_knowledge.tokenizing`.
"""

from __future__ import annotations

import re
from typing import Protocol

from lorebind_knowledge.tokenizing import EncodingName, check_encoding, encode

_MODELS: list[tuple[str, EncodingName]] = [
    (r"gpt-4o|gpt-4\.|gpt-[5-9]|gpt-oss|chatgpt-4o|o[1-9]\b", "o200k_base"),
    (r"gpt-4\b|gpt-3\.5|gpt-35|text-embedding-3|text-embedding-ada", "cl100k_base"),
]


class TokenCounter(Protocol):
    """Counts the tokens of a text. Must be safe to use from several threads."""

    @property
    def name(self) -> str:
        """What counted, as it is told to users."""

    @property
    def exact(self) -> bool:
        """Whether the model itself counts the same."""

    def count(self, text: str) -> int:
        """How many tokens the text has; 0 for an empty one."""


class EstimateCounter:
    """A token for every four characters, rounded up: the rule for models without a tokenizer."""

    name = "len/4"
    exact = False

    def count(self, text: str) -> int:
        return (len(text) + 3) // 4


class TiktokenCounter:
    """Counts with an encoding of OpenAI, offline; text that looks like a special token is text.

    The encoding is made at the first count, see `lorebind_knowledge.tokenizing.encode`.

    Raises:
        UsageError: for an encoding that is not among those carried.
        MissingDependencyError: at the first count, when tiktoken or its ranks are not installed.
    """

    exact = True

    def __init__(self, encoding: EncodingName = "o200k_base") -> None:
        check_encoding(encoding)
        self.name: EncodingName = encoding

    def count(self, text: str) -> int:
        return len(encode(self.name, text))


def counter_for(model: str | None, provider: str | None = None) -> TokenCounter:
    """The counter for a chat or embedding model: exact for OpenAI's, otherwise an estimate.

    Takes names as they are written in configurations: `gpt-4o-mini`, `openai:gpt-4o`,
    `openai/gpt-4o`, `ft:gpt-4o:acme`. The extractive model counts as GPT-4o does, so that a
    budget tried with it holds for the real one.
    """
    name = (model or "").lower()
    if "extractive" in (provider, name.partition(":")[0]):
        return TiktokenCounter("o200k_base")
    for pattern, encoding in _MODELS:
        if re.match(rf"(?:.*[:/])?(?:{pattern})", name):
            return TiktokenCounter(encoding)
    return EstimateCounter()
