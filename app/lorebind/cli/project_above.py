"""The project of a command without `--project`: in the current folder, or in one above it."""

from __future__ import annotations

import os
from pathlib import Path

HERE = "."
"""The default of `--project`."""


def project_above() -> str:
    """Return the nearest folder with a `lorebind.yaml`, from the current one upwards.

    Only files and folders of this user are considered, because others could put a file into a
    folder that they share, such as `/tmp`. Without such a file, it is the current folder.
    """
    from lorebind_config.reading.loading import PROJECT_FILE

    try:
        here = Path.cwd()
    except OSError:  # it was deleted
        return HERE
    if os.path.isfile(here / PROJECT_FILE):
        return HERE
    for folder in (here, *here.parents):
        if not _is_ours(folder):
            break
        if os.path.isfile(file := folder / PROJECT_FILE):
            return os.path.relpath(folder) if _is_ours(file) else HERE
    return HERE


def _is_ours(path: Path) -> bool:
    # Windows has no user ids, and other rights.
    return hasattr(os, "getuid") and path.lstat().st_uid == os.getuid()
