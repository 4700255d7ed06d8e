"""Metadata filters over a whole index: which of its chunks a filter lets through.

For stores that do not filter by metadata themselves. What a filter says of one field is asked once
for each value that the field has in the index, which are few where many passages share a document,
a date or a tag.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lorebind_knowledge.filters import compile_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Mask: TypeAlias = NDArray[np.bool_]
    """Which of the rows pass."""
    FetchMetadata: TypeAlias = Callable[[Sequence[int]], Iterable[tuple[int, str]]]
    """Given rows, their metadata as JSON in any order."""

_KEPT = 32


class _Column(NamedTuple):
    """One field of all metadata."""

    kinds: list[dict[str, Any]]
    """Metadata with this field alone, for every value it has; empty where it is missing."""
    kind_of: NDArray[np.int32]
    """For each row, which of the kinds it is."""


class Masks:
    """The metadata of an immutable set of rows, parsed when first asked for, and recent masks."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        numbers: NDArray[np.int64],
        before: Masks | None = None,
    ) -> None:
        """
        Args:
            rows: of the chunks in the catalog; each always has the same metadata.
            numbers: of their vectors.
            before: those of the index as it was; what they have parsed is not parsed again.
        """
        order = np.argsort(numbers)
        self._rows, self._numbers = rows[order], numbers[order]
        self._parsed: dict[int, Any] = {} if before is None else before._parsed
        self._complete = False
        self._columns: dict[str, _Column] = {}
        self._recent: dict[str, Mask] = {}

    def allowed(self, where: Mapping[str, Any], fetch: FetchMetadata) -> NDArray[np.int64]:
        """The numbers of the vectors whose chunks the filter lets through, in their order.

        Args:
            where: a filter that is well-formed.
            fetch: reads the metadata of rows.
        """
        key = json.dumps(where, default=_plain)
        mask = self._recent.get(key)
        if mask is None:
            mask = self._allowed(where, self._metadata(fetch))
            if len(self._recent) >= _KEPT:
                self._recent = {}
            self._recent[key] = mask
        return self._numbers[mask]

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
            if len(self._columns) >= _KEPT:
                self._columns = {}
            self._columns[name] = column
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
        # Python's 1, 1.0 and true are one key; as texts they are told apart, and lists can be one.
        key = repr(only)
        kinds.setdefault(key, only)
        kind_of.append(numbers.setdefault(key, len(numbers)))
    return _Column(list(kinds.values()), np.array(kind_of, np.int32))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)
