"""The words of texts in plain characters, found as FTS5 finds them and in half the time.

Where all is ASCII a word is a run of letters and digits, and capitals are small letters. Its stem
is still FTS5's, which is asked once for each word and remembered.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.sqlite.words import TOKENIZER
from lorebind_knowledge.stores.stems import count_stems

if TYPE_CHECKING:
    from collections.abc import Collection

# Where punctuation, arrows and pictures are, as common in texts as any sign in ASCII.
_SIGNS = (range(0xA0, 0xF8), range(0x2000, 0x2C00), range(0xFE00, 0xFE10), range(0x1F300, 0x1FB00))
_ASCII = frozenset(map(chr, range(128)))
_BETWEEN = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128))
_BETWEEN += bytes(128)
# A few megabytes, in which most of the words of most texts are.
_REMEMBERED = 32_768

_known: dict[bytes, str] = {}


def plain_words(text: str) -> list[bytes] | None:
    """The words in their order, small letters, not yet stems; None where that takes FTS5."""
    if not text.isascii():
        signs = {*text} - _ASCII
        if not signs <= _between_words():
            return None
        for sign in signs:
            text = text.replace(sign, " ")
    return text.encode().translate(_BETWEEN).split()


def stems_of(words: Collection[bytes]) -> dict[bytes, str]:
    """The stem of each of some `plain_words`, and of others.

    Raises:
        StoreError: this Python's SQLite has no FTS5.
    """
    global _known
    known = _known
    unknown = [word for word in words if word not in known]
    if unknown:
        stems = _stems(b" ".join(unknown).decode())
        if len(known) + len(unknown) > _REMEMBERED:
            # Another one, since other threads read this.
            known = _known = {word: known[word] for word in words if word in known}
        known.update(zip(unknown, stems, strict=True))
    return known


def _stems(text: str) -> list[str]:
    """The stem of every word of a text, in their order."""
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.execute(
                "create virtual table texts using fts5"
                f" (text, content='', columnsize=0, tokenize='{TOKENIZER}')"
            )
            db.execute("create virtual table words using fts5vocab (texts, 'instance')")
            db.execute("insert into texts (rowid, text) values (1, ?)", [text])
            return [stem for (stem,) in db.execute('select term from words order by "offset"')]
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"lexical search needs a Python whose SQLite has FTS5: {error}; use another Python"
        ) from error


@lru_cache(1)
def _between_words() -> frozenset[str]:
    """The signs by which this FTS5 parts words: which ones it knows depends on its version."""
    signs = [chr(code) for some in _SIGNS for code in some]
    counted = count_stems([f"a{sign}b" for sign in signs])
    return frozenset(sign for sign, stems in zip(signs, counted, strict=True) if len(stems) == 2)
