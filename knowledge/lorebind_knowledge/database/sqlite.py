"""Transactions on a SQLite file or in memory, with errors that name the database."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_config.errors import StoreError
from lorebind_config.project_files import ELSEWHERE, make_data_folder
from lorebind_knowledge.database.sqlite_file import connect, file_identity, unchanged, write_lock
from lorebind_knowledge.database.sqlite_pool import SqlitePool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lorebind_knowledge.database.sqlite_file import FileIdentity

MOVE_AWAY = "move the file away, then ingest again"
BUSY_SECONDS = 30.0
"""Seconds to wait for another process that writes."""

_PAGES_PER_CHECKPOINT = 4000
"""Size of SQLite's log, 16 MB, at which a commit writes it into the file and waits for the disk. A
page that was written several times is then written into the file once."""


class SqliteDatabase:
    """A SQLite database in a file or in memory. Safe to share among threads."""

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
            path: the file, created with its folder on the first write; None means in memory.
            name: the beginning of messages.
            prepare: called with each new connection, for example to create tables.
            move_away: the suggested fix for a damaged file, for messages.
            elsewhere: how to choose another location for the file, for messages.
        """
        self.path = None if path is None else path.absolute()
        self._name, self._prepare = name, prepare
        self._move_away, self._elsewhere = move_away, elsewhere
        self._pool = SqlitePool(self.path, self._open)
        self._nothing: SqliteDatabase | None = None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that is committed at the end of the block, or rolled back.

        Raises:
            StoreError: SQLite failed. The message names the file and a suggested fix.
        """
        if self.path is not None:
            make_data_folder(self.path, self._elsewhere)
        # A transaction that becomes a writer later can be refused; one that starts as one waits.
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a consistent snapshot. Missing tables read as empty and are not created."""
        if self.path is None:
            with self._transaction("BEGIN") as db:
                yield db
        elif (file := file_identity(self.path)) is None:
            if self._nothing is None:
                self._nothing = SqliteDatabase(None, self._name, self._prepare)
            with self._nothing.reading() as db:
                yield db
        else:
            with unchanged(self.path, file), self._transaction("BEGIN", file) as db:
                yield db

    def close(self) -> None:
        """Close open connections. The database opens new ones when it is used again."""
        self._pool.close()
        if self._nothing is not None:
            self._nothing.close()

    @contextmanager
    def _transaction(
        self, begin: str, file: FileIdentity | None = None
    ) -> Iterator[sqlite3.Connection]:
        turn = None if self.path is None or begin == "BEGIN" else write_lock(self.path)
        try:
            with self._pool.lent(turn, file) as db:
                try:
                    db.execute(begin)
                    yield db
                    db.commit()
                except BaseException:
                    db.rollback()  # also after Ctrl-C: a lent connection must have no transaction
                    raise
        except sqlite3.Error as error:
            if self.path is not None and self.path.is_dir():
                message = "the path is a folder; write the path of a file"
            else:
                message = _advice(str(error), self._move_away)
            raise StoreError(f"{self._name}: {message}") from error
        except UnicodeDecodeError as error:  # from SQLite's message, which quotes damaged data
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
                # With this log, a power failure can undo the last commits, but never damages the
                # file; only the checkpoints wait for the disk.
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_PER_CHECKPOINT}")
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Allow reads during a write. Only the first switch of a new file may have to wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite's busy timeout does not apply to this lock.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _advice(message: str, move_away: str) -> str:
    advice = {
        "locked": "another process has locked it; wait for it to end, or stop it",
        "readonly": "make the file and its folder writable",
        "unable to open": "make the file and its folder readable and writable",
        "disk is full": "free some space, then run again; nothing is lost",
        "disk I/O error": "free some space on the disk, or repair it, then run again; "
        "nothing is lost",
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
