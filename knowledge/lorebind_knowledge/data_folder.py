"""A project's database file: the folder it is made in, and whether it is still the same one."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

DATA_FOLDER = ".lorebind"

PAGES_PER_CHECKPOINT = 4000
"""How far the log of a SQLite file grows, 16 MB, before a commit writes it into the file and waits
for the disk. A page that is written again and again meanwhile is written there once."""


def make_data_folder(file: Path) -> None:
    """Make the folder of a database file; `.lorebind` is kept out of version control.

    Raises:
        StoreError: when it cannot be made.
    """
    folder = file.parent
    try:
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == DATA_FOLDER:
                (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot make the folder {folder}: {error.strerror or error}; "
            "choose another place with the path of a vector database of type sqlite"
        ) from error


def file_identity(file: Path) -> tuple[int, int] | None:
    """Device and inode, which change when a file is replaced; None if there is no file."""
    try:
        stat = os.stat(file)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


_write_locks: dict[str, threading.Lock] = {}


def write_lock(path: Path) -> threading.Lock:
    """The lock that this process's writers of a SQLite file take turns by.

    SQLite has them wait too, but asleep for ever longer, and long after their turn has come.
    """
    return _write_locks.setdefault(str(path.absolute()), threading.Lock())


if hasattr(os, "register_at_fork"):  # a lock may be held by a thread that the child does not have
    os.register_at_fork(after_in_child=_write_locks.clear)
