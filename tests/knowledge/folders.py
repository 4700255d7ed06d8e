"""Write folders, and list the files to read and those that are skipped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.folder.walk import Entry, Listing


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


class Found(NamedTuple):
    """The result of a search below a folder."""

    entries: list[Entry]
    unmatched: Sequence[str]
    notices: Sequence[str]


def files_below(root: Path, patterns: Sequence[str], **settings: Any) -> Found:
    """Search a folder to the end."""
    listing = Listing(root, patterns, **settings)
    entries = list(listing)
    assert entries == sorted(entries, key=lambda entry: entry.name)
    return Found(entries, listing.unmatched, listing.notices)


def read(root: Path, *patterns: str, heed: bool = True, in_folder: str = "**/*") -> list[str]:
    """Return the names of the files to read."""
    rows = files_below(root, patterns, respect_gitignore=heed, in_folder=in_folder).entries
    return [row.name for row in rows if not (row.skipped or row.unlisted)]


def skipped(root: Path, *patterns: str) -> dict[str, str]:
    """Return the reason for each file or folder that is skipped."""
    return {row.name: row.skipped for row in files_below(root, patterns).entries if row.skipped}


def unlisted(root: Path, *patterns: str) -> dict[str, str]:
    """Return the reason for each folder that cannot be listed."""
    return {row.name: row.unlisted for row in files_below(root, patterns).entries if row.unlisted}


def content_of(item: SourceItem, version: str = "") -> Content:
    """Return what an item has now, if that is not of this version."""
    content = item.read(version)
    assert isinstance(content, Content)
    return content


def shut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder unreadable, also for the superuser, whom permissions do not stop."""

    def refusing(name: str, *, below: bool) -> None:
        real = getattr(os, name)

        def refuse(path: Any, **options: Any) -> Any:
            target = Path(os.fsdecode(path)) if isinstance(path, str | os.PathLike) else Path()
            if folder in target.parents or (target == folder and not below):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, **options)

        monkeypatch.setattr(os, name, refuse)

    refusing("scandir", below=False)
    refusing("stat", below=True)
    refusing("lstat", below=True)
