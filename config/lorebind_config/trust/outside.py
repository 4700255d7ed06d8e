"""Finds where paths and links lead out of the project folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


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
    own = os.path.join(root, path)
    folder, name = os.path.split(own)
    if os.path.isdir(own):
        reached = [
            os.path.join(inner, entry)
            for inner, folders, files in os.walk(own)
            for entry in [*folders, *files]
        ]
    else:
        entries = os.listdir(folder) if os.path.isdir(folder) else []
        reached = [os.path.join(folder, entry) for entry in entries if entry.startswith(name)]
    for place in sorted(reached):
        if os.path.islink(place) and (outside := leads_to(root, place)):
            yield outside
