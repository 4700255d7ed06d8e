"""The terms of passages: each publication of documents writes them as a segment.

When there are several segments of similar size they are merged into one, without the passages that
are gone. See `segments` for what they consist of.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.segments import (
    LONGEST_TERM,
    MAX_PASSAGES,
    Segment,
    TermPostings,
    ages,
    document_hash,
    insert_passages,
    insert_postings,
    joined,
    key_of,
    live_in,
    read_segments,
    read_terms,
)
from lorebind_knowledge.text.terms import index_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.database.sql import Sql

WORDS = 0
"""The kind of terms that are words; weights are numbers of occurrences."""
TERMS = 1
"""The kind of terms that a sparse embedder makes; see `catalog.terms` for their weights."""
MAX_WEIGHT = 255
"""Maximum weight of a term in a passage; higher ones count as this."""
_POSITION_BITS = 16
"""Number of bits of a position in a segment, see `MAX_PASSAGES`."""

_SIZES = (8, 64, 512, 4096)
"""Of segments that are merged: the most passages that each may have."""
_FAN_IN = 8
"""Number of segments of such a size that are merged, at least."""
_LARGE, _ENOUGH = MAX_PASSAGES // 2, MAX_PASSAGES * 3 // 4
"""Segments of any size up to `_LARGE` are merged when they have `_ENOUGH` passages together."""
_FEW_GONE = 64
"""Fewer passages that are gone are not worth cleaning up."""
_ROWS_AT_ONCE = 64
"""Number of rows of postings that a merge holds in memory, about."""
_NONE = np.zeros(0, np.int64)


class Passage(NamedTuple):
    """The terms of a passage."""

    number: int
    uri: str
    length: int
    """Of words: their number with repeats."""
    terms: Sequence[str]
    """Its terms; each word as often as it occurs."""
    weights: Sequence[int] = ()
    """The weight of each term that is no word, from 1."""


def words_of(number: int, uri: str, text: str, language: str) -> Passage:
    """Split the text of a passage into words."""
    terms = index_terms(text, language).split()
    return Passage(number, uri, len(terms), terms)


def write(
    sql: Sql, space: int, kind: int, passages: Sequence[Passage], gone: Collection[int] = ()
) -> None:
    """Add passages that became live, and note those that are live no longer, by number."""
    for start in range(0, len(passages) or bool(gone), MAX_PASSAGES):
        some = passages[start : start + MAX_PASSAGES]
        segment = Segment(
            np.array([passage.number for passage in some], "<i8"),
            np.array([passage.length for passage in some], "<u4"),
            np.frombuffer(b"".join(document_hash(passage.uri) for passage in some), "<i8"),
            np.array([] if start else list(gone), "<i8"),
            [],
        )
        postings = _postings(some, kind)
        insert_postings(sql, insert_passages(sql, space, kind, segment), postings)
    _tidy(sql, space, kind)


def _postings(passages: Sequence[Passage], kind: int) -> TermPostings:
    """Return the postings of at most `MAX_PASSAGES` passages."""
    terms = list(chain.from_iterable(passage.terms for passage in passages))
    long = {term: key_of(term) for term in set(terms) if len(term) > LONGEST_TERM}
    keys = [long.get(term, term) for term in terms] if long else terms
    vocabulary = sorted(set(keys))
    places = _places({term: place for place, term in enumerate(vocabulary)}, keys)
    positions = np.arange(len(passages), dtype=np.int64)
    positions = np.repeat(positions, [len(passage.terms) for passage in passages])
    pairs = places.astype(np.int64) << _POSITION_BITS | positions
    if kind == WORDS:  # together, because counting them passage by passage takes twice as long
        pairs, weights = np.unique(pairs, return_counts=True)
    else:
        weights = np.array([*chain.from_iterable(passage.weights for passage in passages)], int)
    places, positions = pairs >> _POSITION_BITS, pairs & ((1 << _POSITION_BITS) - 1)
    return _sorted(vocabulary, places.astype(np.int32), positions, np.minimum(weights, MAX_WEIGHT))


def drop(sql: Sql, space: int, kinds: Sequence[int] = (WORDS, TERMS)) -> None:
    """Delete the segments of an index, of these kinds."""
    chosen = "from catalog_segments where space = :space and kind in (:*kinds)"
    # First, because only the segments tell which postings belong to the index.
    sql.run(
        f"delete from catalog_postings where segment in (select segment {chosen})",
        space=space,
        kinds=list(kinds),
    )
    sql.run(f"delete {chosen}", space=space, kinds=list(kinds))


def _gone_before(segments: Mapping[int, Segment]) -> NDArray[np.int64]:
    """Return the numbers that are gone, unless the passages are from these segments themselves."""
    numbers, _, _, gone = joined(segments.values())
    come_at, gone_at = ages(segments.values())
    gone, first = np.unique(gone, return_index=True)
    numbers, come = np.unique(numbers, return_index=True)
    if not len(numbers):
        return gone
    at = np.searchsorted(numbers, gone).clip(max=len(numbers) - 1)
    ours = (numbers[at] == gone) & (come_at[come[at]] < gone_at[first])
    left: NDArray[np.int64] = gone[~ours]
    return left


class Size(NamedTuple):
    """The number of passages that a segment has, and that it says are gone."""

    segment: int
    passages: int
    gone: int


def due_for_merge(sizes: Sequence[Size]) -> list[int]:
    """Return the newest segments if enough of them are of similar size, oldest first.

    Args:
        sizes: all segments, newest first.
    """
    levels = [(largest, _FAN_IN, largest) for largest in _SIZES]
    for largest, least, enough in (*levels, (_LARGE, 2, _ENOUGH)):
        newest: list[Size] = []
        # Without gaps from the newest on: the merged segment becomes the newest, and only the order
        # of segments says which passages are gone.
        for size in sizes:
            if size.passages + size.gone > largest:
                break
            if sum(each.passages for each in newest) + size.passages > MAX_PASSAGES:
                break
            newest.append(size)
        # Otherwise a large one would be written again and again with a few small ones.
        together = sum(size.passages + size.gone for size in newest)
        if len(newest) >= least and together >= enough:
            return [size.segment for size in reversed(newest)]
    return []


def due_for_cleaning(sizes: Sequence[Size]) -> list[list[Size]]:
    """Return all segments in groups to merge, oldest first, if many of the passages are gone."""
    gone = sum(size.gone for size in sizes)
    # Cleaning writes all terms again, which pays off once a quarter of the passages is gone.
    if gone < _FEW_GONE or gone * 4 < sum(size.passages for size in sizes):
        return []
    groups: list[list[Size]] = []
    total = MAX_PASSAGES
    for size in reversed(sizes):
        total += size.passages
        if total > MAX_PASSAGES:
            groups.append([])
            total = size.passages
        groups[-1].append(size)
    return groups


def _tidy(sql: Sql, space: int, kind: int) -> None:
    """Merge segments that are due."""
    while True:
        sizes = [
            Size(*row)
            for row in sql.run(
                "select segment, passages, length(gone) / 8 from catalog_segments"
                " where space = :space and kind = :kind order by segment desc",
                space=space,
                kind=kind,
            )
        ]
        if groups := due_for_cleaning(sizes):
            segments = read_segments(sql, [size.segment for group in groups for size in group])
            live = live_in(segments.values())
            for group in groups:
                part = {size.segment: segments[size.segment] for size in group}
                count = sum(size.passages for size in group)
                _merge(sql, space, kind, part, live[:count], _NONE)
                live = live[count:]
            return
        due = due_for_merge(sizes)
        if not due:
            return
        segments = read_segments(sql, due)
        _merge(sql, space, kind, segments, live_in(segments.values()), _gone_before(segments))


def _merge(
    sql: Sql,
    space: int,
    kind: int,
    segments: Mapping[int, Segment],
    live: NDArray[np.bool_],
    gone: NDArray[np.int64],
) -> None:
    """Replace segments by one, without the passages that are gone.

    Args:
        segments: segments that follow each other, oldest first.
        live: which of their passages are live.
        gone: the numbers of passages that are gone from earlier segments.
    """
    numbers, lengths, documents, _ = joined(segments.values())
    merged = Segment(numbers[live], lengths[live], documents[live], gone, [])
    if len(merged.numbers) or len(gone):
        new = insert_passages(sql, space, kind, merged)
        positions = np.where(live, np.cumsum(live) - 1, -1).astype(np.int32)
        ends = np.cumsum([len(segment.numbers) for segment in segments.values()])
        of_segments = dict(zip(segments, np.split(positions, ends), strict=False))
        # In parts, because all postings of large segments take much memory.
        rows = sorted(chain.from_iterable(segment.rows for segment in segments.values()))
        begins = sorted(set(rows[::_ROWS_AT_ONCE]))
        for low, high in zip_longest(begins, begins[1:]):
            blocks = [
                (of_segments[segment], block)
                for segment, block in read_terms(sql, segments, low, high)
            ]
            insert_postings(sql, new, _joined(blocks))
    for table in ("catalog_postings", "catalog_segments"):
        sql.run(f"delete from {table} where segment in (:*segments)", segments=list(segments))


def _joined(blocks: Sequence[tuple[NDArray[np.int32], TermPostings]]) -> TermPostings:
    """Return the postings of several blocks without passages that are gone.

    Args:
        blocks: by segment, oldest first; with the new position for each of its passages, -1 for
            those that are gone.
    """
    vocabulary = sorted(set(chain.from_iterable(block.terms for _, block in blocks)))
    places = {term: place for place, term in enumerate(vocabulary)}
    columns: list[tuple[NDArray[Any], ...]] = [(_NONE.astype(np.int32),) * 3]
    for positions, block in blocks:
        at = positions[block.positions]
        there = at >= 0
        terms = np.repeat(_places(places, block.terms), block.counts)
        columns.append((terms[there], at[there], block.weights[there]))
    return _sorted(vocabulary, *map(np.concatenate, zip(*columns, strict=True)))


def _places(places: Mapping[str, int], terms: Sequence[str]) -> NDArray[np.int32]:
    return np.fromiter(map(places.__getitem__, terms), np.int32, len(terms))


def _sorted(
    vocabulary: list[str],
    terms: NDArray[np.int32],
    positions: NDArray[Any],
    weights: NDArray[Any],
) -> TermPostings:
    """Sort postings by term. Those of a term are in order already."""
    # NumPy sorts 16 bits in a tenth of the time.
    narrow = terms.astype(np.uint16) if len(vocabulary) <= 1 << 16 else terms
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(terms, minlength=len(vocabulary))
    return TermPostings(
        [vocabulary[place] for place in np.flatnonzero(counts).tolist()],
        counts[counts > 0].astype(np.uint32),
        positions[order].astype(np.uint16),
        weights[order].astype(np.uint8),
    )
