"""How texts and questions become words."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.bm25 import tokenize
from lorebind_knowledge.bm25.query import query_words

TEXTS = [
    "",
    " _x_ a_b Running runs RUN",
    "don’t “Go” — naïve, naive 🜚 📝tip",
    "x" * 150 + " " + "x" * 150 + " " + "y" * 65,
    "before\0after 漢字 Ⅷ ½ e\u0301 \ue000 İstanbul ﬁne",
    "\u00a0a«b·c»d×e\u2011f–g—h‘i’j“k”l„m…n‹o›p→q⇒r≤s═t▶u★v☃w✓x\ufe0fy🌍z📝",
]
pieces = st.sampled_from(["’", "“", "—", "é", "e\u0301", " ", ".", "\0", "running", "Runs", "漢"])
texts = st.lists(pieces | st.text(max_size=5) | st.text(st.characters(max_codepoint=127))).map(
    "".join
)


def counted_by_fts5(text: str) -> Counter[str]:
    """The words of a whole text as FTS5 has them in its index."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"create virtual table t using fts5 (text, tokenize='{tokenize.TOKENIZER}')")
        db.execute("create virtual table w using fts5vocab (t, 'instance')")
        db.execute("insert into t values (?)", [text])
        return Counter(term for (term,) in db.execute("select term from w"))


def test_words_are_those_of_fts5() -> None:
    """Every text has the words that FTS5 gives it, as often, whatever characters it is in."""
    assert tokenize.count_words(TEXTS) == [counted_by_fts5(text) for text in TEXTS]


@given(st.lists(texts, max_size=4))
def test_any_texts(some: list[str]) -> None:
    """The same for any texts together, and when their pieces are known already."""
    for _ in range(2):
        assert tokenize.count_words(some) == [counted_by_fts5(text) for text in some]


def test_pieces_are_forgotten() -> None:
    """A bounded number of pieces is remembered, no long one among them, and words stay right."""
    size = tokenize._REMEMBERED // 2
    for start in range(0, 4 * size, size):
        text = "running " + " ".join(f"{number}x" for number in range(start, start + size))
        (words,) = tokenize.count_words([text])
        assert len(words) == size + 1
        assert words["run"] == words[f"{start}x"] == 1
        assert len(tokenize._known) <= tokenize._REMEMBERED + size + 1
    tokenize.count_words(["long" * 100])
    assert b"long" * 100 not in tokenize._known


def test_words_of_a_question() -> None:
    """Words in lower case, as often as they are said, without stop words and single letters."""
    assert query_words("What is the Port of a Proxy's port?") == ["port", "proxy", "port"]
    assert query_words("max_tokens b 漢 é") == ["max", "tokens", "漢", "é"]
    assert query_words("what is it?") == []
