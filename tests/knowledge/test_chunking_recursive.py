"""The recursive chunker returns LangChain's texts, without splitting characters."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter

from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.chunking.rulers import count_tokens
from lorebind_knowledge.chunking.windows import is_border
from tests.density import examples

from .chunking_texts import TEXTS, check_promises

PAGES = Path(__file__).parents[2] / "examples" / "quickstart" / "docs"
SIZES = st.integers(4, 80)
CASES = [
    ("", 10, 2),
    (" \n\n \t", 10, 2),
    ("x" * 500, 64, 16),
    ("東" * 500, 64, 0),
    ("one\r\n\r\ntwo\r\nthree" * 20, 64, 8),
]


def _shaped(size: int, share: float) -> tuple[int, int]:
    return size, min(size - 1, int(size * share))


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS, SIZES, st.floats(0, 0.999), st.sampled_from(["characters", "tokens"]))
@example("x" * 500, 64, 0.25, "tokens")
@example("🙂🙂\u00a0🙂" * 9, 4, 0.99, "tokens")
def test_promises_at_any_size(text: str, size: int, share: float, unit: str) -> None:
    """All guarantees also hold for sizes of a few units."""
    check_promises(RecursiveChunker(*_shaped(size, share), unit), text, size, unit)  # type: ignore[arg-type]


@settings(max_examples=examples(200))
@given(TEXTS, SIZES)
def test_chunks_are_disjoint_without_overlap(text: str, size: int) -> None:
    """With an overlap of 0, chunks do not overlap."""
    chunks = RecursiveChunker(size, 0).split(text, 0, len(text))
    assert all(end <= start for (_, end), (start, _) in pairwise(chunks))


@settings(max_examples=examples(200))
@given(st.lists(st.text("ab東", min_size=1, max_size=30), min_size=1, max_size=40))
def test_starts_increase_strictly(words: list[str]) -> None:
    """For words with single spaces, each chunk starts after the previous one."""
    text = " ".join(words)
    starts = [start for start, _ in RecursiveChunker(40, 20).split(text, 0, len(text))]
    assert starts == sorted(set(starts))


def _langchain(text: str, size: int, overlap: int) -> list[str]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
    return splitter.split_text(text)


def _ours(text: str, size: int, overlap: int) -> list[str]:
    chunks = RecursiveChunker(size, overlap).split(text, 0, len(text))
    return [text[start:end] for start, end in chunks]


@settings(max_examples=examples(300))
@given(TEXTS, SIZES, st.floats(0, 0.999))
def test_the_texts_are_those_of_langchain(text: str, size: int, share: float) -> None:
    """For texts without combining marks, chunks equal LangChain's."""
    assume(
        all(is_border(text, at) or text[at - 1 : at + 1] == "\r\n" for at in range(1, len(text)))
    )
    size, overlap = _shaped(size, share)
    assume("\r\n" not in text or size > 4)
    assert _ours(text, size, overlap) == _langchain(text, size, overlap)


@pytest.mark.parametrize(("text", "size", "overlap"), CASES)
def test_the_texts_are_those_of_langchain_here_too(text: str, size: int, overlap: int) -> None:
    """Chunks equal LangChain's for texts without words, without spaces, or with other lines."""
    assert _ours(text, size, overlap) == _langchain(text, size, overlap)


@pytest.mark.parametrize(("size", "overlap"), [(800, 120), (300, 0), (64, 60)])
def test_real_pages(size: int, overlap: int) -> None:
    """Chunks equal LangChain's for the documentation that the quickstart ingests."""
    pages = sorted(PAGES.rglob("*.md"))
    assert len(pages) == 63
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert _ours(text, size, overlap) == _langchain(text, size, overlap), page.name


def test_accents_stay_with_their_letters() -> None:
    """Where LangChain starts a chunk with a combining mark, our chunk has one letter less."""
    text = "xe\u0301" * 3
    assert _langchain(text, 2, 0) == ["xe", "\u0301x", "e\u0301", "xe", "\u0301"]
    assert _ours(text, 2, 0) == ["x", "e\u0301", "x", "e\u0301", "x", "e\u0301"]


def test_tokens_are_counted_in_each_chunk_by_itself() -> None:
    """Tokens are counted in each chunk by itself; a chunk that becomes too large is cut."""
    text = "Qx Qx😀 naïvetéed Qxx zzx"
    assert count_tokens(" naïvetéed Qxx zzx") == 8
    assert count_tokens("naïvetéed Qxx zzx") == 9
    chunks = RecursiveChunker(8, 0, "tokens").split(text, 0, len(text))
    assert [text[start:end] for start, end in chunks] == ["Qx Qx😀", "naïvetéed Qxx", "zzx"]


def test_most_of_the_size_is_used() -> None:
    """Chunks of ordinary words have nearly as many tokens as allowed."""
    text = " ".join(f"word number {number}" for number in range(200))
    chunks = RecursiveChunker(64, 0, "tokens").split(text, 0, len(text))
    assert all(60 <= count_tokens(text[start:end]) <= 64 for start, end in chunks[:-1])
