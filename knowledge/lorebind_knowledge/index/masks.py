"""Metadata filters over a whole index: which of its chunks pass a filter.

For stores that do not filter by metadata themselves. A condition on a field is evaluated once per
distinct value of the field in the index. There are few distinct values if many passages share a
document, a date or a tag.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lorebind_config.dates import is_date
from lorebind_config.filters import compile_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from lorebind_config.declarations.newest import VersionsDeclaration

    Mask: TypeAlias = NDArray[np.bool_]
    """Whether each row passes."""
    FetchMetadata: TypeAlias = Callable[[Sequence[int]], Iterable[tuple[int, str]]]
    """A function that takes rows and returns them with their metadata as JSON, in any order."""

_KEPT = 32
_CUTS = {"$gt": bisect_right, "$gte": bisect_left, "$lt": bisect_left, "$lte": bisect_right}
"""Where an operator cuts sorted dates: what is greater begins there, what is less ends there."""
_DIGITS = re.compile(r"([0-9]{1,18})")


class _Column(NamedTuple):
    """One metadata field of all rows."""

    kinds: list[dict[str, Any]]
    """Metadata with only this field, one per distinct value; empty for a missing field."""
    kind_of: NDArray[np.int32]
    """The position in `kinds` for each row."""
    dates: list[str]
    """The dates among the values, sorted, so that a range of many times takes no time."""
    date_at: NDArray[np.int32]
    """The position in `kinds` for each date."""

    def within(self, limits: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return for each of `kinds` whether it is a date within limits that are dates."""
        first, last = 0, len(self.dates)
        for sign, limit in limits.items():
            cut = _CUTS[sign](self.dates, limit)
            first, last = (max(first, cut), last) if "g" in sign else (first, min(last, cut))
        verdicts: NDArray[np.bool_] = np.zeros(len(self.kinds), np.bool_)
        verdicts[self.date_at[first:last]] = True
        return verdicts


