"""Metadata filters over a whole index: which positions of its matrix a filter lets through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lorebind_knowledge.filters import compile_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.stores.matrix import Mask

    FetchMetadata: TypeAlias = Callable[[Sequence[int]], Iterable[tuple[int, str]]]
    """Given row numbers, their metadata as JSON in any order."""

_KEPT = 32


class Masks:
    """The metadata of an immutable set of rows, parsed when first asked for, and recent masks."""

    def __init__(self, rows: NDArray[np.int64], before: Masks | None = None) -> None:
        """
        Args:
            rows: row numbers in the order of the matrix; each always has the same metadata.
            before: those of the index as it was; what they have parsed is not parsed again.
        """
        self._rows = rows
        self._parsed: dict[int, Any] = {} if before is None else before._parsed
        self._complete = False
        self._recent: dict[str, Mask] = {}

    def mask(self, where: Mapping[str, Any], fetch: FetchMetadata) -> Mask | None:
        """Which rows the filter lets through; None if it lets through everything.

        Raises:
            UsageError: the filter is malformed.
        """
        allows = compile_filter(where)
        if not where:
            return None
        key = json.dumps(where, default=_plain)
        mask = self._recent.get(key)
        if mask is None:
            parsed = self._metadata(fetch)
            mask = np.fromiter((allows(parsed[row]) for row in self._rows.tolist()), np.bool_)
            if len(self._recent) >= _KEPT:
                self._recent = {}
            self._recent[key] = mask
        return mask

    def _metadata(self, fetch: FetchMetadata) -> dict[int, Any]:
        if not self._complete:
            rows = self._rows.tolist()
            parsed = {row: self._parsed[row] for row in rows if row in self._parsed}
            missing = [row for row in rows if row not in parsed]
            parsed.update((row, json.loads(text)) for row, text in fetch(missing))
            self._parsed, self._complete = parsed, True
        return self._parsed


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)
