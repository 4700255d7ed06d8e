"""Files of the project folder that a project names."""

from __future__ import annotations

import os
from pathlib import Path


def wrong_with(root: Path, name: str) -> str:
    """What is wrong with the name of a file in the project folder; empty if nothing is.

    It may be any text: too long, with a zero byte, or of a link that leads to itself.
    """
    try:
        real = Path(os.path.realpath(root / name))
    except ValueError:  # no file can be called so
        return f"there is no file {name!r}"
    if not real.is_relative_to(os.path.realpath(root)):
        return f"{name!r} leads out of the project folder"
    return "" if os.path.isfile(real) else f"there is no file {name!r}"
