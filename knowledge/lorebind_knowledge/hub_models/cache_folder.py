"""The folder of downloaded models, which all projects of a user share."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def models_folder(written: str | None, root: Path) -> Path:
    """Return the folder of all models, which may not exist yet.

    Args:
        written: as declared; None means `lorebind/fastembed` in the user's cache folder.
        root: the project folder.
    """
    return _caches() / "lorebind" / "fastembed" if written is None else root / written


def _caches() -> Path:
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local)
    home = Path("~").expanduser()
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says to ignore a relative path.
    return named if named.is_absolute() else home / ".cache"
