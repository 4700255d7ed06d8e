"""A folder in memory for what tests write: none of them is about a disk, and most wait for one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_ROOM = 4 * 1024**3
"""Several times what all tests write in the end."""


def folder_in_memory() -> Path | None:
    """The folder of Linux for files in memory, where programs may be run and there is room."""
    folder = Path("/dev/shm")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return None
    if os.statvfs(folder).f_flag & os.ST_NOEXEC or shutil.disk_usage(folder).free < _ROOM:
        return None
    return folder
