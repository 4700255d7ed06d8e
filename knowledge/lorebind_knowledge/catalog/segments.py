"""Segments of postings as they are stored: the terms of passages, packed in arrays.

A segment has passages that became live together, the postings of their terms, and the numbers of
the passages that searches find no longer. It never changes, so that readers can cache it; a search
reads all segments of an index. The postings of a segment are rows of many terms each, because a row
for each term takes ten times as long to write. All arrays are little-endian.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.rows import damaged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.database.sql import Sql

MAX_PASSAGES = 65_536
"""Of a segment: a position has 16 bits."""

_TERMS_PER_ROW, _POSTINGS_PER_ROW = 512, 2048
"""A row ends where it exceeds either."""
LONGEST_TERM = 64
"""Longer terms are stored as hashes, because PostgreSQL limits the size of keys."""
_NONE = np.zeros(0, np.int64)
# Rows by pairs of segment and first term, as JSON. Both lists alone would also name large rows of
# frequent terms, which are first in rows of small segments.
_ROWS_IN_POSTGRES = (
    "json_array_elements(:rows::json) as needed (row) join catalog_postings"
    " on segment = (row ->> 0)::bigint and first_term = row ->> 1"
)
_ROWS_IN_SQLITE = (
    "json_each(:rows) as needed cross join catalog_postings"
    " on segment = json_extract(value, '$[0]') and first_term = json_extract(value, '$[1]')"
)


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
    """Postings of a segment: by term, then by position."""

    terms: list[str]
    counts: NDArray[np.uint32]
    positions: NDArray[np.uint16]
    weights: NDArray[np.uint8]


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
        for segment, passages, *arrays in sql.run_binary(
            "select segment, passages, numbers, lengths, documents, gone from catalog_segments"
            " where segment in (:*segments)",
            segments=list(segments),
        )
    }
    return {segment: read[segment] for segment in segments if segment in read}


def joined(segments: Collection[Segment]) -> list[NDArray[Any]]:
    """Return numbers, lengths, documents and numbers that are gone, of all segments."""
    none = (_NONE, _NONE.astype(np.uint32), _NONE, _NONE)
    return [
        np.concatenate([none[column], *(segment[column] for segment in segments)])
        for column in range(4)
    ]


def live_in(segments: Collection[Segment]) -> NDArray[np.bool_]:
    """Return for each passage of segments, oldest first, whether no later segment says it is gone.

    A passage may be gone and come again in a later segment.
    """
    live = np.ones(sum(len(segment.numbers) for segment in segments), bool)
    if not any(len(segment.gone) for segment in segments):
        return live
    numbers, _, _, gone = joined(segments)
    come_at, gone_at = ages(segments)
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    # Few passages are gone, so these are looked up among the others.
    first, end = (np.searchsorted(ascending, gone, side=side) for side in ("left", "right"))
    while len(first):
        there = first < end
        first, end, gone_at = first[there], end[there], gone_at[there]
        passages = order[first]
        live[passages[come_at[passages] < gone_at]] = False
        first = first + 1
    return live


def ages(segments: Collection[Segment]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of the segment of each passage, and of each number that is gone."""
    places = np.arange(len(segments))
    come, gone = (
        np.repeat(places, [len(segment[column]) for segment in segments]) for column in (0, 3)
    )
    return come, gone


def read_postings(
    sql: Sql, segments: Mapping[int, Segment], terms: Mapping[str, Collection[int]]
) -> Iterator[tuple[int, str, Postings]]:
    """Yield segment, term and postings for each of these terms that a segment has.

    The arrays are parts of a row of other terms too: copy what is kept.

    Args:
        sql: a transaction.
        segments: at least the segments to read.
        terms: by term: the segments in which to look for it.
    """
    by_key = {key_of(term): term for term in terms}
    needed: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for key, term in by_key.items():
        for segment in terms[term]:
            rows = segments[segment].rows
            if row := bisect_right(rows, key):
                needed[segment, rows[row - 1]].append(key)
    if not needed:
        return
    for segment, first, *arrays in sql.run_binary(
        "select segment, first_term, terms, counts, positions, weights"
        f" from {_ROWS_IN_POSTGRES if sql.is_postgres else _ROWS_IN_SQLITE}",
        rows=json.dumps(list(needed)),
    ):
        block = read_block(*arrays)
        for key in needed[segment, first]:
            place = bisect_right(block.terms, key) - 1
            if block.terms[place] == key:
                start = int(block.counts[:place].sum())
                part = slice(start, start + int(block.counts[place]))
                postings = Postings(block.positions[part], block.weights[part])
                yield segment, by_key[key], postings


