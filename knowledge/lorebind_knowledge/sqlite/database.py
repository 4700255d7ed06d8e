"""Transactions on a SQLite file, or on memory, with its errors named."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.data_folder import ELSEWHERE, make_data_folder
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.sqlite.file import connect, file_identity, unchanged, write_lock
from lorebind_knowledge.sqlite.pool import SqlitePool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOVE_AWAY = "move the file away, then ingest again"
BUSY_SECONDS = 30.0
"""How long another process that writes is waited for."""

_PAGES_PER_CHECKPOINT = 4000
"""How far the log of a SQLite file grows, 16 MB, before a commit writes it into the file and waits
for the disk. A page that is written again and again meanwhile is written there once."""


class SqliteDatabase:
    """Safe to share among threads."""

    def __init__(
        self,
        path: Path | None,
        name: str,
        prepare: Callable[[sqlite3.Connection], None] = lambda _: None,
        *,
        move_away: str = MOVE_AWAY,
        elsewhere: str = ELSEWHERE,
    ) -> None:
        """
        Args:
            path: the file, made with its folder when first written; None is memory.
            name: what messages begin with.
            prepare: called with each new connection, as to make tables.
            move_away: what to do about a damaged file, for messages.
            elsewhere: how to keep the file in another place, for messages.
        """
        self.path = None if path is None else path.absolute()
        self._name, self._prepare = name, prepare
        self._move_away, self._elsewhere = move_away, elsewhere
        self._pool = SqlitePool(self.path, self._open)
        self._nothing: SqliteDatabase | None = None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is committed at the end of the block, or not at all.

        Raises:
            StoreError: SQLite refused something; the message names the file and what to do.
        """
        if self.path is not None:
            make_data_folder(self.path, self._elsewhere)
        # A writer that starts as a reader can be refused half-way; one that starts as one waits.
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view. What was not made yet reads as empty, and is not made."""
        if self.path is None:
            with self._transaction("BEGIN") as db:
                yield db
        elif file_identity(self.path) is None:
            if self._nothing is None:
                self._nothing = SqliteDatabase(None, self._name, self._prepare)
            with self._nothing.reading() as db:
                yield db
        else:
            with unchanged(self.path), self._transaction("BEGIN") as db:
                yield db

    def close(self) -> None:
        """Give back what is held open; it is opened again when needed."""
        self._pool.close()
        if self._nothing is not None:
            self._nothing.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        turn = None if self.path is None or begin == "BEGIN" else write_lock(self.path)
        try:
            with self._pool.lent(turn) as db:
                try:
                    db.execute(begin)
                    yield db
                    db.commit()
                except BaseException:
                    db.rollback()
                    raise
        except sqlite3.Error as error:
            raise StoreError(f"{self._name}: {_advice(str(error), self._move_away)}") from error
        except UnicodeDecodeError as error:  # of SQLite's message, which quotes what it has read
            raise StoreError(f"{self._name}: it is damaged; {self._move_away}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self._name}: not valid Unicode: {error}") from error

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        else:
            db = connect(self.path, mode="rwc", timeout=BUSY_SECONDS)
        try:
            if self.path is not None:
                _use_wal(db)
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_PER_CHECKPOINT}")
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Let readers go on while one writes. Only the first switch of a new file may have to wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait for this one lock by itself.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _advice(message: str, move_away: str) -> str:
    advice = {
        "locked": "another process holds it; wait for it to end, or stop it",
        "readonly": "make the file and its folder writable",
        "unable to open": "make the file and its folder readable and writable",
        "disk is full": "free some space, then run again: nothing is lost",
        "disk I/O error": "make room on the disk, or mend it, then run again: nothing is lost",
        "not a database": move_away,
        "malformed": move_away,
        "corrupt": move_away,
        "vtable constructor failed": f"it is damaged; {move_away}",
        "access permission denied": "give this user the right to read and write the file",
        "no such module: fts5": "this Python's SQLite has no FTS5; use another Python",
        "no such": f"it is damaged; {move_away}",
        "has no column": f"it is damaged; {move_away}",
        "constraint failed": f"it is damaged; {move_away}",
        "Could not decode": f"it is damaged; {move_away}",
    }
    hint = next((text for sign, text in advice.items() if sign in message), "")
    return f"{message}; {hint}" if hint else message
