"""The words that the PostgreSQL store counts are those of FTS5, to the last."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.stores.pgvector import plain_words as plain
from lorebind_knowledge.stores.pgvector.terms import Words, word_number, words_of
from lorebind_knowledge.stores.stems import count_stems

if TYPE_CHECKING:
    from collections import Counter

KEY = 7
TEXTS = [
    "",
    " _x_ a_b Running runs RUN",
    "don’t “Go” — naïve, naive 🜚 📝tip",
    "x" * 150 + " " + "x" * 150 + " " + "y" * 65,
    "before\0after 漢字 Ⅷ ½ e\u0301 \ue000",
]
pieces = st.sampled_from(["’", "“", "—", "é", "e\u0301", " ", ".", "\0", "running", "Runs", "漢"])
texts = st.lists(pieces | st.text(st.characters(max_codepoint=127))).map("".join)


def members(array: bytes, size: int) -> list[int]:
    """The values of an array in PostgreSQL's binary format."""
    if len(array) == 12:
        return []
    dimensions, nulls, _, count, first = struct.unpack(">5i", array[:20])
    assert (dimensions, nulls, first) == (1, 0, 1)
    found = np.frombuffer(array, [("size", ">i4"), ("value", f">i{size}")], offset=20)
    assert len(found) == count
    assert set(found["size"]) == {size}
    values: list[int] = found["value"].tolist()
    return values


def same(words: Words, stems: Counter[str]) -> None:
    counted = dict(zip(members(words.terms, 8), members(words.times, 4), strict=True))
    assert counted == {word_number(KEY, stem): times for stem, times in stems.items()}
    assert words.length == stems.total()


def test_words_are_counted_as_fts5_does() -> None:
    """Every text has the stems that FTS5 gives it, as often, whatever characters it is in."""
    for words, stems in zip(words_of(KEY, TEXTS), count_stems(TEXTS), strict=True):
        same(words, stems)


@given(st.lists(texts, max_size=4))
def test_any_texts(some: list[str]) -> None:
    """The same for any texts together."""
    for words, stems in zip(words_of(KEY, some), count_stems(some), strict=True):
        same(words, stems)


def test_signs_part_words() -> None:
    """A text with the usual signs is plain, and has the words that FTS5 finds in it."""
    signs = "\u00a0«·»×\u2011–—‘’“”„…‹›→⇒≤═▶★☃✓\ufe0f🌍📝"
    text = "".join(f"a{number}{sign}" for number, sign in enumerate(signs))
    (words,) = words_of(KEY, [text])
    (stems,) = count_stems([text])
    same(words, stems)
    assert plain.plain_words(text) == [b"a%d" % number for number in range(len(signs))]
    assert plain.plain_words("naïve") is None


def test_stems_are_forgotten() -> None:
    """However many words there were, a bounded number is remembered, and stems stay right."""
    for start in range(0, 4 * plain._REMEMBERED, plain._REMEMBERED):
        words = [b"%dx" % number for number in range(start, start + plain._REMEMBERED // 2)]
        stems = plain.stems_of([*words, b"running"])
        assert stems[words[-1]] == words[-1].decode()
        assert stems[b"running"] == "run"
        assert len(plain._known) <= plain._REMEMBERED


def test_words_of_other_indexes_are_other_words() -> None:
    """The number of a word depends on the index, and is the same in every process."""
    assert word_number(1, "key") != word_number(2, "key")
    assert word_number(1, "key") == 463985632182263361
