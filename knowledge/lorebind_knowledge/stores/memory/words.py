"""The words of one index of the memory store: FTS5 in an SQLite database in memory."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.sqlite.words import TOKENIZER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.stores.checks import Entry


class MemoryWords:
    """What BM25 is counted over. To be used by one thread at a time."""

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None
        self._texts: dict[int, str] = {}
        self._entries: Mapping[int, Entry] | None = None

    def ranked(self, entries: Mapping[int, Entry], words: Sequence[str]) -> list[tuple[int, float]]:
        """The rows of the entries that hold any of the words with their BM25, the best first.

        Args:
            entries: all that is published, in a mapping that does not change.
            words: what to look for.

        Raises:
            StoreError: this Python's SQLite has no FTS5.
        """
        try:
            db = self._brought_to(entries)
            query = " OR ".join(f'"{word}"' for word in words)
            return db.execute(
                "select rowid, -rank from words where words match ? order by rank", (query,)
            ).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"memory store: SQLite cannot search words: {error}") from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _brought_to(self, entries: Mapping[int, Entry]) -> sqlite3.Connection:
        if self._db is None:
            self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            self._db.execute(
                f"create virtual table words using fts5 (text, content='', tokenize='{TOKENIZER}')"
            )
            self._texts, self._entries = {}, None
        if entries is self._entries:
            return self._db
        gone = [(row, text) for row, text in self._texts.items() if row not in entries]
        come = [(row, entry.searched) for row, entry in entries.items() if row not in self._texts]
        self._db.execute("begin")
        self._db.executemany("insert into words (words, rowid, text) values ('delete', ?, ?)", gone)
        self._db.executemany("insert into words (rowid, text) values (?, ?)", come)
        self._db.execute("commit")
        for row, _ in gone:
            del self._texts[row]
        self._texts.update(come)
        self._entries = entries
        return self._db
