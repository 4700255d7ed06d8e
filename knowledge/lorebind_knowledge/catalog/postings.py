"""The terms of passages, in segments: each publication of documents writes one.

A segment has the passages that became live, the postings of their terms, and the numbers of the
passages that searches find no longer. It never changes, so that readers can cache it; a search
reads all segments of an index. When there are several of similar size they are merged into one,
without the passages that are gone. The postings of a segment are rows of many terms each, because a
row for each term takes ten times as long to write. All arrays are little-endian.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.text.terms import index_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.database.sql import Sql

WORDS = 0
"""The kind of terms that are words; weights are numbers of occurrences."""
TERMS = 1
"""The kind of terms that a sparse embedder makes; see `catalog.terms` for their weights."""
MAX_WEIGHT = 255

_MAX_PASSAGES = 65_536
"""Of a segment: a position has 16 bits."""
_FAN_IN = 8
"""Number of segments of similar size that are merged. A passage is rewritten once for each power of
it, and a search reads fewer than this number of segments of each size."""
_LARGEST_MERGED = 4096
"""Segments with more passages stay as they are."""
_FEW_GONE = 64
"""Fewer passages that are gone are not worth cleaning up."""
_TERMS_PER_ROW, _POSTINGS_PER_ROW = 512, 8192
"""A row ends where it exceeds either."""
_LONGEST_TERM = 64
"""Longer terms are stored as hashes, because PostgreSQL limits the size of keys."""
_NONE = np.zeros(0, np.int64)


class Passage(NamedTuple):
    """The terms of a passage."""

    number: int
    uri: str
    length: int
    """Of words: their number with repeats."""
    weights: Mapping[str, int]
    """The weight of each term, from 1; more than `MAX_WEIGHT` counts as that."""


def words_of(number: int, uri: str, text: str, language: str) -> Passage:
    """Split the text of a passage into words."""
    counts = Counter(index_terms(text, language).split())
    return Passage(number, uri, counts.total(), counts)


class Segment(NamedTuple):
    """The passages of a segment, by position."""

    numbers: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    documents: NDArray[np.int64]
    gone: NDArray[np.int64]
    """Numbers of passages of earlier segments that are not live from here on."""
    rows: list[str]
    """The first term of each row of postings, sorted."""


class Postings(NamedTuple):
    """The passages of a segment that have a term."""

    positions: NDArray[np.uint16]
    weights: NDArray[np.uint8]


class TermPostings(NamedTuple):
    """All postings of a segment, or of a part of it: by term, then by position."""

    terms: list[str]
    counts: NDArray[np.uint32]
    positions: NDArray[np.uint16]
    weights: NDArray[np.uint8]


def write(
    sql: Sql, space: int, kind: int, passages: Sequence[Passage], gone: Collection[int] = ()
) -> None:
    """Add passages that became live, and note those that are live no longer, by number."""
    for start in range(0, len(passages) or bool(gone), _MAX_PASSAGES):
        some = passages[start : start + _MAX_PASSAGES]
        sizes = [len(passage.weights) for passage in some]
        terms = list(chain.from_iterable(passage.weights for passage in some))
        weights = np.fromiter(
            chain.from_iterable(passage.weights.values() for passage in some), np.int64, len(terms)
        )
        segment = Segment(
            np.array([passage.number for passage in some], "<i8"),
            np.array([passage.length for passage in some], "<u4"),
            np.frombuffer(b"".join(document_hash(passage.uri) for passage in some), "<i8"),
            np.array([] if start else list(gone), "<i8"),
            [],
        )
        keys = {term: key_of(term) for term in set(terms)}
        vocabulary = sorted(keys, key=keys.__getitem__)
        postings = _sorted(
            [keys[term] for term in vocabulary],
            _places({term: place for place, term in enumerate(vocabulary)}, terms),
            np.repeat(np.arange(len(some), dtype=np.int32), sizes),
            np.minimum(weights, MAX_WEIGHT),
        )
        _insert(sql, space, kind, segment, postings)
    _tidy(sql, space, kind)


def drop(sql: Sql, space: int, kinds: Sequence[int] = (WORDS, TERMS)) -> None:
    """Delete the segments of an index, of these kinds."""
    chosen = "from catalog_segments where space = :space and kind in (:*kinds)"
    sql.run(
        f"delete from catalog_postings where segment in (select segment {chosen})",
        space=space,
        kinds=list(kinds),
    )
    sql.run(f"delete {chosen}", space=space, kinds=list(kinds))


def segments_of(sql: Sql, space: int, kind: int) -> list[int]:
    """Return the segments of an index, oldest first."""
    rows = sql.run(
        "select segment from catalog_segments where space = :space and kind = :kind"
        " order by segment",
        space=space,
        kind=kind,
    )
    return [segment for (segment,) in rows]


def read_segments(sql: Sql, segments: Collection[int]) -> dict[int, Segment]:
    """Return the passages of segments."""
    if not segments:
        return {}
    firsts: defaultdict[int, list[str]] = defaultdict(list)
    for segment, first in sql.run(
        "select segment, first_term from catalog_postings where segment in (:*segments)",
        segments=list(segments),
    ):
        firsts[segment].append(first)
    read = {
        segment: _segment(passages, arrays, sorted(firsts[segment]))
        for segment, passages, *arrays in sql.run(
            "select segment, passages, numbers, lengths, documents, gone from catalog_segments"
            " where segment in (:*segments)",
            segments=list(segments),
        )
    }
    return {segment: read[segment] for segment in segments if segment in read}


def live_in(segments: Collection[Segment]) -> NDArray[np.bool_]:
    """Return for each passage of segments, oldest first, whether no later segment says it is gone.

    A passage may be gone and come again in a later segment.
    """
    numbers, _, _, gone = joined(segments)
    if not len(gone):
        return np.ones(len(numbers), bool)
    come_at, gone_at = _ages(segments)
    order = np.argsort(gone, kind="stable")  # the last of equal numbers is the newest
    last = order[np.searchsorted(gone[order], numbers, side="right") - 1]
    live: NDArray[np.bool_] = (gone[last] != numbers) | (gone_at[last] <= come_at)
    return live


def _gone_before(segments: Mapping[int, Segment]) -> NDArray[np.int64]:
    """Return the numbers that are gone, unless the passages are from these segments themselves."""
    numbers, _, _, gone = joined(segments.values())
    come_at, gone_at = _ages(segments.values())
    gone, first = np.unique(gone, return_index=True)
    numbers, come = np.unique(numbers, return_index=True)
    if not len(numbers):
        return gone
    at = np.searchsorted(numbers, gone).clip(max=len(numbers) - 1)
    ours = (numbers[at] == gone) & (come_at[come[at]] < gone_at[first])
    left: NDArray[np.int64] = gone[~ours]
    return left


def joined(segments: Collection[Segment]) -> list[NDArray[Any]]:
    """Return numbers, lengths, documents and numbers that are gone, of all segments."""
    return [
        np.concatenate([_NONE, *(segment[column] for segment in segments)]) for column in range(4)
    ]


def _ages(segments: Collection[Segment]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of the segment of each passage, and of each number that is gone."""
    places = np.arange(len(segments))
    come, gone = (
        np.repeat(places, [len(segment[column]) for segment in segments]) for column in (0, 3)
    )
    return come, gone


