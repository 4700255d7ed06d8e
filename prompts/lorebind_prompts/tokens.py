"""Counting tokens: with the model's own tokenizer where there is one, else by length.

OpenAI's encodings are exact and need no network, see `lorebind_knowledge.tokenizing`; a model's
`tokenizer.json` is exact too, and so is what a LangChain model counts by itself.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.tokenizing import EncodingName, check_encoding, encode

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel
    from tokenizers import Tokenizer

_GUESSING = ("langchain_core.", "langchain_openai.")

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


class FileCounter:
    """Counts with a tokenizer that Hugging Face's `tokenizers` reads: `tokenizer.json` of a model.

    Tokens that a chat's frame adds are not counted. The file is read at the first count.

    Raises:
        UsageError: at the first count, when the file is not there, or is no tokenizer.
    """

    exact = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.name = self._path.name
        self._reading = threading.Lock()
        self._tokenizer: Tokenizer | None = None

    def count(self, text: str) -> int:
        found = self._read().encode(text, add_special_tokens=False)
        return len(found.ids)

    def _read(self) -> Tokenizer:
        with self._reading:
            if self._tokenizer is None:
                from tokenizers import Tokenizer

                try:
                    self._tokenizer = Tokenizer.from_file(str(self._path))
                except Exception as error:  # it raises nothing more special
                    raise UsageError(
                        f"{str(self._path)!r} cannot be read as a tokenizer: {error}; "
                        "name the tokenizer.json that comes with the model"
                    ) from None
                self._tokenizer.no_truncation()
                self._tokenizer.no_padding()
            return self._tokenizer


class ModelCounter:
    """Counts as a LangChain model says that it does, by its own `get_num_tokens`."""

    exact = True

    def __init__(self, model: BaseLanguageModel[Any]) -> None:
        self._model = model
        self.name = f"{type(model).__name__}.get_num_tokens"

    def count(self, text: str) -> int:
        return self._model.get_num_tokens(text) if text else 0

    @staticmethod
    def knows(model: BaseLanguageModel[Any]) -> bool:
        """Whether a model counts by itself: what LangChain's own classes do is a guess, or a
        download."""
        if model.custom_get_token_ids is not None:
            return True
        methods = (getattr(type(model), name) for name in ("get_num_tokens", "get_token_ids"))
        return any(not one.__module__.startswith(_GUESSING) for one in methods)


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
