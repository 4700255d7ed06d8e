"""The terms of one index, cached between searches.

Segments of postings never change: a new version of the index needs only the new ones.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from lorebind_knowledge.catalog.postings import (
    joined,
    live_in,
    read_postings,
    read_segments,
    segments_of,
)
from lorebind_knowledge.catalog.rows import damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.postings import Postings, Segment
    from lorebind_knowledge.database.sql import Sql

_MAX_POSTINGS = 2_000_000
"""Maximum number of cached postings of all terms of an index: about 32 MB."""


class Passages:
    """The live passages of an index version, by position: in the order of their numbers."""

    def __init__(self, segments: Mapping[int, Segment]) -> None:
        """
        Args:
            segments: all segments of the terms' kind, oldest first.
        """
        self.segments = segments
        numbers, lengths, *_ = joined(segments.values())
        live = np.flatnonzero(live_in(segments.values()))
        live = live[np.argsort(numbers[live], kind="stable")]
        self.numbers: NDArray[np.int64] = numbers[live]
        self.lengths: NDArray[np.int64] = lengths[live].astype(np.int64)
        self._live = live
        """Where the passages are among those of all segments."""
        positions = np.full(len(numbers), -1, np.int32)
        positions[live] = np.arange(len(live))
        ends = np.cumsum([len(segment.numbers) for segment in segments.values()]).tolist()
        self._positions = dict(zip(segments, np.split(positions, ends), strict=False))
        """For each segment, the positions here of its passages; -1 for those that are gone."""

    def having(
        self, postings: Mapping[int, Postings]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
        """Return the live passages that have a term, ascending, and its weight in each.

        Args:
            postings: of the term, by segment.
        """
        if not postings:
            return None
        try:
            positions = np.concatenate(
                [self._positions[segment][part.positions] for segment, part in postings.items()]
            )
        except IndexError:
            raise damaged("the terms of an index name passages that it does not have") from None
        weights = np.concatenate([part.weights for part in postings.values()])
        order = np.argsort(positions, kind="stable")
        order = order[np.searchsorted(positions[order], 0) :]  # without those that are gone
        return (positions[order], weights[order]) if len(order) else None


P = TypeVar("P", bound=Passages)
T = TypeVar("T")


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
            make_term: makes what is cached of a term from the passages that have it.
        """
        self._index_uid, self._kind = index_uid, kind
        self._make_passages, self._make_term = make_passages, make_term
        self._lock = threading.Lock()
        self._version = -1
        self._passages: P | None = None
        self._terms: dict[str, T | None] = {}
        """Terms of the current version; None for one that no live passage has."""
        self._postings: dict[str, dict[int, Postings]] = {}
        """By term and segment; the least recently used term comes first."""
        self._searched: dict[str, frozenset[int]] = {}
        """The segments in which each of these terms was looked up."""
        self._size = 0

    def passages(self, sql: Sql, version: int) -> P:
        """Return the passages of the version of the index that a transaction sees."""
        with self._lock:
            current = self._passages
            if current is not None and version == self._version:
                return current
        cached = current.segments if current is not None else {}
        segments = segments_of(sql, self._index_uid, self._kind)
        read = read_segments(sql, [segment for segment in segments if segment not in cached])
        there = {segment: cached.get(segment) or read[segment] for segment in segments}
        passages = self._make_passages(sql, there, current)
        with self._lock:
            if version > self._version:
                self._version, self._passages, self._terms = version, passages, {}
        return passages

    def look_up(self, sql: Sql, passages: P, terms: Collection[str]) -> dict[str, T]:
        """Return those of the terms that live passages have."""
        with self._lock:
            cached = self._terms if passages is self._passages else {}
            known = {term: cached[term] for term in terms if term in cached}
        new = {
            term: None if having is None else self._make_term(passages, *having)
            for term, postings in self._read(sql, passages.segments, terms, known).items()
            for having in [passages.having(postings)]
        }
        with self._lock:
            if passages is self._passages:
                self._terms |= new
            self._evict(terms)
        return {term: held for term, held in (known | new).items() if held is not None}

    def _read(
        self,
        sql: Sql,
        segments: Mapping[int, Segment],
        terms: Iterable[str],
        known: Collection[str],
    ) -> dict[str, dict[int, Postings]]:
        """Return the postings of terms that are not known. Only segments that are new are read."""
        with self._lock:
            postings = {t: dict(self._postings.get(t, {})) for t in terms if t not in known}
            missing = defaultdict(list)
            for term in postings:
                missing[frozenset(segments) - self._searched.get(term, frozenset())].append(term)
        for unread, those in missing.items():
            new = {segment: segments[segment] for segment in unread}
            for segment, term, part in read_postings(sql, new, those):
                postings[term][segment] = part
        # In the order of the segments, so that sums of the same figures are the same everywhere.
        ordered = {
            term: {segment: parts[segment] for segment in segments if segment in parts}
            for term, parts in postings.items()
        }
        with self._lock:
            for term, parts in ordered.items():
                self._size += _size(parts) - _size(self._postings.get(term))
            self._postings |= ordered
            self._searched |= dict.fromkeys(ordered, frozenset(segments))
        return ordered

    def _evict(self, used: Iterable[str]) -> None:
        """Forget the least recently used terms while more postings are cached than allowed."""
        for term in used:
            if term in self._postings:
                self._postings[term] = self._postings.pop(term)
        while self._size > _MAX_POSTINGS:
            term = next(iter(self._postings))
            self._size -= _size(self._postings.pop(term))
            self._terms.pop(term, None)
            del self._searched[term]


def _size(parts: Mapping[int, Postings] | None) -> int:
    return 0 if parts is None else 1 + sum(len(part.positions) for part in parts.values())


def values_of(keys: NDArray[Any], values: NDArray[Any], looked_up: NDArray[Any]) -> NDArray[Any]:
    """Return the values of some keys; 0 for a missing key.

    Args:
        keys: unique and ascending.
        values: one per key.
        looked_up: any keys.
    """
    if not len(keys):
        return np.zeros(len(looked_up), values.dtype)
    at = np.minimum(np.searchsorted(keys, looked_up), len(keys) - 1)
    return np.where(keys[at] == looked_up, values[at], 0)
