"""A store that reports its steps, for tests that look, or fail, between any two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.stores.base import SearchHits, StoredVector, VectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lorebind_knowledge.records import Partition, Vector


def _unwatched(step: str) -> None:
    pass


class WatchedStore(VectorStore):
    """A wrapper around a store that calls a function `watch` at each step of a write.

    The steps are `before add`, `within add` with half of the vectors written, `after add`, and the
    same for `delete` and `drop`. Errors that `watch` raises reach the caller.
    """

    def __init__(self, store: VectorStore, watch: Callable[[str], object] = _unwatched) -> None:
        self.inner, self.watch = store, watch
        self.is_exact, self.filters = store.is_exact, store.filters
        self.returns_vectors = store.returns_vectors

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        self.watch("before add")
        half = len(vectors) // 2
        if half:
            finish(self.inner.add(space, vectors[:half]))
        self.watch("within add")
        finish(self.inner.add(space, vectors[half:]))
        self.watch("after add")

    def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        return finish(self.inner.nearest(space, vector, k, where, allowed_ids))

    def get(self, space: Partition, numbers: Collection[int]) -> Mapping[int, Vector | None]:
        return finish(self.inner.get(space, numbers))

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        self.watch("before delete")
        numbers = list(numbers)
        half = len(numbers) // 2
        if half:
            finish(self.inner.delete(space, numbers[:half]))
        self.watch("within delete")
        finish(self.inner.delete(space, numbers[half:]))
        self.watch("after delete")

    def count(self, space: Partition) -> int | None:
        return finish(self.inner.count(space))

    def drop(self, space: Partition) -> None:
        self.watch("before drop")
        finish(self.inner.drop(space))
        self.watch("after drop")

    def close(self) -> None:
        finish(self.inner.close())

    def __str__(self) -> str:
        return str(self.inner)
