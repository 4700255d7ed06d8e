"""The words of texts: split, folded and stemmed by SQLite's FTS5, wherever they are kept."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from lorebind_knowledge.bm25.query import query_words
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOKENIZER = "porter unicode61"
"""Splits at what is neither letter nor digit, folds case and accents, takes English stems."""

# Texts are cut into pieces at the characters of ASCII that are in no word; of a piece, FTS5 says
# which words it holds. Most are one word, and come again and again.
_CUT = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128))
_CUT += bytes(range(128, 256))
# Some megabytes, in which most pieces of most texts are.
_REMEMBERED, _LONGEST = 32_768, 100

_known: dict[bytes, Sequence[str]] = {}


def count_words(texts: Sequence[str]) -> list[Counter[str]]:
    """For each text, how often each word is in it.

    Raises:
        StoreError: this Python's SQLite has no FTS5.
        UnicodeEncodeError: a text is not valid Unicode.
    """
    pieces = [text.encode().translate(_CUT).split() for text in texts]
    words = _words_of(set(chain.from_iterable(pieces)))
    return [Counter(chain.from_iterable(map(words.__getitem__, some))) for some in pieces]


def wanted_words(question: str) -> Counter[str]:
    """The words of a question to look for, and how often it says each.

    A word that FTS5 takes for several, as `max_tokens`, is looked for as each of them.
    """
    found: Counter[str] = Counter()
    said = Counter(query_words(question))
    for words, times in zip(count_words(list(said)), said.values(), strict=True):
        for word, within in words.items():
            found[word] += within * times
    return found


def _words_of(pieces: Iterable[bytes]) -> dict[bytes, Sequence[str]]:
    """The words of each of these pieces of texts."""
    found: dict[bytes, Sequence[str]] = {}
    unknown = []
    for piece in pieces:
        words = _known.get(piece)
        if words is None:
            unknown.append(piece)
        else:
            found[piece] = words
    if unknown:
        found.update(zip(unknown, _split(unknown), strict=True))
        if len(_known) > _REMEMBERED:
            _known.clear()
        _known.update({piece: found[piece] for piece in unknown if len(piece) <= _LONGEST})
    return found


def _split(pieces: Sequence[bytes]) -> list[Sequence[str]]:
    """The words of each piece as FTS5 finds them."""
    words: list[Sequence[str]] = [()] * len(pieces)
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.execute(
                "create virtual table texts using fts5"
                f" (text, content='', columnsize=0, tokenize='{TOKENIZER}')"
            )
            db.execute("create virtual table words using fts5vocab (texts, 'instance')")
            db.execute("begin")
            texts = enumerate(piece.decode() for piece in pieces)
            db.executemany("insert into texts (rowid, text) values (?, ?)", texts)
            # A word holds no space: one line for each text is quicker than one for each word.
            for at, line in db.execute(
                "select doc, group_concat(term, ' ') from words group by doc"
            ):
                words[at] = line.split(" ")
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"lexical search needs a Python whose SQLite has FTS5: {error}; use another Python"
        ) from error
    return words
