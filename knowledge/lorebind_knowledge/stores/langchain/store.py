"""Any LangChain `VectorStore` as a store of Lorebind.

Several spaces, and documents of other programs, may share the class. A search therefore drops
documents of others and asks for more. One thread at a time uses the class, because LangChain does
not promise thread safety. Each dimension has its own object of the class, made with the same
arguments; a class that allows only one dimension refuses the others.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.base import SearchHits, VectorStore, batches
from lorebind_knowledge.stores.langchain.adapter import SPACE, Adapter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.records import Partition, Vector
    from lorebind_knowledge.stores.base import StoredVector
    from lorebind_knowledge.stores.langchain.recipe import Recipe

_NUMBER, _ZERO = "lorebind_number", "lorebind_zero"
_AT_ONCE = 500
_GROWTH = 4
_MOST = 100_000
"""Maximum number of documents that a search requests; each comes with its text."""


class LangChainStore(VectorStore):
    """Stores vectors in a LangChain class, which returns no vectors and cannot count.

    `get` raises NotImplementedError if the class cannot look up documents by id.
    """

    filters = False
    returns_vectors = False

    def __init__(self, recipe: Recipe, *, exact: bool = False, persistent: bool = True) -> None:
        """
        Args:
            recipe: makes the wrapped store.
            exact: whether the class compares with every vector. If an exact store finds too few
                vectors, that is an error, so use it only for classes that are known to be exact.
            persistent: whether the vectors stay when the process ends.
        """
        self.is_exact, self.persistent = exact, persistent
        self._recipe = recipe
        self._turn = threading.RLock()
        self._parts: dict[str, Any] | None = None
        self._made: dict[int, Adapter] = {}
        self._closed = False

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        with self._using(space) as wrapped:
            for some in batches(vectors, _AT_ONCE):
                wrapped.add([(_document(space, stored), _handed(stored.vector)) for stored in some])

    def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        handed, limit, most = vector.tolist(), k, max(_MOST, _GROWTH * k)
        with self._using(space) as wrapped:
            while True:
                documents = wrapped.search(handed, limit)
                near, zeros = _numbers(space, documents)
                if len(documents) < limit:
                    return SearchHits([*near, *zeros])
                if len(near) >= k:
                    return SearchHits(near)
                if limit == most:
                    raise StoreError(
                        f"the {self} has too many documents that are not of {space}: "
                        f"{k} of its own are not among the {limit} nearest; "
                        "declare a vector database with its own collection or table"
                    )
                limit = min(_GROWTH * limit, most)

    def get(self, space: Partition, numbers: Collection[int]) -> dict[int, Vector | None]:
        with self._using(space) as wrapped:
            there: dict[int, Vector | None] = {}
            for ids in _ids(space, numbers):
                near, zeros = _numbers(space, wrapped.get(ids))
                there |= dict.fromkeys([*near, *zeros])
            return there

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        with self._using(space) as wrapped:
            for ids in _ids(space, numbers):
                wrapped.delete(ids)

    def count(self, space: Partition) -> None:
        with self._using(space):
            return

    def drop(self, space: Partition) -> None:
        """Delete everything of a space, by searching until nothing is found.

        The class cannot list its documents. An approximate class may keep some.
        """
        direction = np.eye(1, space.dimension, dtype=np.float32)[0]
        gone: set[int] = set()
        k = _AT_ONCE
        while left := {*self.nearest(space, direction, k, {}, None).numbers} - gone:
            self.delete(space, left)
            gone |= left
            k = min(_GROWTH * k, _MOST)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            self._made.clear()
            opened, self._parts = self._parts or {}, None
            self._recipe.close(opened)

    @contextmanager
    def _using(self, space: Partition) -> Iterator[Adapter]:
        """Lend the adapter for vectors of the space's dimension to this thread."""
        with self._turn:
            if self._closed:
                raise StoreError(f"the {self} is closed")
            if self._parts is None:
                self._parts = self._recipe.create_parts()
            if space.dimension not in self._made:
                self._made[space.dimension] = Adapter(self._recipe, space.dimension, self._parts)
            yield self._made[space.dimension]

    def __str__(self) -> str:
        return f"langchain store {self._recipe.name}"


def document_id(space: Partition, number: int) -> str:
    """Return a UUID of version 8 for a vector, because some classes accept no other ids.

    It has 122 free bits: the lowest 59 of the space's index_uid, then the 63 of the number.
    """
    bits = space.index_uid % 2**59 << 63 | number
    high, middle, low = bits >> 74, bits >> 62 & 0xFFF, bits & 2**62 - 1
    return str(uuid.UUID(int=high << 80 | 0x8 << 76 | middle << 64 | 0b10 << 62 | low))


def _ids(space: Partition, numbers: Collection[int]) -> Iterator[Sequence[str]]:
    return batches([document_id(space, number) for number in numbers], _AT_ONCE)


def _document(space: Partition, stored: StoredVector) -> Document:
    """Return the document to store, whose metadata has its space and number."""
    # As a text, because some databases store numbers as floats.
    metadata = {SPACE: space.name, _NUMBER: str(stored.number)}
    if not stored.vector.any():
        metadata[_ZERO] = "true"
    return Document(stored.text, id=document_id(space, stored.number), metadata=metadata)


def _handed(vector: Vector) -> list[float]:
    """Return the vector to store, with a stand-in for length 0, which some classes cannot store."""
    values: list[float] = vector.tolist()
    return values if vector.any() else [1.0, *values[1:]]


def _numbers(space: Partition, documents: Iterable[Document]) -> tuple[list[int], list[int]]:
    """Return the numbers of documents of a space, in order; those of length 0 separately.

    Their order is that of the stand-ins, so it means nothing.
    """
    near: dict[int, None] = {}
    zeros: dict[int, None] = {}
    for document in documents:
        if document.metadata.get(SPACE) == space.name:
            group = zeros if _ZERO in document.metadata else near
            group[int(document.metadata[_NUMBER])] = None
    return list(near), list(zeros)
