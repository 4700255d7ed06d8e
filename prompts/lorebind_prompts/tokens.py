"""Count tokens with the model's own tokenizer if there is one, or else estimate by length.

OpenAI's encodings are exact and need no network, see `lorebind_knowledge.plumbing.tokenizing`. The
`tokenizer.json` of a model is exact too, and so is a LangChain model's own count.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lorebind_config.errors import UsageError
from lorebind_knowledge.plumbing.tokenizing import EncodingName, check_encoding, encode

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel
    from tokenizers import Tokenizer

_GUESSING = ("langchain_core.", "langchain_openai.")

_MODELS: list[tuple[str, EncodingName]] = [
    (r"gpt-4o|gpt-4\.|gpt-[5-9]|gpt-oss|chatgpt-4o|o[1-9]\b", "o200k_base"),
    (r"gpt-4\b|gpt-3\.5|gpt-35|text-embedding-3|text-embedding-ada", "cl100k_base"),
]


class TokenCounter(Protocol):
    """Counts the tokens of a text. Must be thread-safe."""

    @property
    def name(self) -> str:
        """The name of the counter, as shown to users."""

    @property
    def exact(self) -> bool:
        """Whether the model itself counts the same number."""

    def count(self, text: str) -> int:
        """Return the number of tokens of the text; 0 for an empty one."""


class EstimateCounter:
    """Counts one token per four characters, rounded up, for models without a known tokenizer."""

    name = "len/4"
    exact = False

    def count(self, text: str) -> int:
        """Return a quarter of the number of characters, rounded up."""
        return (len(text) + 3) // 4


class TiktokenCounter:
    """Counts with an encoding of OpenAI, offline. Special tokens in a text are counted as text.

    The encoding is loaded at the first count, see `lorebind_knowledge.plumbing.tokenizing.encode`.

    Raises:
        UsageError: the encoding is not one of those included.
        MissingDependencyError: at the first count, if tiktoken or its ranks are not installed.
    """

    exact = True

    def __init__(self, encoding: EncodingName = "o200k_base") -> None:
        check_encoding(encoding)
        self.name: EncodingName = encoding

    def count(self, text: str) -> int:
        """Return the exact number of tokens in this encoding."""
        return len(encode(self.name, text))


class FileCounter:
    """Counts with a model's `tokenizer.json`, read by Hugging Face's `tokenizers`.

    Tokens of the chat format are not counted. The file is read at the first count.

    Raises:
        UsageError: at the first count, if the file is missing or is not a tokenizer.
    """

    exact = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.name = self._path.name
        self._reading = threading.Lock()
        self._tokenizer: Tokenizer | None = None

    def count(self, text: str) -> int:
        """Return the exact number of tokens, without special tokens."""
        encoded = self._read().encode(text, add_special_tokens=False)
        return len(encoded.ids)

    def _read(self) -> Tokenizer:
        with self._reading:
            if self._tokenizer is None:
                from tokenizers import Tokenizer

                try:
                    self._tokenizer = Tokenizer.from_file(str(self._path))
                except Exception as error:  # it raises no narrower class
                    raise UsageError(
                        f"{str(self._path)!r} cannot be read as a tokenizer: {error}; "
                        "name the tokenizer.json that comes with the model"
                    ) from None
                self._tokenizer.no_truncation()
                self._tokenizer.no_padding()
            return self._tokenizer


class ModelCounter:
    """Counts with a LangChain model's own `get_num_tokens`."""

    exact = True

    def __init__(self, model: BaseLanguageModel[Any]) -> None:
        self._model = model
        self.name = f"{type(model).__name__}.get_num_tokens"

    def count(self, text: str) -> int:
        """Return the number that the model itself counts."""
        return self._model.get_num_tokens(text) if text else 0

    @staticmethod
    def knows(model: BaseLanguageModel[Any]) -> bool:
        """Check whether a model counts by itself. The methods of LangChain's own classes do not
        qualify: they guess, or download a tokenizer."""
        if model.custom_get_token_ids is not None:
            return True
        methods = (getattr(type(model), name) for name in ("get_num_tokens", "get_token_ids"))
        return any(not method.__module__.startswith(_GUESSING) for method in methods)


def counter_for(model: str | None, provider: str | None = None) -> TokenCounter:
    """Return the counter for a chat or embedding model: exact for OpenAI's, otherwise an estimate.

    Accepts names as written in configurations: `gpt-4o-mini`, `openai:gpt-4o`, `openai/gpt-4o`,
    `ft:gpt-4o:acme`. The extractive model counts like GPT-4o, so that a budget tested with it also
    holds for the real model.
    """
    name = (model or "").lower()
    if "extractive" in (provider, name.partition(":")[0]):
        return TiktokenCounter("o200k_base")
    for pattern, encoding in _MODELS:
        if re.match(rf"(?:.*[:/])?(?:{pattern})", name):
            return TiktokenCounter(encoding)
    return EstimateCounter()