def read_postings(
    sql: Sql, segments: Mapping[int, Segment], terms: Collection[str]
) -> Iterator[tuple[int, str, Postings]]:
    """Yield segment, term and postings for each of these terms that a segment has."""
    by_key = {key_of(term): term for term in terms}
    wanted: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for segment, held in segments.items():
        for key in by_key:
            if row := bisect_right(held.rows, key):
                wanted[segment, held.rows[row - 1]].append(key)
    if not wanted:
        return
    for segment, first, *arrays in sql.run(
        "select segment, first_term, terms, counts, positions, weights from catalog_postings"
        " where segment in (:*segments) and first_term in (:*firsts)",
        segments=list({segment for segment, _ in wanted}),
        firsts=list({first for _, first in wanted}),
    ):
        if keys := wanted.get((segment, first)):
            block = read_block(*arrays)
            ends = block.counts.cumsum().tolist()
            for key in keys:
                place = bisect_right(block.terms, key) - 1
                if block.terms[place] == key:
                    part = slice(ends[place] - int(block.counts[place]), ends[place])
                    postings = Postings(block.positions[part], block.weights[part])
                    yield segment, by_key[key], postings


def key_of(term: str) -> str:
    """Return the stored form of a term."""
    if len(term) <= _LONGEST_TERM:
        return term
    return f"#{hashlib.sha256(term.encode()).hexdigest()[: _LONGEST_TERM - 1]}"


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
    largest = _FAN_IN
    while largest <= _LARGEST_MERGED:
        newest = []
        for size in sizes:
            if size.passages + size.gone > largest:
                break
            newest.append(size.segment)
        if len(newest) >= _FAN_IN:
            return newest[::-1]
        largest *= _FAN_IN
    return []


def due_for_cleaning(sizes: Sequence[Size]) -> list[list[Size]]:
    """Return all segments in groups to merge, oldest first, if many of the passages are gone."""
    gone = sum(size.gone for size in sizes)
    if gone < _FEW_GONE or gone * 4 < sum(size.passages for size in sizes):
        return []
    groups: list[list[Size]] = []
    total = _MAX_PASSAGES
    for size in reversed(sizes):
        total += size.passages
        if total > _MAX_PASSAGES:
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
    positions = np.where(live, np.cumsum(live) - 1, -1).astype(np.int32)
    parts: dict[int, list[TermPostings]] = {segment: [] for segment in segments}
    for segment, *arrays in sql.run(
        "select segment, terms, counts, positions, weights from catalog_postings"
        " where segment in (:*segments) order by segment, first_term",
        segments=list(segments),
    ):
        parts[segment].append(read_block(*arrays))
    rows = [row for segment in segments for row in parts[segment]]
    vocabulary = sorted(set(chain.from_iterable(row.terms for row in rows)))
    places = {term: place for place, term in enumerate(vocabulary)}
    columns: list[tuple[NDArray[Any], ...]] = [(_NONE.astype(np.int32),) * 3]
    start = 0
    for segment in segments:
        for row in parts[segment]:
            at = positions[start + row.positions.astype(np.int64)]
            of_terms = np.repeat(_places(places, row.terms), row.counts)
            there = at >= 0
            columns.append((of_terms[there], at[there], row.weights[there]))
        start += len(segments[segment].numbers)
    merged = Segment(numbers[live], lengths[live], documents[live], gone, [])
    terms = _sorted(vocabulary, *map(np.concatenate, zip(*columns, strict=True)))
    for table in ("catalog_postings", "catalog_segments"):
        sql.run(f"delete from {table} where segment in (:*segments)", segments=list(segments))
    _insert(sql, space, kind, merged, terms)


