"""What an `Index` remembers of its indexes from one search to the next, by their births."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.catalog import chunks
from lorebind_knowledge.catalog.versions import words_in
from lorebind_knowledge.index.masks import Masks

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.sql import Sql
    from lorebind_knowledge.index.view import View

_LENGTHS_KEPT = 100_000


@dataclass(slots=True)
class KnownKeys:
    """What is known of the metadata of one version of an index."""

    there: set[str] = field(default_factory=set)
    """Keys that some chunk has."""
    every: list[str] | None = None
    """All that there are, sorted, once that was asked for."""


class Memory:
    """Everything in it can be read anew. Safe to share among threads."""

    def __init__(self) -> None:
        self._masks: dict[int, tuple[int, Masks]] = {}
        self._keys: dict[int, tuple[int, KnownKeys]] = {}
        self._owners: dict[int, Owners] = {}

    def forget(self, birth: int) -> None:
        """Forget an index that is no more."""
        for kept in (self._masks, self._keys, self._owners):
            kept.pop(birth, None)

    def masks(self, view: View) -> Masks:
        """Which chunks pass a filter, of the moment of a view."""
        birth, version = view.index.birth, view.state.version
        known = self._masks.get(birth)
        if known is not None and known[0] == version:
            return known[1]
        masks = Masks(*view.rows(), None if known is None else known[1])
        if known is None or known[0] < version:
            self._masks[birth] = version, masks
        return masks

    def keys(self, view: View) -> KnownKeys:
        """What is known of the metadata's keys, at the moment of a view."""
        birth, version = view.index.birth, view.state.version
        known = self._keys.get(birth)
        if known is None or known[0] != version:
            known = self._keys[birth] = version, KnownKeys()
        return known[1]

    def owners(self, view: View) -> Owners:
        """Which document each chunk belongs to, at any moment."""
        return self._owners.setdefault(view.index.birth, Owners())


def _lengths_of(sql: Sql, space: int, versions: Collection[int]) -> dict[int, float]:
    rows = chunks.numbers_of(sql, versions)
    words = words_in(sql).lengths(sql.driver, space, [number for _, number in rows])
    found = dict.fromkeys(versions, 0.0)
    for version, number in rows:
        found[version] += words.get(number, 0)
    return found


class Owners:
    """The document of each chunk, as a number from 0. A chunk never goes to another document."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: dict[str, int] = {}
        self._of_chunk = np.full(0, -1, np.int64)
        self._lengths: dict[int, float] = {}

    def of(self, sql: Sql, space: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The documents of chunks, by the numbers of these, which the transaction can see."""
        with self._lock:
            if int(numbers.max(initial=-1)) >= len(self._of_chunk):
                self._read_more(sql, space, int(numbers.max()))
            return self._of_chunk[numbers]

    def _read_more(self, sql: Sql, space: int, last: int) -> None:
        known = len(self._of_chunk)  # numbers are given in their order
        rows = chunks.owners_from(sql, space, known)
        last = max(last, *(number for number, _ in rows))
        self._of_chunk = np.concatenate([self._of_chunk, np.full(last + 1 - known, -1, np.int64)])
        for number, uri in rows:
            self._of_chunk[number] = self._documents.setdefault(uri, len(self._documents))

    def lengths(self, sql: Sql, space: int, versions: Collection[int]) -> dict[int, float]:
        """How many words versions of documents have; what a version holds never changes."""
        missing = [version for version in versions if version not in self._lengths]
        found = _lengths_of(sql, space, missing) if missing else {}
        if len(self._lengths) + len(found) > _LENGTHS_KEPT:
            self._lengths = {}
        self._lengths |= found
        known = self._lengths | found
        return {version: known.get(version, 0.0) for version in versions}
