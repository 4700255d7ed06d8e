"""A minimal vector store, for tests of code that uses stores."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.base import Nominees, StoredVector, VectorStore

if TYPE_CHECKING:
    from lorebind_knowledge.records import Space, Vector


class PlainStore(VectorStore):
    """Vectors in one dictionary per space; every search compares all of them."""

    def __init__(self) -> None:
        self._spaces: dict[int, dict[int, Vector]] | None = {}
        self._turn = threading.Lock()

    def add(self, space: Space, vectors: Sequence[StoredVector]) -> None:
        with self._turn:
            there = self._opened().setdefault(space.birth, {})
            there.update((one.number, np.array(one.vector)) for one in vectors)

    def nearest(
        self,
        space: Space,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        among: Collection[int] | None,
    ) -> Nominees:
        with self._turn:
            there = dict(self._opened().get(space.birth, {}))
        numbers = list(there if among is None else there.keys() & set(map(int, among)))
        if not numbers:
            return Nominees([])
        matrix = np.stack([there[number] for number in numbers])
        order = np.argsort(-(matrix @ vector), kind="stable")[:k]
        return Nominees([numbers[at] for at in order], matrix[order])

    def get(self, space: Space, numbers: Collection[int]) -> Mapping[int, Vector]:
        with self._turn:
            there = self._opened().get(space.birth, {})
            return {number: there[number] for number in numbers if number in there}

    def delete(self, space: Space, numbers: Collection[int]) -> None:
        with self._turn:
            there = self._opened().get(space.birth, {})
            for number in numbers:
                there.pop(number, None)

    def count(self, space: Space) -> int:
        with self._turn:
            return len(self._opened().get(space.birth, {}))

    def drop(self, space: Space) -> None:
        with self._turn:
            self._opened().pop(space.birth, None)

    def close(self) -> None:
        self._spaces = None

    def __str__(self) -> str:
        return "plain store"

    def _opened(self) -> dict[int, dict[int, Vector]]:
        if self._spaces is None:
            raise StoreError("the plain store is closed")
        return self._spaces