def _places(places: Mapping[str, int], terms: Sequence[str]) -> NDArray[np.int32]:
    return np.fromiter(map(places.__getitem__, terms), np.int32, len(terms))


def _sorted(
    vocabulary: list[str],
    terms: NDArray[np.int32],
    positions: NDArray[np.int32],
    weights: NDArray[Any],
) -> TermPostings:
    """Sort postings by term. Those of a term are in order already."""
    order = np.argsort(terms, kind="stable")
    counts = np.bincount(terms, minlength=len(vocabulary))
    return TermPostings(
        [vocabulary[place] for place in np.flatnonzero(counts).tolist()],
        counts[counts > 0].astype("<u4"),
        positions[order].astype("<u2"),
        weights[order].astype(np.uint8),
    )


def _insert(sql: Sql, space: int, kind: int, passages: Segment, terms: TermPostings) -> None:
    if len(passages.numbers) or len(passages.gone):
        insert_postings(sql, insert_passages(sql, space, kind, passages), terms)


def insert_passages(sql: Sql, space: int, kind: int, passages: Segment) -> int:
    """Write the passages of a new segment, and return the segment."""
    ((segment,),) = sql.run(
        "insert into catalog_segments (space, kind, passages, numbers, lengths, documents, gone)"
        " values (:space, :kind, :passages, :numbers, :lengths, :documents, :gone)"
        " returning segment",
        space=space,
        kind=kind,
        passages=len(passages.numbers),
        numbers=passages.numbers.astype("<i8").tobytes(),
        lengths=passages.lengths.astype("<u4").tobytes(),
        documents=passages.documents.astype("<i8").tobytes(),
        gone=passages.gone.astype("<i8").tobytes(),
    )
    return int(segment)


def insert_postings(sql: Sql, segment: int, terms: TermPostings) -> None:
    """Write postings of a segment, whose terms it does not have yet."""
    rows = []
    ends = [0, *terms.counts.cumsum().tolist()]
    low = 0
    while low < len(terms.terms):
        # At least one term, whatever its number of postings.
        high = max(low + 1, bisect_right(ends, ends[low] + _POSTINGS_PER_ROW) - 1)
        high = min(high, low + _TERMS_PER_ROW)
        part = slice(ends[low], ends[high])
        rows.append(
            {
                "segment": segment,
                "first_term": terms.terms[low],
                "terms": "\n".join(terms.terms[low:high]),
                "counts": terms.counts[low:high].tobytes(),
                "positions": terms.positions[part].tobytes(),
                "weights": terms.weights[part].tobytes(),
            }
        )
        low = high
    sql.insert("catalog_postings", rows)


def document_hash(uri: str) -> bytes:
    """Return what `Segment.documents` has of a document."""
    return hashlib.blake2b(uri.encode(errors="surrogatepass"), digest_size=8).digest()


def _segment(passages: Any, arrays: Sequence[Any], rows: list[str]) -> Segment:
    """Check and decode a row of `catalog_segments`."""
    kinds = [np.dtype(kind) for kind in ("<i8", "<u4", "<i8", "<i8")]
    if type(passages) is not int or any(type(array) is not bytes for array in arrays):
        raise damaged("the segments of an index hold values that Lorebind never writes")
    sizes = [len(array) / kind.itemsize for array, kind in zip(arrays, kinds, strict=True)]
    if sizes[:3] != [passages] * 3 or sizes[3] % 1:
        raise damaged("the segments of an index have arrays of wrong lengths")
    numbers, lengths, documents, gone = (
        np.frombuffer(*each) for each in zip(arrays, kinds, strict=True)
    )
    return Segment(numbers, lengths, documents, gone, rows)


def read_block(terms: Any, counts: Any, positions: Any, weights: Any) -> TermPostings:
    """Check and decode a row of `catalog_postings`."""
    if type(terms) is not str or {type(counts), type(positions), type(weights)} != {bytes}:
        raise damaged("the terms of an index hold values that Lorebind never writes")
    names = terms.split("\n")
    if len(counts) != 4 * len(names) or len(positions) != 2 * len(weights):
        raise damaged("the terms of an index have arrays of wrong lengths")
    each = np.frombuffer(counts, "<u4")
    if int(each.sum()) != len(weights):
        raise damaged("the terms of an index have another number of postings than they count")
    return TermPostings(
        names, each, np.frombuffer(positions, "<u2"), np.frombuffer(weights, np.uint8)
    )
