"""The SQLite file behind `SqliteStore`: its tables, its connections, and its errors in words."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from lorebind_knowledge.data_folder import (
    PAGES_PER_CHECKPOINT,
    connect,
    file_identity,
    make_data_folder,
    unchanged,
    write_lock,
)
from lorebind_knowledge.errors import LorebindError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA_VERSION = 2
BUSY_SECONDS = 10.0
_IDLE_KEPT = 8

# A row number is never given twice (AUTOINCREMENT), so that a matrix in memory can tell by it which
# vectors it has already.
_TABLES = """
create table vector_schema (version integer not null);
create table vector_indexes (
  key integer primary key autoincrement,
  tenant text not null, project text not null, scope text not null, kb text not null,
  number integer not null,
  dimension integer not null,
  birth integer not null,
  version integer not null default 0,
  unique (tenant, project, scope, kb, number)
);
create table vector_records (
  row integer primary key autoincrement,
  index_key integer not null references vector_indexes (key),
  id text not null,
  uri text not null,
  generation integer not null,
  live integer not null default 0,
  metadata text not null,
  vector blob not null,
  text text not null,
  context text not null
);
create unique index vector_records_identity
  on vector_records (index_key, uri, id, generation, live);
create index vector_records_live on vector_records (index_key, id) where live;
"""


class SqliteFile:
    """Transactions on one file, from any thread, in any process, before and after a fork.

    Connections are pooled, so that none belongs to a thread that may be gone. One writer at a time
    holds the lock here, which is fair to threads; other processes wait for SQLite's own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._idle: list[sqlite3.Connection] = []
        self._used = 0
        self._paused = False
        self._inode: tuple[int, ...] | None = None
        self._has_tables = False
        self._closed = False
        self._pool = threading.Condition()
        with _files_lock:
            _files.add(self)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """One consistent view; None if the file or its vector tables are not there yet."""
        with unchanged(self.path), self._connection(create=False) as db:
            if db is None:
                yield None
                return
            db.execute("BEGIN")
            yield db if self._check_tables(db) else None
            db.execute("COMMIT")

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[sqlite3.Connection | None]:
        """A transaction that is committed at the end of the block, or not at all.

        None if the file or its vector tables are not there yet and `create` does not ask for them.
        """
        with write_lock(self.path), self._connection(create=create) as db:
            if db is None:
                yield None
                return
            _use_wal(db)
            db.execute("BEGIN IMMEDIATE")
            if not self._check_tables(db):
                if not create:
                    yield None
                    return
                _make_tables(db)
            yield db
            db.execute("COMMIT")

    def close(self) -> None:
        self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        with self._pool:
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def pause(self) -> None:
        """Wait for the connections in use, close all, and hold back whoever wants one."""
        with self._pool:
            self._paused = True
            self._pool.wait_for(lambda: not self._used, timeout=BUSY_SECONDS)
        self.close_idle()

    def resume(self) -> None:
        with self._pool:
            self._paused = False
            self._pool.notify_all()

    def resume_in_child(self) -> None:
        """The same after a fork, where locks may be held by threads that are not here."""
        self._pool = threading.Condition()
        self._idle, self._used, self._paused = [], 0, False

    def __str__(self) -> str:
        return str(self.path)

    @contextmanager
    def _connection(self, *, create: bool) -> Iterator[sqlite3.Connection | None]:
        if self._closed:
            raise StoreError(f"{self.path}: the store is closed")
        with self._pool:
            self._pool.wait_for(lambda: not self._paused)
            self._used += 1
        try:
            yield from self._lent(create=create)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {_advice(error)}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.path}: not valid Unicode: {error}") from error
        except LorebindError:
            raise
        except (TypeError, ValueError) as error:  # what was read is not what was written
            raise StoreError(f"{self.path}: {_DAMAGED} ({error})") from error
        finally:
            with self._pool:
                self._used -= 1
                self._pool.notify_all()

    def _lent(self, *, create: bool) -> Iterator[sqlite3.Connection | None]:
        # Taken before the connection: one of an earlier file is never given back as of this one.
        inode = file_identity(self.path)
        db = self._take(inode, create=create)
        if db is None:
            yield None
            return
        try:
            yield db
            # Left by a block that found nothing to read or write.
            if db.in_transaction:
                db.execute("ROLLBACK")
        except BaseException:
            db.close()
            raise
        self._give_back(db, inode)

    def _take(self, inode: tuple[int, ...] | None, *, create: bool) -> sqlite3.Connection | None:
        if inode != self._inode:
            # Somebody removed or replaced the file: what is open leads to the one that was.
            self.close_idle()
            self._inode, self._has_tables = inode, False
        if inode is None:
            if not create:
                return None
            make_data_folder(self.path)
        with self._pool:
            if self._idle:
                return self._idle.pop()
        return self._connect("rwc" if create else "rw")

    def _connect(self, mode: str) -> sqlite3.Connection:
        db = connect(self.path, mode=mode, timeout=BUSY_SECONDS)
        try:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {PAGES_PER_CHECKPOINT}")
        except BaseException:
            db.close()
            raise
        if self._inode is None:
            self._inode = file_identity(self.path)
        return db

    def _give_back(self, db: sqlite3.Connection, inode: tuple[int, ...] | None) -> None:
        with self._pool:
            if not self._closed and inode == self._inode and len(self._idle) < _IDLE_KEPT:
                self._idle.append(db)
                return
        db.close()

    def _check_tables(self, db: sqlite3.Connection) -> bool:
        if self._has_tables:
            return True
        if not db.execute("select 1 from sqlite_master where name = 'vector_schema'").fetchone():
            return False
        (version,) = db.execute("select version from vector_schema").fetchone() or (None,)
        if type(version) is not int:
            raise TypeError("its version is none")
        if version < SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: was written by an earlier version of Lorebind (schema {version}); "
                "move the file away and ingest again"
            )
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: was written by a newer version of Lorebind (schema {version}, "
                f"this one understands {SCHEMA_VERSION}); upgrade Lorebind, or use another file"
            )
        self._has_tables = True
        return True


