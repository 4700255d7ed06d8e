"""The words of texts as the embedded store's FTS5 finds them, so that all stores rank by the same.

SQLite does the work, in memory: it splits into words, folds case and accents, and takes the stems.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.sqlite.words import TOKENIZER

if TYPE_CHECKING:
    from collections.abc import Sequence


def count_stems(texts: Sequence[str]) -> list[Counter[str]]:
    """For each text, how often each word is in it.

    Raises:
        StoreError: this Python's SQLite has no FTS5.
    """
    counted: list[Counter[str]] = [Counter() for _ in texts]
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.execute(
                "create virtual table texts using fts5"
                f" (text, content='', columnsize=0, tokenize='{TOKENIZER}')"
            )
            db.execute("create virtual table words using fts5vocab (texts, 'instance')")
            db.execute("begin")
            db.executemany("insert into texts (rowid, text) values (?, ?)", enumerate(texts))
            # A word holds no space: one line for each text is quicker than one for each word.
            for at, line in db.execute(
                "select doc, group_concat(term, ' ') from words group by doc"
            ):
                counted[at] = Counter(line.split(" "))
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"lexical search needs a Python whose SQLite has FTS5: {error}; use another Python"
        ) from error
    return counted
