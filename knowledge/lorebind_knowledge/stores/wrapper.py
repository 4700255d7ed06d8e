"""The base class of wrappers around a store: every call passes through one method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import ApproximateStore, VectorStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from lorebind_config.namespace import IndexKey
    from lorebind_knowledge.records import Vector
    from lorebind_knowledge.stores.base import SearchHits, StoredVector

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One call of a store's method."""

    name: str
    """The name of the method: `add`, `nearest`, `get` and so on."""
    arguments: tuple[Any, ...]
    """The arguments of the call."""

    @property
    def index(self) -> IndexKey | None:
        """The index that the call concerns; None for `close`."""
        first = self.arguments[0] if self.arguments else None
        return first.index if isinstance(first, Partition) else None


class StoreWrapper(VectorStore):
    """Forwards every call to the store within. Inherit it and override `wrap_call`.

    A wrapper has the capabilities of the store within. Around an `ApproximateStore`, it is one too.
    """

    def __init__(self, inner: VectorStore) -> None:
        self.inner = inner
        self.is_exact = inner.is_exact
        self.filters = inner.filters
        self.returns_vectors = inner.returns_vectors
        self.counts_fast = inner.counts_fast
        if isinstance(inner, ApproximateStore) and not isinstance(self, ApproximateStore):

            async def finish_load(space: Partition) -> None:
                assert isinstance(self.inner, ApproximateStore)
                await self._passed(self.inner.finish_load, space)

            self.finish_load = finish_load

    async def wrap_call(self, request: StoreCall, call_next: Callable[[], Awaitable[R]]) -> R:
        """Run around each call; `await call_next()` makes the call, any number of times."""
        return await call_next()

    async def _passed(self, method: Callable[..., R | Awaitable[R]], *arguments: Any) -> R:
        request = StoreCall(method.__name__, arguments)
        return await self.wrap_call(request, lambda: call(method, *arguments))

    async def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        await self._passed(self.inner.add, space, vectors)

    async def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        return await self._passed(self.inner.nearest, space, vector, k, where, allowed_ids)

    async def get(self, space: Partition, numbers: Collection[int]) -> Mapping[int, Vector | None]:
        return await self._passed(self.inner.get, space, numbers)

    async def delete(self, space: Partition, numbers: Collection[int]) -> None:
        await self._passed(self.inner.delete, space, numbers)

    async def count(self, space: Partition) -> int | None:
        return await self._passed(self.inner.count, space)

    async def drop(self, space: Partition) -> None:
        await self._passed(self.inner.drop, space)

    async def close(self) -> None:
        await self._passed(self.inner.close)

    def __str__(self) -> str:
        return str(self.inner)
