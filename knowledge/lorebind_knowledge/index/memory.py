"""Data about indexes that an `Index` caches between searches, by index_uid of the index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.chunks import Member
    from lorebind_knowledge.index.masks import Masks
    from lorebind_knowledge.index.terms import Terms
    from lorebind_knowledge.index.words import Words

    Rows: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

_MEMBERS_KEPT = 100_000


@dataclass(slots=True)
class MetadataKeys:
    """Known metadata keys of one version of an index."""

    there: set[str] = field(default_factory=set)
    """Keys that at least one chunk has."""
    every: list[str] | None = None
    """All keys, sorted; None until they are first requested."""


class Memory:
    """Caches data that can always be read again. Safe to share among threads."""

    def __init__(self) -> None:
        # Without locks: at worst, two searches read the same data, and one result is kept.
        self._masks: dict[int, tuple[int, Masks]] = {}
        self._keys: dict[int, tuple[int, MetadataKeys]] = {}
        self._members: dict[int, tuple[int, dict[int, Member | None]]] = {}
        self._values: dict[int, tuple[int, str, dict[int, Any]]] = {}
        self._excluded: dict[int, tuple[int, frozenset[str]]] = {}
        self._words: dict[int, Words] = {}
        self._terms: dict[int, Terms] = {}

    def forget(self, index_uid: int) -> None:
        """Forget an index that no longer exists."""
        by_version = (self._masks, self._keys, self._members, self._values, self._excluded)
        for cache in (*by_version, self._words, self._terms):
            cache.pop(index_uid, None)

    def masks(self, index_uid: int, version: int, rows: Callable[[], Rows]) -> Masks:
        """Return the filter masks for one version of an index.

        Args:
            index_uid, version: identify the version of the index.
            rows: reads the rows of its chunks, and the numbers of their vectors.
        """
        from lorebind_knowledge.index.masks import Masks  # with NumPy, which only filters need

        cached = self._masks.get(index_uid)
        if cached is not None and cached[0] == version:
            return cached[1]
        masks = Masks(*rows(), None if cached is None else cached[1])
        if cached is None or cached[0] < version:
            self._masks[index_uid] = version, masks
        return masks

    def keys(self, index_uid: int, version: int) -> MetadataKeys:
        """Return the known metadata keys for one version of an index."""
        cached = self._keys.get(index_uid)
        if cached is None or cached[0] != version:
            cached = self._keys[index_uid] = version, MetadataKeys()
        return cached[1]

    def members(self, index_uid: int, version: int) -> dict[int, Member | None]:
        """Return the known chunks of one version of an index, by number; callers add to it.

        None stands for a chunk that searches do not find.
        """
        cached = self._members.get(index_uid)
        if cached is None or cached[0] < version or len(cached[1]) > _MEMBERS_KEPT:
            cached = self._members[index_uid] = version, {}
        return cached[1] if cached[0] == version else {}

    def values(self, index_uid: int, version: int, key: str) -> dict[int, Any]:
        """Return the known values of a metadata key in one version of an index, by the number of
        the chunk; callers add to it. Those of one key are kept, since settings rarely name others.
        """
        cached = self._values.get(index_uid)
        if cached is None or cached[:2] != (version, key) or len(cached[2]) > _MEMBERS_KEPT:
            cached = self._values[index_uid] = version, key, {}
        return cached[2]

    def excluded(
        self, index_uid: int, version: int, read: Callable[[], frozenset[str]]
    ) -> frozenset[str]:
        """Return the uris of the excluded documents for one version of an index."""
        cached = self._excluded.get(index_uid)
        if cached is None or cached[0] != version:
            cached = self._excluded[index_uid] = version, read()
        return cached[1]

    def words(self, index_uid: int) -> Words:
        """Return the words of an index, in any version."""
        from lorebind_knowledge.index.words import Words  # with NumPy and the stemmer

        return self._words.setdefault(index_uid, Words(index_uid))

    def terms(self, index_uid: int) -> Terms:
        """Return the terms of an index that a sparse embedder made, in any version."""
        from lorebind_knowledge.index.terms import Terms

        return self._terms.setdefault(index_uid, Terms(index_uid))
