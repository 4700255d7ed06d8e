"""The base of what stands around a store: everything passes through one method."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lorebind_knowledge.bridge import call
from lorebind_knowledge.namespace import IndexKey
from lorebind_knowledge.stores.base import (
    ApproximateStore,
    BulkStore,
    FetchStore,
    LexicalStore,
    VectorStore,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from lorebind_knowledge.records import (
        DocumentMatch,
        Record,
        RecordFilter,
        SearchOptions,
        StoredRecord,
        Vector,
    )

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One call of a store."""

    name: str
    """The method: `upsert`, `similarity_search`, `lexical_search` and so on."""
    arguments: tuple[Any, ...]
    """As the method was given them."""

    @property
    def index(self) -> IndexKey | None:
        """The index that the call is about; None for `close`, and for `upsert`, whose records say
        it."""
        for argument in self.arguments:
            index = argument if isinstance(argument, IndexKey) else getattr(argument, "index", None)
            if isinstance(index, IndexKey):
                return index
        return None


class StoreWrapper(VectorStore):
    """Does what the store within does, and can do what that can. Inherit it and override `around`.

    Each wrapper has the capabilities of its inner store and no others: made around a store that
    searches words it is a `LexicalStore`, around another it is none.
    """

    def __new__(cls, inner: VectorStore, *arguments: Any, **more: Any) -> Self:
        found = tuple(part for kind, part in _CAPABILITIES if isinstance(inner, kind))
        made: Self = object.__new__(_able(cls, found))
        return made

    def __init__(self, inner: VectorStore) -> None:
        self.inner = inner

    async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[R]]) -> R:
        """Around each call: `await ask()` makes it, once or several times or not at all."""
        return await ask()

    async def _passed(self, method: Callable[..., Any], *arguments: Any) -> Any:
        asked = StoreCall(method.__name__, arguments)
        return await self.around(asked, lambda: call(method, *arguments))

    async def open(self, index: IndexKey, dimension: int) -> None:
        await self._passed(self.inner.open, index, dimension)

    async def upsert(self, records: Sequence[Record]) -> None:
        await self._passed(self.inner.upsert, records)

    async def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        await self._passed(self.inner.publish, index, uri, generation)

    async def similarity_search(
        self, vector: Vector, options: SearchOptions
    ) -> list[DocumentMatch]:
        found: list[DocumentMatch] = await self._passed(
            self.inner.similarity_search, vector, options
        )
        return found

    async def delete_by_filter(self, filter: RecordFilter) -> int:  # noqa: A002 - as in VectorStore
        deleted: int = await self._passed(self.inner.delete_by_filter, filter)
        return deleted

    async def count(self, index: IndexKey) -> int:
        counted: int = await self._passed(self.inner.count, index)
        return counted

    async def drop(self, index: IndexKey) -> None:
        await self._passed(self.inner.drop, index)

    async def close(self) -> None:
        await self._passed(self.inner.close)

    def __str__(self) -> str:
        return str(self.inner)


class _Part:
    """One capability, beside a wrapper of which it uses two members."""

    inner: Any
    _passed: Any


class _Lexical(_Part):
    async def lexical_search(self, query: str, options: SearchOptions) -> list[DocumentMatch]:
        found: list[DocumentMatch] = await self._passed(self.inner.lexical_search, query, options)
        return found


class _Fetch(_Part):
    async def fetch(self, index: IndexKey, ids: Collection[str]) -> dict[str, StoredRecord]:
        found: dict[str, StoredRecord] = await self._passed(self.inner.fetch, index, ids)
        return found


class _Bulk(_Part):
    async def replace_documents(self, index: IndexKey, generations: Mapping[str, int]) -> None:
        await self._passed(self.inner.replace_documents, index, generations)


class _Approximate(_Part):
    async def finish_load(self, index: IndexKey) -> None:
        await self._passed(self.inner.finish_load, index)


_CAPABILITIES: tuple[tuple[type, type[_Part]], ...] = (
    (LexicalStore, _Lexical),
    (FetchStore, _Fetch),
    (BulkStore, _Bulk),
    (ApproximateStore, _Approximate),
)
CAPABILITIES = tuple(kind for kind, _ in _CAPABILITIES)
"""What a store may be able to do beyond the protocol."""


@functools.cache
def _able(kind: type[StoreWrapper], found: tuple[type[_Part], ...]) -> type[Any]:
    """A wrapper with the methods of these capabilities."""
    return type(kind.__name__, (kind, *found), {"__module__": kind.__module__}) if found else kind
