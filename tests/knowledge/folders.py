"""Write folders, and list the files to read and those that are skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.sources.folder import files_below

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def read(root: Path, *patterns: str, heed: bool = True, in_folder: str = "**/*") -> list[str]:
    """Return the names of the files to read."""
    found = files_below(root, patterns, respect_gitignore=heed, in_folder=in_folder).found
    return [one.name for one in found if not one.skipped]


def skipped(root: Path, *patterns: str) -> dict[str, str]:
    """Return the reason for each file or folder that is skipped."""
    return {one.name: one.skipped for one in files_below(root, patterns).found if one.skipped}
