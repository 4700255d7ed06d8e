"""Files of a project: its data folder, what leads out of it, and how no link can."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from lorebind_config.errors import StoreError

PROJECT_FILE = "lorebind.yaml"
DATA_FOLDER = ".lorebind"
STATE_FILE = f"{DATA_FOLDER}/server.db"
"""The state of a server, where no database holds it."""
THREADS_FILE = f"{DATA_FOLDER}/threads.db"
"""The threads of workflows, where no database holds them."""
ELSEWHERE = "choose another location with the path of a vector database of type sqlite"

_TO_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
"""The flags for opening intermediate folders. On Linux, no permission to list them is needed."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_LINK_ANYWHERE = getattr(os, "O_NOFOLLOW_ANY", 0)
"""macOS has this flag, which refuses links in all parts of a path."""
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe would block."""
_OPENED = "/proc/self/fd/{}"
"""A link to an open file, on Linux. Opening a path part by part takes several times as long."""


def make_data_folder(file: Path, elsewhere: str = ELSEWHERE) -> None:
    """Create the folder of a database file; exclude `.lorebind` from version control.

    Args:
        file: the database file.
        elsewhere: how to choose another location, for the error message.

    Raises:
        StoreError: the folder cannot be created.
    """
    folder = file.parent
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == DATA_FOLDER:
                (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot create the folder {folder}: {error.strerror or error}; make {folder.parent} "
            f"writable, or {elsewhere}"
        ) from error


class OutsideError(Exception):
    """A path leads out of its folder, through a link or by itself."""


def open_inside(folder: Path | str, path: Path | str) -> BinaryIO:
    """Open a file below a folder for reading. Links are followed if they stay inside the folder.

    Another process can replace a folder with a link between two system calls. Therefore, no file
    is returned that was opened through a link. If that fails, the path is resolved, and opening the
    resolved path fails if any part of it is a link by then.

    Args:
        folder: the real path of the folder, without any link in it.
        path: the path of the file, relative to the folder.

    Raises:
        OutsideError: the file is outside the folder.
        OSError: the file cannot be opened, or a part of its path has just become a link.
    """
    written = os.path.join(folder, path)
    refuses_links = _NO_LINK_ANYWHERE or os.open in os.supports_dir_fd
    if refuses_links and not os.path.isabs(path) and ".." not in written.split(os.sep):
        with suppress(OSError):
            return open(written, "rb", opener=_open)
    real = os.path.realpath(written, strict=True)
    if not real.startswith(os.path.join(folder, "")):
        raise OutsideError(f"{os.fspath(path)!r} leads out of {folder}")
    return open(real, "rb", opener=_open)


def _open(real: str, flags: int) -> int:
    if _NO_LINK_ANYWHERE:
        return os.open(real, flags | _NO_LINK_ANYWHERE | _NO_WAIT)
    if os.open not in os.supports_dir_fd:
        return _look_again(real, flags)
    opened = os.open(real, flags | _NO_LINK | _NO_WAIT)
    with suppress(OSError):
        # Linux tells where an open file is: elsewhere, if the path led through a link.
        if os.readlink(_OPENED.format(opened)) == real:
            return opened
    os.close(opened)
    return _walk(real, flags)


def _walk(real: str, flags: int) -> int:
    """Open each part relative to the one before, so that changes above it have no effect."""
    top, *folders, name = real.split(os.sep)
    folder = os.open(top + os.sep, _TO_PASS)
    try:
        for part in folders:
            below = os.open(part, _TO_PASS | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, flags | _NO_LINK | _NO_WAIT, dir_fd=folder)
    finally:
        os.close(folder)


def _look_again(real: str, flags: int) -> int:
    """Open a file on Windows, which has no relative opening; a change and back can be missed."""
    opened = os.open(real, flags)
    try:
        if os.path.realpath(real) == real and os.path.samestat(os.stat(real), os.fstat(opened)):
            return opened
        raise OSError(errno.ESTALE, "changed while it was opened")
    except BaseException:
        os.close(opened)
        raise


def leads_to(root: Path, path: str) -> str | None:
    """Return the real location of a path relative to a folder, if it is outside of the folder."""
    try:
        real, folder = os.path.realpath(root / path), os.path.realpath(root)
    except ValueError:  # not a possible path
        return None
    return None if real == folder or real.startswith(os.path.join(folder, "")) else real


def written_to(root: Path, path: str) -> Iterator[str]:
    """Yield every location outside of a folder that writing to a path in it would reach.

    Writing to a folder can reach everything below it. A database also writes files whose names
    begin with its own, such as `lorebind.db-wal`.
    """
    if outside := leads_to(root, path):
        yield outside
        return
    target = os.path.join(root, path)
    folder, name = os.path.split(target)
    if os.path.isdir(target):
        reached = [
            os.path.join(inner, entry)
            for inner, folders, files in os.walk(target)
            for entry in [*folders, *files]
        ]
    else:
        entries = os.listdir(folder) if os.path.isdir(folder) else []
        reached = [os.path.join(folder, entry) for entry in entries if entry.startswith(name)]
    for place in sorted(reached):
        if os.path.islink(place) and (outside := leads_to(root, place)):
            yield outside
