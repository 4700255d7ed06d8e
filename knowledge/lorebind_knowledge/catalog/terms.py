"""The terms that a sparse embedder gives to passages: staged with chunks, published as postings.

A weight is stored in 8 bits, as a share of the largest weight of its passage. So the terms of a
passage do not depend on the other passages of its segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.postings import MAX_WEIGHT, Passage
from lorebind_knowledge.catalog.rows import damaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lorebind_knowledge.records import SparseVector

UNIT = 1 << 16
"""The largest weight of a passage is stored as its `length`, in this fraction of 1."""


class StoredTerms(NamedTuple):
    """The terms of a passage in the form in which they are stored."""

    largest: int
    """The largest weight, times `UNIT`; 0 without terms."""
    ids: NDArray[np.uint32]
    weights: NDArray[np.uint8]
    """For each term its share of the largest weight, times `MAX_WEIGHT`, at least 1."""

    @classmethod
    def of(cls, vector: SparseVector) -> StoredTerms:
        if not len(vector.ids):
            return cls(0, np.zeros(0, "<u4"), np.zeros(0, np.uint8))
        weights = np.asarray(vector.weights, np.float64)
        largest = float(weights.max())
        shares = np.round(weights / largest * MAX_WEIGHT).clip(1)
        stored = min(max(round(largest * UNIT), 1), (1 << 32) - 1)
        return cls(stored, np.asarray(vector.ids, "<u4"), shares.astype(np.uint8))

    def encode(self) -> bytes:
        head = self.largest.to_bytes(4, "little")
        return head + self.ids.astype("<u4").tobytes() + self.weights.tobytes()

    @classmethod
    def decode(cls, blob: Any) -> StoredTerms:
        if not isinstance(blob, bytes) or len(blob) % 5 != 4:
            raise damaged("the staged terms of a chunk hold values that Lorebind never writes")
        count = len(blob) // 5
        ids = np.frombuffer(blob, "<u4", count, 4)
        weights = np.frombuffer(blob, np.uint8, count, 4 + ids.nbytes)
        return cls(int.from_bytes(blob[:4], "little"), ids, weights)

    def passage(self, number: int, uri: str) -> Passage:
        """Return the terms as those of a passage, for postings."""
        names = [str(term) for term in self.ids.tolist()]
        return Passage(number, uri, self.largest, names, self.weights.tolist())