def read_terms(
    sql: Sql, segments: Mapping[int, Segment], low: str, high: str | None
) -> Iterator[tuple[int, TermPostings]]:
    """Yield the postings of terms from `low` to before `high`, by segment and term.

    Args:
        sql: a transaction.
        segments: the segments to read.
        low: the first term.
        high: the term before which to end; None means after the last.
    """
    # The first of these terms may be in the middle of a row.
    rows = [part.rows for part in segments.values() if part.rows]
    begins = [firsts[max(bisect_right(firsts, low) - 1, 0)] for firsts in rows]
    for segment, *arrays in sql.run_binary(
        "select segment, terms, counts, positions, weights from catalog_postings"
        " where segment in (:*segments) and first_term >= :low"
        f"{'' if high is None else ' and first_term < :high'} order by segment, first_term",
        segments=list(segments),
        low=min(begins, default=low),
        **({} if high is None else {"high": high}),
    ):
        block = read_block(*arrays)
        start = bisect_left(block.terms, low)
        end = len(block.terms) if high is None else bisect_left(block.terms, high)
        before, within = int(block.counts[:start].sum()), int(block.counts[start:end].sum())
        part = slice(before, before + within)
        yield (
            segment,
            TermPostings(
                block.terms[start:end],
                block.counts[start:end],
                block.positions[part],
                block.weights[part],
            ),
        )


def insert_passages(sql: Sql, space: int, kind: int, passages: Segment) -> int:
    """Write the passages of a new segment, and return its number."""
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


def insert_postings(sql: Sql, segment: int, block: TermPostings) -> None:
    """Write postings of a new segment. Each term may be written once."""
    rows = []
    ends = [0, *block.counts.cumsum().tolist()]
    low = 0
    while low < len(block.terms):
        # At least one term, whatever its number of postings.
        high = max(low + 1, bisect_right(ends, ends[low] + _POSTINGS_PER_ROW) - 1)
        high = min(high, low + _TERMS_PER_ROW)
        part = slice(ends[low], ends[high])
        rows.append(
            {
                "segment": segment,
                "first_term": block.terms[low],
                "terms": "\n".join(block.terms[low:high]),
                "counts": block.counts[low:high].astype("<u4").tobytes(),
                "positions": block.positions[part].astype("<u2").tobytes(),
                "weights": block.weights[part].astype(np.uint8).tobytes(),
            }
        )
        low = high
    sql.insert("catalog_postings", rows)


def key_of(term: str) -> str:
    """Return the stored form of a term."""
    if len(term) <= LONGEST_TERM:
        return term
    return f"#{hashlib.sha256(term.encode()).hexdigest()[: LONGEST_TERM - 1]}"


def document_hash(uri: str) -> bytes:
    """Return what `Segment.documents` has of a document."""
    return hashlib.blake2b(uri.encode(errors="surrogatepass"), digest_size=8).digest()


def _segment(passages: Any, arrays: Sequence[Any], rows: list[str]) -> Segment:
    """Check and decode a row of `catalog_segments`."""
    kinds = [np.dtype(kind) for kind in ("<i8", "<u4", "<i8", "<i8")]
    if type(passages) is not int or any(type(array) is not bytes for array in arrays):
        raise damaged("the segments of an index hold values that Lorebind never writes")
    # Arrays that do not fit each other would be read as other passages, without an error.
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
