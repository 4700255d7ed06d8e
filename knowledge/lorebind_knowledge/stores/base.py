"""What a vector store is: it keeps vectors under numbers, and finds those nearest to another.

It knows nothing of documents, versions, words or texts: those are the catalog's, and an `Index`
brings the two together. `lorebind_knowledge.testing` holds the tests that every store must pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Mapping, Sequence

    from lorebind_knowledge.records import Matrix, Space, Vector


@dataclass(frozen=True, slots=True, eq=False)
class StoredVector:
    """A vector on its way into a store."""

    number: int
    """Positive, below 2**63. A space never uses a number for a second vector."""
    vector: Vector
    """float32, of length 1, or of length 0."""
    text: str
    """The passage, for databases that keep texts. Nothing is searched by it."""
    metadata: Mapping[str, Any]
    """JSON values, for databases that filter. Empty for a store that does not."""


class Nominees(NamedTuple):
    """What a store says is near, the nearest first."""

    numbers: Sequence[int]
    vectors: Matrix | None = None
    """Their vectors as they were added, shape (numbers, dimension); None where asking for them
    with `get` is as quick."""


@runtime_checkable
class VectorStore(Protocol):
    """Keeps vectors and nominates the nearest. Methods are `def` or `async def`.

    Inherit it for the defaults below. Every method may be called from several threads at once; what
    goes in is the caller's, to be copied or written before the method returns. Whatever the store
    cannot do raises StoreError.
    """

    is_exact: bool = True
    """Whether `nearest` surely finds the nearest. An index then notices by itself when vectors are
    missing; from an approximate store it accepts what it gets."""
    filters: bool = False
    """Whether `nearest` uses `where`. Otherwise metadata is not handed to `add`."""
    gives_vectors: bool = True
    """Whether `get` gives vectors. Otherwise the catalog keeps a copy of each."""

    def add(self, space: Space, vectors: Sequence[StoredVector]) -> Awaitable[None] | None:
        """Write vectors; `nearest` finds them from the moment this returns.

        Room for a space is made when it is first added to. A number that is there already has the
        same vector, and may be written again or not. When it raises, some may be written.
        """
        ...

    def nearest(
        self,
        space: Space,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        among: Collection[int] | None,
    ) -> Nominees | Awaitable[Nominees]:
        """The `k` vectors of a space nearest to another one by cosine, nearest first.

        Fewer only where the space has no more, or no more that pass; more are welcome. They are
        nominees: the caller computes their cosines, and asks for more when the last is too near.

        Args:
            space: the space; one that nothing was added to is empty.
            vector: float32, shape (dimension,), of length 1.
            k: at least 1.
            where: a metadata filter, see `lorebind_knowledge.filters`. It only narrows: the caller
                drops what does not pass, but misses what is left out wrongly.
            among: only these numbers; None means all. A store that cannot narrow by numbers leaves
                this to the caller. Given only where `filters` is False.
        """
        ...

    def get(
        self, space: Space, numbers: Collection[int]
    ) -> Mapping[int, Vector | None] | Awaitable[Mapping[int, Vector | None]]:
        """The vectors of these numbers, as they were added; those that are not there are left out.

        Where `gives_vectors` is False, the value is None and says only that the number is there.
        """
        ...

    def delete(self, space: Space, numbers: Collection[int]) -> Awaitable[None] | None:
        """Delete the vectors of these numbers; some may be gone already."""
        ...

    def count(self, space: Space) -> int | Awaitable[int | None] | None:
        """How many vectors a space has; None if the database cannot tell quickly."""
        ...

    def drop(self, space: Space) -> Awaitable[None] | None:
        """Delete all of a space; nothing happens where nothing was added."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Give back what the store holds open. Any other call afterwards raises StoreError."""
        ...


@runtime_checkable
class ApproximateStore(Protocol):
    """The capability of an approximate index, which is best made when much has been loaded."""

    def finish_load(self, space: Space) -> Awaitable[None] | None:
        """Called at the end of every ingest: bring the approximate index up to what is there."""
        ...
