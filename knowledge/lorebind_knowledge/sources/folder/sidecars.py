"""Sidecars: JSON files next to documents, with the metadata of these."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from lorebind_config.declarations.base import RefusedError
from lorebind_config.declarations.path_fields import refuse_reserved
from lorebind_config.document_sizes import Limit
from lorebind_config.errors import SourceError
from lorebind_knowledge.text.values import parsed_json

LIMIT = Limit(256 * 1024, "keep only metadata in it")
"""The maximum size of a sidecar."""

_NAMED = 20
"""Number of sidecars without a document that a report names."""


class Sidecars:
    """The sidecars that a pattern such as `*.meta.json` names."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._ending = pattern, pattern.removeprefix("*")

    def is_one(self, path: str) -> bool:
        """Return whether a file is a sidecar, of whatever document."""
        name = path.rpartition("/")[2]
        return name.endswith(self._ending) and name != self._ending

    def path_of(self, folder: str, path: str) -> str | None:
        """Return the path of a document's sidecar, relative to the folder; None without one."""
        place, slash, name = path.rpartition("/")
        for named in _names(name):
            beside = f"{place}{slash}{named}{self._ending}"
            if os.path.lexists(f"{folder}/{beside}"):
                return beside
        return None

    def orphans(self, folder: str) -> list[str]:
        """Return the names of the sidecars in a folder without a file that they belong to, sorted.

        A folder that cannot be listed has none.
        """
        try:
            names = {name for name in _files(folder) if self.is_one(name)}
            for name in _files(folder) if names else ():
                if not self.is_one(name):
                    names -= {named + self._ending for named in _names(name)}
        except OSError:
            return []
        return sorted(names)

    def notices(self, orphans: Sequence[str], *, are_used: bool) -> list[str]:
        """Return the notices about sidecars without a document, and if no document has one."""
        if not (orphans or are_used):
            return [f"sidecar: {self._pattern} is next to no document"]
        more = len(orphans) - _NAMED
        notices = [f"sidecar: {uri} is next to no document" for uri in orphans[:_NAMED]]
        return (
            [*notices, f"sidecar: {more:,} more are next to no document"] if more > 0 else notices
        )


def _names(name: str) -> tuple[str, ...]:
    """Return the names of a document that its sidecars can begin with."""
    bare, _, ending = name.rpartition(".")
    return (name, bare) if bare and ending else (name,)


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        # Links are not followed: one that leads to itself would raise an error.
        yield from (entry.name for entry in entries if not entry.is_dir(follow_symlinks=False))


def metadata_in(data: bytes, name: str) -> dict[str, Any]:
    """Return the values in a sidecar.

    Raises:
        SourceError: it is not an object of JSON, or has a key that it cannot have.
    """
    try:
        values = parsed_json(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise SourceError(f"{name}: is not UTF-8: {error.reason} at byte {error.start}") from error
    if not isinstance(values, dict):
        raise SourceError(f'{name}: expected an object of JSON, such as {{"team": "it"}}')
    try:
        for key in values:
            refuse_reserved(key)
    except RefusedError as error:
        raise SourceError(f"{name}: {error}") from error
    if not isinstance(values.get("title", ""), str):
        raise SourceError(f"{name}: the title is not text; write it in quotes")
    return values
