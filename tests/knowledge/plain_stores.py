"""A minimal vector store, for tests of code that uses stores."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from lorebind_config.errors import StoreError
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import SearchHits, StoredVector, VectorStore


class PlainStore(VectorStore):
    """Vectors in one dictionary per space; every search compares all of them."""

    def __init__(self) -> None:
        self._spaces: dict[int, dict[int, np.ndarray]] | None = {}
        self._turn = threading.Lock()

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        with self._turn:
            there = self._opened().setdefault(space.index_uid, {})
            there.update((vector.number, np.array(vector.vector)) for vector in vectors)

    def nearest(
        self,
        space: Partition,
        vector: np.ndarray,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        with self._turn:
            there = dict(self._opened().get(space.index_uid, {}))
        numbers = list(there if allowed_ids is None else there.keys() & set(map(int, allowed_ids)))
        if not numbers:
            return SearchHits([])
        matrix = np.stack([there[number] for number in numbers])
        order = np.argsort(-(matrix @ vector), kind="stable")[:k]
        return SearchHits([numbers[at] for at in order], matrix[order])

    def get(self, space: Partition, numbers: Collection[int]) -> Mapping[int, np.ndarray]:
        with self._turn:
            there = self._opened().get(space.index_uid, {})
            return {number: there[number] for number in numbers if number in there}

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        with self._turn:
            there = self._opened().get(space.index_uid, {})
            for number in numbers:
                there.pop(number, None)

    def count(self, space: Partition) -> int:
        with self._turn:
            return len(self._opened().get(space.index_uid, {}))

    def drop(self, space: Partition) -> None:
        with self._turn:
            self._opened().pop(space.index_uid, None)

    def close(self) -> None:
        self._spaces = None

    def __str__(self) -> str:
        return "plain store"

    def _opened(self) -> dict[int, dict[int, np.ndarray]]:
        if self._spaces is None:
            raise StoreError("the plain store is closed")
        return self._spaces
