"""The store that keeps everything in memory: for tests, notebooks and short-lived processes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lorebind_knowledge.declarations.base import Settings
from lorebind_knowledge.declarations.vector_dbs import VectorDBBase
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.base import VectorStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lorebind_knowledge.configuration.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Space, Vector
    from lorebind_knowledge.stores.base import Nominees, StoredVector
    from lorebind_knowledge.stores.matrix import ExactMatrix, Numbers


class MemoryVectorDBConfig(Settings):
    """The memory store has no settings."""


class MemoryVectorDB(VectorDBBase):
    """Vectors and catalog in memory. They are gone when the process ends."""

    type: Literal["memory"] = Field(description="Kept in memory.")
    config: MemoryVectorDBConfig = Field(
        default_factory=MemoryVectorDBConfig, description="Nothing to set."
    )


Declaration = MemoryVectorDB


def make(declaration: MemoryVectorDB, environment: PartEnvironment) -> MemoryStore:
    return MemoryStore()


class _Room:
    """What a space holds; only to be used under the store's lock."""

    def __init__(self, empty: ExactMatrix) -> None:
        self._matrix = empty
        # Since the matrix was made.
        self._added: dict[int, Vector] = {}
        self._deleted: set[int] = set()

    def add(self, numbers: Sequence[int], vectors: Matrix) -> None:
        self._added.update(zip(numbers, vectors, strict=True))
        self._deleted.difference_update(numbers)

    def delete(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._added.pop(number, None)
        self._deleted.update(numbers)

    def matrix(self) -> ExactMatrix:
        import numpy as np

        if self._added or self._deleted:
            gone = np.fromiter(self._deleted, np.int64, len(self._deleted))
            come = np.fromiter(self._added, np.int64, len(self._added))
            kept = np.setdiff1d(self._matrix.numbers, gone, assume_unique=True)
            self._matrix = self._matrix.replaced(np.union1d(kept, come), self._fetch)
            self._added, self._deleted = {}, set()
        return self._matrix

    def _fetch(self, numbers: Numbers) -> Iterator[tuple[Numbers, Matrix]]:
        import numpy as np

        yield numbers, np.stack([self._added[number] for number in numbers.tolist()])


class MemoryStore(VectorStore):
    """A `VectorStore` in memory; exact, gone with the process."""

    persistent = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: dict[Space, _Room] = {}
        self._closed = False

    def add(self, space: Space, vectors: Sequence[StoredVector]) -> None:
        from lorebind_knowledge.stores.matrix import ExactMatrix, stacked

        matrix = stacked(space, vectors)
        with self._lock:
            self._check_open()
            room = self._rooms.setdefault(space, _Room(ExactMatrix.empty(space.dimension)))
            room.add([one.number for one in vectors], matrix)

    def nearest(
        self,
        space: Space,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        among: Collection[int] | None,
    ) -> Nominees:
        return self._matrix(space).nearest(vector, k, among)

    def get(self, space: Space, numbers: Collection[int]) -> Mapping[int, Vector | None]:
        return self._matrix(space).get(numbers)

    def delete(self, space: Space, numbers: Collection[int]) -> None:
        with self._lock:
            self._check_open()
            if space in self._rooms:
                self._rooms[space].delete(numbers)

    def count(self, space: Space) -> int:
        return len(self._matrix(space))

    def drop(self, space: Space) -> None:
        with self._lock:
            self._check_open()
            self._rooms.pop(space, None)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._rooms = {}

    def __str__(self) -> str:
        return "memory store"

    def _matrix(self, space: Space) -> ExactMatrix:
        """All that is there at this moment."""
        from lorebind_knowledge.stores.matrix import ExactMatrix

        with self._lock:
            self._check_open()
            room = self._rooms.get(space)
            return ExactMatrix.empty(space.dimension) if room is None else room.matrix()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the {self} is closed")
