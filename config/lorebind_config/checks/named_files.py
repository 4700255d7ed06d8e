"""Checks names of files in the project folder."""

from __future__ import annotations

import os
from pathlib import Path


def wrong_with(root: Path, name: str) -> str:
    """Return what is wrong with the name of a file in the project folder; empty if nothing is.

    The name may be any string: too long, with a null byte, or of a link to itself.
    """
    try:
        real = Path(os.path.realpath(root / name))
    except ValueError:  # not a possible file name
        return f"there is no file {name!r}"
    if not real.is_relative_to(os.path.realpath(root)):
        return f"{name!r} leads out of the project folder"
    return "" if os.path.isfile(real) else f"there is no file {name!r}"