class Masks:
    """The metadata of an immutable set of rows, parsed on first use, and recent masks."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        numbers: NDArray[np.int64],
        before: Masks | None = None,
    ) -> None:
        """
        Args:
            rows: the rows of the chunks in the catalog. The metadata of a row never changes.
            numbers: the numbers of their vectors.
            before: the masks of an earlier state of the index. Parsed metadata is reused.
        """
        order = np.argsort(numbers)
        self._rows, self._numbers = rows[order], numbers[order]
        self._parsed: dict[int, Any] = {} if before is None else before._parsed
        self._complete = False
        self._columns: dict[str, _Column] = {}
        self._recent: dict[str, Mask] = {}

    def allowed(self, where: Mapping[str, Any], fetch: FetchMetadata) -> NDArray[np.int64]:
        """Return the numbers of the vectors whose chunks pass the filter, in ascending order.

        Args:
            where: a filter that `resolved` has returned.
            fetch: reads the metadata of rows.
        """
        key = json.dumps(where, default=_plain)
        mask = self._recent.get(key)
        if mask is None:
            mask = self._allowed(where, self._metadata(fetch))
            self._keep(key, mask)
        return self._numbers[mask]

    def newest(
        self, where: Mapping[str, Any], versions: VersionsDeclaration, fetch: FetchMetadata
    ) -> NDArray[np.int64]:
        """Return the same numbers, without those of older versions of a document.

        Args:
            where: a filter that `resolved` has returned. Only what passes is a version.
            versions: which chunks are versions of the same document, and what orders them.
            fetch: reads the metadata of rows.
        """
        key = json.dumps([where, versions.model_dump()], default=_plain)
        mask = self._recent.get(key)
        if mask is None:
            parsed = self._metadata(fetch)
            allowed = np.flatnonzero(np.isin(self._numbers, self.allowed(where, fetch)))
            about = [parsed[row] for row in self._rows[allowed].tolist()]
            mask = np.zeros(len(self._rows), np.bool_)
            mask[allowed[_newest(about, versions)]] = True
            self._keep(key, mask)
        return self._numbers[mask]

    def _keep(self, key: str, mask: Mask) -> None:
        # All at once: an order of use would need a lock.
        if len(self._recent) >= _KEPT:
            self._recent = {}
        self._recent[key] = mask

    def _allowed(self, where: Mapping[str, Any], parsed: Mapping[int, Any]) -> Mask:
        allowed: Mask = np.ones(len(self._rows), np.bool_)
        for name, condition in where.items():
            allowed &= self._entry(name, condition, parsed)
        return allowed

    def _entry(self, name: str, condition: Any, parsed: Mapping[int, Any]) -> Mask:
        if name == "$not":
            return ~self._allowed(condition, parsed)
        if name in ("$and", "$or"):
            combined = np.logical_and if name == "$and" else np.logical_or
            parts: Mask = combined.reduce([self._allowed(part, parsed) for part in condition])
            return parts
        column = self._columns.get(name)
        if column is None:
            column = _column(name, map(parsed.get, self._rows.tolist()))
            # All at once, as in `_keep`.
            if len(self._columns) >= _KEPT:
                self._columns = {}
            self._columns[name] = column
        if condition.keys() <= _CUTS.keys() and all(map(is_date, condition.values())):
            return column.within(condition)[column.kind_of]
        allows = compile_filter({name: condition})
        verdicts = np.fromiter(map(allows, column.kinds), np.bool_, len(column.kinds))
        return verdicts[column.kind_of]

    def _metadata(self, fetch: FetchMetadata) -> dict[int, Any]:
        if not self._complete:
            rows = self._rows.tolist()
            parsed = {row: self._parsed[row] for row in rows if row in self._parsed}
            missing = [row for row in rows if row not in parsed]
            parsed.update((row, json.loads(text)) for row, text in fetch(missing))
            self._parsed, self._complete = parsed, True
        return self._parsed


def _column(name: str, metadata: Iterable[Any]) -> _Column:
    kinds: dict[object, dict[str, Any]] = {}
    numbers: dict[object, int] = {}
    kind_of = []
    for fields in metadata:
        only = {name: fields[name]} if name in fields else {}
        # As keys, 1, 1.0 and True are equal in Python, and lists fail; their texts are distinct.
        key = repr(only)
        kinds.setdefault(key, only)
        kind_of.append(numbers.setdefault(key, len(numbers)))
    values = (only.get(name) for only in kinds.values())
    dates = sorted((str(date), at) for at, date in enumerate(values) if is_date(date))
    return _Column(
        list(kinds.values()),
        np.array(kind_of, np.int32),
        [date for date, _ in dates],
        np.array([at for _, at in dates], np.int32),
    )


def _newest(metadata: Sequence[Mapping[str, Any]], versions: VersionsDeclaration) -> list[int]:
    """Return the positions of those that are of the newest version, or of no versions at all."""
    documents: list[str | None] = []
    orders: list[tuple[Any, ...]] = []
    latest: dict[str | None, tuple[Any, ...]] = {}
    for about in metadata:
        has_all = all(name in about for name in versions.by)
        document = repr([about[name] for name in versions.by]) if has_all else None
        order = _order(about.get(versions.field))
        documents.append(document)
        orders.append(order)
        latest[document] = max(latest.get(document, order), order)
    return [
        at
        for at, (document, order) in enumerate(zip(documents, orders, strict=True))
        if document is None or order == latest[document]
    ]


def _order(value: Any) -> tuple[Any, ...]:
    """Return a key that sorts versions: missing ones first, then numbers, then texts.

    Numbers within texts compare as numbers: `1.9` is before `1.10`, and dates sort by time.
    """
    if isinstance(value, int | float):  # also true and false
        return (1, value)
    if not isinstance(value, str):
        return (0,)
    parts = _DIGITS.split(value.casefold())
    return (2, *((int(part), "") if part.isdecimal() else (-1, part) for part in parts if part))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)