def _make_tables(db: sqlite3.Connection) -> None:
    # Not `executescript`, which would commit the transaction that it is part of.
    statement = ""
    for line in _TABLES.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""
    db.execute("insert into vector_schema (version) values (?)", (SCHEMA_VERSION,))


def _use_wal(db: sqlite3.Connection) -> None:
    """Let readers go on while one writes. Only the first switch of a new file may have to wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait for this one lock by itself.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _code(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")


_DAMAGED = "is damaged; move it away and ingest again, or restore a copy"
_SIGNS_OF_DAMAGE = ("no such table", "no such column", "no such index", "Could not decode")
_ADVICE = {
    "SQLITE_BUSY": f"another process has held its lock for {BUSY_SECONDS:.0f} s; "
    "let that one finish or stop it, then try again",
    "SQLITE_LOCKED": "another connection holds its lock; try again when that one has finished",
    "SQLITE_FULL": "the disk is full; free some space, then try again",
    "SQLITE_NOTADB": "is not a SQLite database; move it away, or name another file",
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_CONSTRAINT": _DAMAGED,
    "SQLITE_READONLY": "cannot be written; give this user the right to write the file and its "
    "folder",
    "SQLITE_CANTOPEN": "cannot be opened; check that it is a file, and that this user may read "
    "and write it and its folder",
    "SQLITE_PERM": "access was refused; check the rights of the file and its folder",
    "SQLITE_IOERR": "reading or writing the disk failed; check the disk and its free space",
}


def _advice(error: Exception) -> str:
    """What happened and what to do about it."""
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}; check its folder and your rights"
    code = _code(error) if isinstance(error, sqlite3.Error) else ""
    if "no such module: fts5" in str(error):
        return "this Python's SQLite was built without FTS5; use another Python, or another store"
    for name, advice in _ADVICE.items():
        if code.startswith(name):
            return f"{advice} ({error})"
    if any(sign in str(error) for sign in _SIGNS_OF_DAMAGE):
        return f"{_DAMAGED} ({error})"
    return str(error)


# A connection must not be used, nor even closed, on the other side of a fork: SQLite's locks stay
# with the parent, while the child's copy of the library believes that it holds them, and a lock
# inside the library that a thread holds at that moment is never freed in the child. So a fork waits
# for the connections in use, and all are closed before it.
_files: WeakSet[SqliteFile] = WeakSet()
_files_lock = threading.Lock()


def _before_fork() -> None:
    _files_lock.acquire()
    for file in list(_files):
        file.pause()


def _after_fork_in_parent() -> None:
    for file in list(_files):
        file.resume()
    _files_lock.release()


def _after_fork_in_child() -> None:
    for file in list(_files):
        file.resume_in_child()
    _files_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
