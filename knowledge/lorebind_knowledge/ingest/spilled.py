"""Sorted rows in a temporary file, so that memory does not grow with their number."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from lorebind_config.errors import SourceError, StoreError

if TYPE_CHECKING:
    from lorebind_knowledge.sources.spool import Piece, Spool

Row: TypeAlias = tuple[Any, ...]
"""A text, by which rows are sorted, and other texts, bytes and numbers."""

T = TypeVar("T")

_ROWS_OF_A_RUN = 20_000
"""Number of rows that are sorted in memory."""

_ROWS_OF_A_PIECE = 1000
"""Number of rows that are read together. Fewer are kept in memory."""

_text = itemgetter(0)


class Run(NamedTuple):
    """Sorted rows with different texts."""

    first: str
    last: str
    size: int
    spool: Spool
    pieces: Sequence[Piece | bytes]
    """Places in the file; the rows themselves if they are few."""

    def rows(self) -> Iterator[Row]:
        for piece in self.pieces:
            data = piece if isinstance(piece, bytes) else _on_disk(self.spool.get, piece)
            yield from marshal.loads(data)


def spilled(rows: Iterable[Row], spool: Spool) -> Iterator[Run]:
    """Write rows to a temporary file, unless they are few, and yield their runs.

    Raises:
        StoreError: the file cannot be written.
    """
    left = iter(rows)
    while some := list(islice(left, _ROWS_OF_A_RUN)):
        some.sort(key=_text)
        some = list({row[0]: row for row in some}.values())
        starts = range(0, len(some), _ROWS_OF_A_PIECE)
        parts = [marshal.dumps(some[start : start + _ROWS_OF_A_PIECE]) for start in starts]
        is_short = len(some) < _ROWS_OF_A_PIECE
        pieces = parts if is_short else [_on_disk(spool.put, part) for part in parts]
        yield Run(some[0][0], some[-1][0], len(some), spool, pieces)


def in_order(runs: Iterable[Run]) -> Iterator[Row]:
    """Yield the rows of runs, sorted; of those with the same text only that of the last run.

    Raises:
        StoreError: the temporary file cannot be read.
    """
    runs = list(runs)
    ordered = sorted(runs, key=_text)
    if _are_apart(ordered):
        return chain.from_iterable(run.rows() for run in ordered)
    return _last_of_equal(merge(*(run.rows() for run in runs), key=_text))


def count(runs: Iterable[Run]) -> int:
    """Return the number of rows that `in_order` yields."""
    ordered = sorted(runs, key=_text)
    if _are_apart(ordered):
        return sum(run.size for run in ordered)
    return sum(1 for _ in in_order(ordered))


def _are_apart(ordered: Sequence[Run]) -> bool:
    return all(before.last < after.first for before, after in pairwise(ordered))


def _last_of_equal(rows: Iterable[Row]) -> Iterator[Row]:
    waiting: Row | None = None
    for row in rows:
        if waiting is not None and waiting[0] != row[0]:
            yield waiting
        waiting = row
    if waiting is not None:
        yield waiting


def _on_disk(function: Callable[[Any], T], argument: Any) -> T:
    try:
        return function(argument)
    except SourceError as error:  # of the file, not of the source that is listed
        raise StoreError(str(error)) from error
