"""The terms of one index, cached between searches.

Segments of postings never change: a new version of the index needs only the new ones.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.catalog.segments import (
    Postings,
    read_postings,
    read_segments,
    segments_of,
)
from lorebind_knowledge.index.matches import Passages, Term

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.segments import Segment
    from lorebind_knowledge.database.sql import Sql

_MAX_BYTES = 64_000_000
"""Maximum size of the cached postings of all terms of an index."""
_OF_A_TERM = 500
"""The bytes that a term takes besides its postings."""
_PACKED, _UNPACKED = 3, 29
"""The bytes of a posting, and those that it takes besides as part of a `Term`."""
_MOST_UNPACKED = 16_384
"""Terms with more postings are unpacked for each search."""


class _Packed(NamedTuple):
    """The postings of a term in some segments, one after the other."""

    segments: tuple[int, ...]
    """All segments in which the term was looked up, oldest first."""
    counts: NDArray[np.int32]
    """The number of postings in each segment."""
    postings: Postings

    @property
    def size(self) -> int:
        """The bytes that the term takes in the cache."""
        count = len(self.postings.positions)
        each = _PACKED + (_UNPACKED if count <= _MOST_UNPACKED else 0)
        return _OF_A_TERM + self.counts.nbytes + each * count

    def by_segment(self) -> dict[int, Postings]:
        ends = self.counts.cumsum()
        columns = [np.split(column, ends) for column in self.postings]
        parts = map(Postings, *columns)  # and one without postings, after the last segment
        return dict(zip(self.segments, parts, strict=False))


def _pack(segments: tuple[int, ...], parts: Mapping[int, Postings]) -> _Packed:
    """Join the postings of a term by segment."""
    none = Postings(np.zeros(0, np.uint16), np.zeros(0, np.uint8))
    ordered = [parts.get(segment, none) for segment in segments]
    counts = np.array([len(part.positions) for part in ordered], np.int32)
    columns = zip(none, *ordered, strict=True)
    return _Packed(segments, counts, Postings(*map(np.concatenate, columns)))


P = TypeVar("P", bound=Passages)
T = TypeVar("T", bound=Term[Any])


class PostingsCache(Generic[P, T]):
    """The passages and terms of an index. Safe to share among threads."""

    def __init__(
        self,
        index_uid: int,
        kind: int,
        make_passages: Callable[[Sql, Mapping[int, Segment], P | None], P],
        make_term: Callable[[P, NDArray[np.int32], NDArray[np.uint8]], T],
    ) -> None:
        """
        Args:
            index_uid, kind: identify the postings.
            make_passages: makes the passages of a version from its segments, and those of the
                version before if they are cached.
            make_term: makes a term from the passages that have it, and its weights.
        """
        self._index_uid, self._kind = index_uid, kind
        self._make_passages, self._make_term = make_passages, make_term
        self._lock = threading.Lock()
        self._version = -1
        self._passages: P | None = None
        self._terms: dict[str, T | None] = {}
        """Terms of the current version; None for one that no live passage has."""
        self._packed: dict[str, _Packed] = {}
        """The least recently used term comes first."""
        self._size = 0

    def passages(self, sql: Sql, version: int) -> P:
        """Return the passages of the version of the index that a transaction sees."""
        with self._lock:
            current = self._passages
            if current is not None and version == self._version:
                return current
        cached = current.segments if current is not None else {}
        # Without the lock, because reading takes long; at worst, two searches read the same.
        segments = segments_of(sql, self._index_uid, self._kind)
        read = read_segments(sql, [segment for segment in segments if segment not in cached])
        there = {segment: cached.get(segment) or read[segment] for segment in segments}
        passages = self._make_passages(sql, there, current)
        with self._lock:
            # A search that sees an older state must not replace what the newer ones share.
            if version > self._version:
                self._version, self._passages, self._terms = version, passages, {}
        return passages

    def look_up(self, sql: Sql, passages: P, terms: Collection[str]) -> dict[str, T]:
        """Return those of the terms that live passages have."""
        with self._lock:
            cached = self._terms if passages is self._passages else {}
            known = {term: cached[term] for term in terms if term in cached}
        packed = self._read(sql, passages, [term for term in terms if term not in known])
        new = {term: self._unpacked(passages, held) for term, held in packed.items()}
        with self._lock:
            # Otherwise these are terms of another version than the cached one.
            if passages is self._passages:
                self._terms |= {
                    term: held
                    for term, held in new.items()
                    if held is None or len(held.positions) <= _MOST_UNPACKED
                }
            self._evict(terms)
        return {term: held for term, held in (known | new).items() if held is not None}

    def _unpacked(self, passages: P, packed: _Packed) -> T | None:
        within, weights = packed.postings
        at = np.repeat(passages.starts, packed.counts) + within
        if passages.live is not None:
            there = passages.live[at]
            at, weights = at[there], weights[there]
        return self._make_term(passages, at, weights) if len(at) else None

    def _read(self, sql: Sql, passages: P, terms: Collection[str]) -> dict[str, _Packed]:
        """Return the postings of terms. Only segments that are new are read."""
        segments, order = passages.segments, tuple(passages.segments)
        with self._lock:
            packed = {term: self._packed[term] for term in terms if term in self._packed}
        parts: dict[str, dict[int, Postings]] = {}
        missing: dict[str, list[int]] = {}
        for term in terms:
            held = packed.get(term)
            if held is None or held.segments != order:
                parts[term] = held.by_segment() if held is not None else {}
                missing[term] = [segment for segment in order if segment not in parts[term]]
        for segment, term, part in read_postings(sql, segments, missing):
            if len(part.positions) and part.positions.max() >= len(segments[segment].numbers):
                raise damaged("the terms of an index name passages that it does not have")
            parts[term][segment] = part
        # In the order of the segments, so that sums of the same figures are the same.
        packed |= {term: _pack(order, of_term) for term, of_term in parts.items()}
        with self._lock:
            for term, held in packed.items():
                before = self._packed.get(term)
                self._size += held.size - (before.size if before else 0)
            self._packed |= packed
        return packed

    def _evict(self, used: Iterable[str]) -> None:
        """Forget the least recently used terms while what is cached is larger than allowed."""
        for term in used:
            if term in self._packed:
                self._packed[term] = self._packed.pop(term)
        while self._size > _MAX_BYTES:
            term = next(iter(self._packed))
            self._size -= self._packed.pop(term).size
            self._terms.pop(term, None)
