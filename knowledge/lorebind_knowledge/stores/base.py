"""The protocol of vector stores, which store numbered vectors and find the nearest to a vector.

A store knows nothing of documents, versions, words or texts. Those are in the catalog, and an
`Index` combines the two. `lorebind_knowledge.testing` has the tests that every store must pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from lorebind_config.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence

    from lorebind_knowledge.records import Matrix, Partition, Vector

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class StoredVector:
    """A vector to be added to a store."""

    number: int
    """The number: positive, below 2**63. A space never reuses a number for another vector."""
    vector: Vector
    """The vector: float32, of length 1 or 0."""
    text: str
    """The text of the chunk, for databases that store texts. It is not searched."""
    metadata: Mapping[str, Any]
    """JSON values, for databases that filter. Empty for a store that does not filter."""


class SearchHits(NamedTuple):
    """The result of `VectorStore.nearest`: candidates, nearest first."""

    numbers: Sequence[int]
    vectors: Matrix | None = None
    """Their vectors as they were added, shape (numbers, dimension); None if a call of `get` is as
    fast as returning them here."""
    is_exact: bool = False
    """Whether these are the nearest vectors, although the store's `is_exact` is false."""


class LostVectorsError(StoreError):
    """The store has fewer vectors than the catalog knows of."""


@runtime_checkable
class VectorStore(Protocol):
    """Stores vectors and finds the nearest ones. Methods may be `def` or `async def`.

    Inherit it to get the defaults below. Every method may be called from several threads at the
    same time. Arguments belong to the caller: copy or write them before the method returns. A
    method that fails raises StoreError.
    """

    is_exact: bool = True
    """Whether `nearest` always finds the nearest vectors. If so, an index detects missing vectors
    during a search; it accepts any result of an approximate store."""
    filters: bool = False
    """Whether `nearest` uses `where`. If not, `add` gets no metadata."""
    returns_vectors: bool = True
    """Whether `get` returns vectors. If not, the catalog stores a copy of each vector."""
    counts_fast: bool = True
    """Whether `count` is as fast as a search. If not, searches never call it: to detect missing
    vectors, they look up a few."""

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> Awaitable[None] | None:
        """Write vectors, so that `nearest` finds them as soon as this method returns.

        The first call for a space creates what the space needs. An existing number always has the
        same vector, and may be written again or skipped. If this method raises, some vectors may
        have been written.
        """
        ...

    def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits | Awaitable[SearchHits]:
        """Return the `k` vectors of a space nearest to a vector by cosine, nearest first.

        Return fewer only if the space has no more that pass; more are welcome. They are candidates:
        the caller computes their cosines, and asks for more if the last one is too near.

        Args:
            space: the space; it is empty if nothing was added to it.
            vector: float32, shape (dimension,), of length 1.
            k: at least 1.
            where: a metadata filter, see `lorebind_config.filters`, as `resolved` returns it:
                dates are texts, and there are no ages. Results may include vectors that do not
                pass, because the caller drops them, but must not lack any that do.
            allowed_ids: only these numbers; None means all. A store that cannot restrict a search
                to numbers ignores it, and the caller does it. Used only if `filters` is False.
        """
        ...

    def get(
        self, space: Partition, numbers: Collection[int]
    ) -> Mapping[int, Vector | None] | Awaitable[Mapping[int, Vector | None]]:
        """Return the vectors of these numbers as they were added; missing numbers are omitted.

        If `returns_vectors` is False, each value is None, and only shows that the number exists.
        """
        ...

    def delete(self, space: Partition, numbers: Collection[int]) -> Awaitable[None] | None:
        """Delete the vectors of these numbers; missing numbers are ignored."""
        ...

    def count(self, space: Partition) -> int | Awaitable[int | None] | None:
        """Return the number of vectors in a space, or None if the database cannot count fast."""
        ...

    def drop(self, space: Partition) -> Awaitable[None] | None:
        """Delete everything of a space; do nothing if nothing was added."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Close open connections and files. Every later call of a method raises StoreError."""
        ...


@runtime_checkable
class ApproximateStore(Protocol):
    """A store with an approximate index, which is best built after many vectors were added."""

    def finish_load(self, space: Partition) -> Awaitable[None] | None:
        """Bring the approximate index up to date; called at the end of every ingest."""
        ...


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in order, at most `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))
