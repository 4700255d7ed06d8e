"""A SQLite file: opening it, and detecting whether it was replaced."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lorebind_config.errors import ReadOnlyError, StoreError

log = logging.getLogger("lorebind.stores")

_LONGEST_NAME = 500
"""Maximum length of a path in bytes. SQLite allows 512, including the suffix of the log."""


def connect(file: Path, *, mode: str, timeout: float) -> sqlite3.Connection:
    """Open a connection to a SQLite file, for any thread, that begins no transaction by itself.

    If neither the file nor a log next to it can be written, the connection is read-only.

    Args:
        file: the file; its name may have any characters that the file system allows.
        mode: `rw`, or `rwc` to create a missing file.
        timeout: seconds to wait for another writer.

    Raises:
        sqlite3.Error: the file cannot be opened.
        StoreError: the path is too long for SQLite.
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
            f"{file}: its path has {length} bytes, but SQLite opens paths of at most "
            f"{_LONGEST_NAME}; move the project to a folder with a shorter path"
        ) from error


class FileIdentity(NamedTuple):
    """A value that changes when a file is replaced."""

    device: int
    inode: int
    written: tuple[int, int] | None
    """Size and time of the last write of a file that is read without locks; None for others. A
    folder may be read-only here, as in a container, while another process writes it elsewhere."""


def file_identity(file: Path) -> FileIdentity | None:
    """Return the identity of a file; None if there is no file.

    Raises:
        StoreError: this process may not access the folder.
    """
    try:
        stat = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(
            f"{file}: cannot be reached: {error.strerror or error}; "
            "check the permissions of its folder"
        ) from error
    written = (stat.st_size, stat.st_mtime_ns) if _is_frozen(file) else None
    return FileIdentity(stat.st_dev, stat.st_ino, written)


@contextmanager
def unchanged(file: Path, before: FileIdentity) -> Iterator[None]:
    """Check that no process writes a file inside the block, if it is read without locks.

    Args:
        file: the file.
        before: its identity when the block begins.

    Raises:
        StoreError: another process has written it.
    """
    try:
        yield
    finally:
        if before.written is not None and file_identity(file) != before:
            raise StoreError(f"{file}: was changed by another process while it was read; try again")


def refuse_frozen(file: Path) -> None:
    """
    Raises:
        ReadOnlyError: the file exists and is read-only.
    """
    if _is_frozen(file):
        raise ReadOnlyError(
            f"{file}: cannot be written here; make its folder writable, or choose another location "
            "with the path of a vector database of type sqlite"
        )


def _is_frozen(file: Path) -> bool:
    """Return whether the file can be read, and nothing can be written next to it.

    False if another process has left its log: the log must be read too, and its locks are used.
    """
    if os.access(os.path.dirname(file) or os.curdir, os.W_OK) or not os.access(file, os.R_OK):
        return False
    real = os.path.realpath(file)
    return not os.access(os.path.dirname(real), os.W_OK) and not os.path.exists(f"{real}-wal")


_frozen_said: set[Path] = set()


def _say_that_it_is_frozen(file: Path) -> None:
    if file not in _frozen_said:
        _frozen_said.add(file)
        log.warning("%s cannot be written here; it is opened read-only", file)


_write_locks: dict[str, threading.Lock] = {}


def write_lock(path: Path) -> threading.Lock:
    """Return the lock with which the writers of this process take turns on a SQLite file.

    SQLite itself sleeps for growing intervals, and may wake up long after the file is free.
    """
    return _write_locks.setdefault(str(path.absolute()), threading.Lock())


if hasattr(os, "register_at_fork"):  # a thread that the child does not have may hold a lock
    os.register_at_fork(after_in_child=_write_locks.clear)
