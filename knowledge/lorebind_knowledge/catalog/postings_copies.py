"""Copying the postings of an index, with other numbers of its passages, a few terms at a time.

Passages that searches do not find any longer are not copied, so a copy has no word of a deleted
document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.segments import (
    TermPostings,
    live_in,
    read_block,
    read_segments,
    segments_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.catalog import Catalog

_ROWS_AT_ONCE = 16


class CopiedPassages(NamedTuple):
    """The passages of a segment, by position."""

    numbers: NDArray[np.int64]
    lengths: NDArray[np.uint32]


def copied(
    catalog: Catalog, space: int, kind: int, numbers: NDArray[np.int64]
) -> Iterator[CopiedPassages | TermPostings]:
    """Yield the passages of each segment of an index, followed by their postings in parts.

    Each part is read in a transaction of its own; the caller prevents writes in the meantime.

    Args:
        catalog: the catalog of the index.
        space: the `index_uid` of the index.
        kind: the kind of terms.
        numbers: the numbers of all passages that searches find. The copy numbers them from 1.
    """
    order = np.argsort(numbers)
    ordered = numbers[order]
    with catalog.reading() as sql:
        segments = read_segments(sql, segments_of(sql, space, kind))
    live = live_in(segments.values())
    for name, segment in segments.items():
        here, live = live[: len(segment.numbers)], live[len(segment.numbers) :]
        if not len(ordered):
            return
        place = np.searchsorted(ordered, segment.numbers).clip(max=len(ordered) - 1)
        copies = here & (ordered[place] == segment.numbers)
        if not copies.any():
            continue
        yield CopiedPassages(order[place[copies]] + 1, segment.lengths[copies])
        positions = np.where(copies, np.cumsum(copies) - 1, -1)
        for start in range(0, len(segment.rows), _ROWS_AT_ONCE):
            with catalog.reading() as sql:
                rows = sql.run(
                    "select terms, counts, positions, weights from catalog_postings"
                    " where segment = :segment and first_term in (:*firsts) order by first_term",
                    segment=name,
                    firsts=segment.rows[start : start + _ROWS_AT_ONCE],
                )
            for row in rows:
                yield _moved(read_block(*row), positions)


def _moved(block: TermPostings, positions: NDArray[np.int64]) -> TermPostings:
    """Return the same postings at other positions, without those at -1."""
    at = positions[block.positions]
    there = at >= 0
    of_terms = np.repeat(np.arange(len(block.terms)), block.counts)
    counts = np.bincount(of_terms[there], minlength=len(block.terms))
    return TermPostings(
        [term for term, count in zip(block.terms, counts.tolist(), strict=True) if count],
        counts[counts > 0].astype("<u4"),
        at[there].astype("<u2"),
        block.weights[there],
    )
