"""The recursive splitter: what it promises on every text, and whose texts it gives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter

from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.chunking.registry import make_chunker
from lorebind_knowledge.declarations import ChunkingDeclaration

PAGES = Path(__file__).parents[2] / "examples" / "quickstart" / "docs"

_PIECES = st.sampled_from(
    [
        "word",
        "a",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "   ",
        "\t",
        "東京都",
        "e\u0301",
        "🙂",
        "x" * 90,
        "\u3000",
        "\u00a0",
        "longer words here",
        "#",
        "```\ncode\n```",
    ]
)
TEXTS = (
    st.lists(_PIECES, max_size=60).map("".join)
    | st.text(max_size=300)
    | st.text(alphabet="ab \n", max_size=400)
)
SIZES = st.integers(4, 80)
CASES = [
    ("", 10, 2),
    (" \n\n \t", 10, 2),
    ("x" * 500, 64, 16),
    ("東" * 500, 64, 0),
    ("e\u0301" * 200, 64, 63),
    ("one\r\n\r\ntwo\r\nthree" * 20, 64, 8),
]


def _shaped(size: int, share: float) -> tuple[int, int]:
    return size, min(size - 1, int(size * share))


@settings(max_examples=400)
@given(TEXTS, SIZES, st.floats(0, 0.999))
@example("x" * 500, 64, 0.25)
@example(" " * 70 + "foo" + " " * 70, 64, 0.95)
def test_promises(text: str, size: int, share: float) -> None:
    """Chunks lie within the text and the size, go forwards, are stripped, and cover all words."""
    size, overlap = _shaped(size, share)
    chunks = RecursiveChunker(size, overlap).split(text, 0, len(text))
    covered: set[int] = set()
    for start, end in chunks:
        assert 0 <= start < end <= len(text)
        assert end - start <= size
        assert text[start:end].strip() == text[start:end]
        covered.update(range(start, end))
    assert chunks == sorted(chunks)
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)


@settings(max_examples=200)
@given(TEXTS, SIZES)
def test_starts_increase_without_overlap(text: str, size: int) -> None:
    """Where nothing is to be repeated, chunks are disjoint."""
    chunks = RecursiveChunker(size, 0).split(text, 0, len(text))
    assert all(end <= start for (_, end), (start, _) in pairwise(chunks))


@settings(max_examples=200)
@given(st.lists(st.text("ab東e\u0301", min_size=1, max_size=30), min_size=1, max_size=40))
def test_starts_increase_strictly(words: list[str]) -> None:
    """Words that are single spaced give chunks that each begin after the one before."""
    text = " ".join(words)
    starts = [start for start, _ in RecursiveChunker(40, 20).split(text, 0, len(text))]
    assert starts == sorted(set(starts))


@settings(max_examples=200)
@given(TEXTS, TEXTS, TEXTS, SIZES, st.floats(0, 0.999))
def test_a_part_of_a_text(before: str, text: str, after: str, size: int, share: float) -> None:
    """A part is split as if it stood alone, and its offsets count from the start of the whole."""
    chunker = RecursiveChunker(*_shaped(size, share))
    whole, shift = before + text + after, len(before)
    alone = [(start + shift, end + shift) for start, end in chunker.split(text, 0, len(text))]
    assert chunker.split(whole, shift, shift + len(text)) == alone


def _langchain(text: str, size: int, overlap: int) -> list[str]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
    return splitter.split_text(text)


def _ours(text: str, size: int, overlap: int) -> list[str]:
    return [
        text[start:end] for start, end in RecursiveChunker(size, overlap).split(text, 0, len(text))
    ]


@settings(max_examples=300)
@given(TEXTS, SIZES, st.floats(0, 0.999))
def test_the_texts_are_those_of_langchain(text: str, size: int, share: float) -> None:
    """Text for text what `RecursiveCharacterTextSplitter` gives."""
    size, overlap = _shaped(size, share)
    assert _ours(text, size, overlap) == _langchain(text, size, overlap)


@pytest.mark.parametrize(("text", "size", "overlap"), CASES)
def test_the_texts_are_those_of_langchain_here_too(text: str, size: int, overlap: int) -> None:
    """The same for texts without words, without spaces, of combining marks, of other lines."""
    assert _ours(text, size, overlap) == _langchain(text, size, overlap)


@pytest.mark.parametrize(("size", "overlap"), [(800, 120), (300, 0), (64, 60)])
def test_real_pages(size: int, overlap: int) -> None:
    """The same for the documentation that the quickstart ingests."""
    pages = sorted(PAGES.rglob("*.md"))
    assert len(pages) == 63
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert _ours(text, size, overlap) == _langchain(text, size, overlap), page.name


def test_the_fingerprint_follows_the_settings() -> None:
    """Chunkers with the same settings are the same, all others differ."""
    chunkers = [
        make_chunker(ChunkingDeclaration(size=size, overlap=overlap))
        for size, overlap in ((100, 10), (100, 11), (101, 10))
    ]
    assert len({chunker.fingerprint for chunker in chunkers}) == 3
    again = make_chunker(ChunkingDeclaration(size=100, overlap=10))
    assert again.fingerprint == chunkers[0].fingerprint
