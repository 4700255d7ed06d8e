"""Files below a folder, opened so that no link leads out of it, nor one that appears meanwhile."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_TO_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
"""How a folder is opened to be passed through: on Linux that needs no right to list it."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""A pipe would be waited for."""


class OutsideError(Exception):
    """A path leads out of its folder, by a link or by itself."""


def open_inside(folder: Path | str, path: Path | str) -> BinaryIO:
    """Open a file below a folder to be read; links are followed as long as they stay inside.

    Whoever may write below the folder can put a link there between any two system calls. So the
    path is resolved first, and then opened part by part, each relative to the one before and none
    of them a link.

    Args:
        folder: it may be a link itself.
        path: relative to the folder.

    Raises:
        OutsideError: the file is elsewhere.
        OSError: it cannot be opened, or a part of its path is a link now and was none before.
    """
    home = os.path.realpath(folder, strict=True)
    real = os.path.realpath(os.path.join(home, path), strict=True)
    if not real.startswith(os.path.join(home, "")):
        raise OutsideError(f"{os.fspath(path)!r} leads out of {home}")
    opener = _walk if os.open in os.supports_dir_fd else _look_again
    return open(real, "rb", opener=lambda _, flags: opener(home, real, flags))


def _walk(home: str, real: str, flags: int) -> int:
    *folders, name = os.path.relpath(real, home).split(os.sep)
    folder = os.open(home, _TO_PASS | _NO_LINK)
    try:
        for part in folders:
            below = os.open(part, _TO_PASS | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, flags | _NO_LINK | _NO_WAIT, dir_fd=folder)
    finally:
        os.close(folder)


def _look_again(home: str, real: str, flags: int) -> int:
    """For Windows, which opens nothing relative to a folder; a change and back can be missed."""
    opened = os.open(real, flags)
    try:
        if os.path.realpath(real) == real and os.path.samestat(os.stat(real), os.fstat(opened)):
            return opened
        raise OSError(errno.ESTALE, "changed while it was opened")
    except BaseException:
        os.close(opened)
        raise
