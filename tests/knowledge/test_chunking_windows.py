"""`fixed` and `token`: windows, and the borders between characters where they may end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.chunking.rulers import count_tokens
from lorebind_knowledge.chunking.windows import WindowChunker, first_border, is_border, last_border
from tests.density import examples

from .chunking_texts import TEXTS, check_promises


def _texts(text: str, chunker: WindowChunker) -> list[str]:
    return [text[start:end] for start, end in chunker.split(text, 0, len(text))]


def test_characters() -> None:
    """Windows have a fixed number of characters, and each repeats the end of the previous one."""
    assert _texts("abcdefghij", WindowChunker(4, 1)) == ["abcd", "defg", "ghij"]
    assert _texts("ab  cdef", WindowChunker(3, 0)) == ["ab", "cd", "ef"]
    assert _texts("abcd", WindowChunker(4, 3)) == ["abcd"]


def test_tokens() -> None:
    """Windows have a fixed number of tokens: here each word is one, and so is each full stop."""
    text = "One two three four five six. Seven eight."
    chunks = _texts(text, WindowChunker(4, 1, "tokens"))
    assert chunks == ["One two three four", "four five six.", ". Seven eight."]
    assert [count_tokens(chunk) for chunk in chunks] == [4, 4, 4]


@settings(max_examples=examples(200), deadline=None)
@given(TEXTS, st.integers(4, 80), st.floats(0, 0.999), st.sampled_from(["characters", "tokens"]))
def test_promises_at_any_size(text: str, size: int, share: float, unit: str) -> None:
    """All guarantees also hold for sizes of a few units."""
    overlap = min(size - 1, int(size * share))
    check_promises(WindowChunker(size, overlap, unit), text, size, unit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cluster",
    ["e\u0301", "\r\n", "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f", "각", "\ud83d\ude42", "नि"],
    ids=["accent", "crlf", "family", "tone", "flag", "heart", "hangul", "surrogates", "devanagari"],
)
def test_what_is_one_character_to_a_reader(cluster: str) -> None:
    """There is a border before, after and between clusters, but none within one."""
    text = f"x{cluster}{cluster}x"
    borders = [place for place in range(len(text) + 1) if is_border(text, place)]
    size = len(cluster)
    assert borders == [0, 1, 1 + size, 1 + 2 * size, 2 + 2 * size]


def test_ordinary_characters_are_borders() -> None:
    """Letters, ideographs, single emoji and lone line ends are separate clusters."""
    for text in ("ab", "漢字", "🙂🙂", "\n\n", "\n\r", "가나", "ß1"):
        assert is_border(text, 1)


def test_borders_near_a_place() -> None:
    """The nearest border on either side is found; without one nearby, the position itself."""
    text = "ae\u0301\u0302b"
    assert (last_border(text, 3, 0), first_border(text, 2, 5)) == (1, 4)
    assert last_border(text, 3, 1) == 3
    assert first_border(text, 2, 3) == 3
    pile = "a" + "\u0301" * 100
    assert (last_border(pile, 60, 0), first_border(pile, 60, 101)) == (60, 60)
