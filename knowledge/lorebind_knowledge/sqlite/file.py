"""A SQLite file: how it is opened, and whether it is still the same."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import ReadOnlyError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("lorebind.stores")

_LONGEST_NAME = 500
"""Bytes. SQLite has 512, for the name of the log too."""


def connect(file: Path, *, mode: str, timeout: float) -> sqlite3.Connection:
    """A connection to a SQLite file, for any thread, that begins no transaction by itself.

    Where neither the file nor a log beside it can be written, it can still be read.

    Args:
        file: the file; its name may hold whatever a file system takes.
        mode: `rw`, or `rwc` to make a file that is not there.
        timeout: how long another writer is waited for, in seconds.

    Raises:
        sqlite3.Error: it cannot be opened.
        StoreError: its name is too long for SQLite.
    """
    if _is_frozen(file):
        _say_that_it_is_frozen(file)
        mode = "ro&immutable=1"  # see https://sqlite.org/wal.html#readonly
    try:
        return sqlite3.connect(
            f"{file.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.OperationalError as error:
        length = len(os.fsencode(file.absolute()))
        if length <= _LONGEST_NAME:
            raise
        raise StoreError(
            f"{file}: its name has {length} bytes, and SQLite opens names of {_LONGEST_NAME} or "
            "fewer; move the project to a folder with a shorter one"
        ) from error


def file_identity(file: Path) -> tuple[int, ...] | None:
    """What changes when a file is replaced; None if there is no file.

    Raises:
        StoreError: this process may not look into its folder.

    Of a file that is read without locks it changes too when another process writes it: a folder may
    be read-only here, as in a container, and not elsewhere.
    """
    try:
        stat = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(
            f"{file}: cannot be reached: {error.strerror or error}; check the rights of its folder"
        ) from error
    same = stat.st_dev, stat.st_ino
    return (*same, stat.st_size, stat.st_mtime_ns) if _is_frozen(file) else same


@contextmanager
def unchanged(file: Path) -> Iterator[None]:
    """Around what reads a file: where that takes no locks, it is checked that nobody wrote.

    Raises:
        StoreError: somebody did.
    """
    before = file_identity(file) if _is_frozen(file) else None
    try:
        yield
    finally:
        if before is not None and file_identity(file) != before:
            raise StoreError(f"{file}: was changed by another process while it was read; try again")


def refuse_frozen(file: Path) -> None:
    """
    Raises:
        ReadOnlyError: the file is there, and can be read only.
    """
    if _is_frozen(file):
        raise ReadOnlyError(
            f"{file}: cannot be written here; make its folder writable, or choose another place "
            "with the path of a vector database of type sqlite"
        )


def _is_frozen(file: Path) -> bool:
    """Whether a file is there that can be read, and nothing can be written beside it.

    Not where another process has left its log: that must be read too, and says who writes.
    """
    if os.access(os.path.dirname(file) or os.curdir, os.W_OK) or not os.access(file, os.R_OK):
        return False
    real = os.path.realpath(file)
    return not os.access(os.path.dirname(real), os.W_OK) and not os.path.exists(f"{real}-wal")


_frozen_said: set[Path] = set()


def _say_that_it_is_frozen(file: Path) -> None:
    if file not in _frozen_said:
        _frozen_said.add(file)
        log.warning("%s cannot be written here: it can be read, not changed", file)


_write_locks: dict[str, threading.Lock] = {}


def write_lock(path: Path) -> threading.Lock:
    """The lock that this process's writers of a SQLite file take turns by.

    SQLite has them wait too, but asleep for ever longer, and long after their turn has come.
    """
    return _write_locks.setdefault(str(path.absolute()), threading.Lock())


if hasattr(os, "register_at_fork"):  # a lock may be held by a thread that the child does not have
    os.register_at_fork(after_in_child=_write_locks.clear)
