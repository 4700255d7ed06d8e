"""A folder in memory for files of tests: no test is about disks, and most would wait for one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_ROOM = 4 * 1024**3
"""Several times as much as all tests write."""


def folder_in_memory() -> Path | None:
    """Return Linux's folder for files in memory, if it has room and allows running programs."""
    folder = Path("/dev/shm")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return None
    if os.statvfs(folder).f_flag & os.ST_NOEXEC or shutil.disk_usage(folder).free < _ROOM:
        return None
    return folder
