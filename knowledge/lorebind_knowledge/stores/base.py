"""What a vector store is. `lorebind_knowledge.testing` holds the tests every store must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lorebind_knowledge.bridge import call
from lorebind_knowledge.records import RecordFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Mapping, Sequence

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import (
        DocumentMatch,
        Record,
        SearchOptions,
        StoredRecord,
        Vector,
    )


@runtime_checkable
class VectorStore(Protocol):
    """Keeps records and finds the nearest to a vector. Methods are `def` or `async def`.

    A document's records are staged by `upsert` and found once `publish` names their generation.
    Every method may be called from several threads or tasks at once. What goes in is copied, and
    what comes out is the caller's own: changing either never changes what is stored.

    Texts are any Unicode that UTF-8 can hold; a lone surrogate raises StoreError. Metadata comes
    back as JSON has it, a tuple as a list; what JSON cannot hold, NaN among it, raises
    StoreError. A record's id is made from its uri: two documents never share one.

    Whatever the store cannot do raises StoreError; an answer is never empty for want of one.
    """

    def open(self, index: IndexKey, dimension: int) -> Awaitable[None] | None:
        """Make room for an index, once; opening it again changes nothing.

        A persistent store remembers its indexes: one that was opened before needs no opening.

        Raises:
            IndexMismatchError: it exists with another dimension.
        """
        ...

    def upsert(self, records: Sequence[Record]) -> Awaitable[None] | None:
        """Stage records: they are written, but not found before `publish`. All of them or none.

        The same (index, id, generation) again replaces what was staged; if that generation is
        the published one already, searches find what was published until it is published again.

        Raises:
            StoreError: an index was not opened; a vector has another dimension than its index or
                holds NaN or infinity; a text or metadata cannot be stored.
        """
        ...

    def publish(self, index: IndexKey, uri: str, generation: int) -> Awaitable[None] | None:
        """Make this generation the one that searches find of a document, in one atomic step.

        Whatever was found of the document before stops being found, and stays staged until it is
        deleted. A generation without records leaves the document none. Publishing what is
        published changes nothing.

        Raises:
            StoreError: the index was not opened.
        """
        ...

    def similarity_search(
        self, vector: Vector, options: SearchOptions
    ) -> list[DocumentMatch] | Awaitable[list[DocumentMatch]]:
        """The `top_k` published records nearest to a vector, by cosine, best first.

        `score` is the cosine, clipped to [0, 1] and rounded to 6 decimals so that equal texts
        tie; ties go by id. `scores["dense"]` is the cosine itself. `min_score` keeps what has
        `score >= min_score`, `ids` leaves in the running only the records it names. A zero vector
        has the cosine 0 with everything. An open index that holds nothing gives an empty list.

        Raises:
            StoreError: the index was not opened; the vector has another dimension than it.
            UsageError: `options.where` is malformed, or `options.top_k` is less than 1.
        """
        ...

    def delete_by_filter(self, filter: RecordFilter) -> int | Awaitable[int]:  # noqa: A002 - the protocol's own word
        """Delete the records, staged or published, for which every condition holds.

        Returns how many they were; 0 for an index that was not opened.
        """
        ...

    def count(self, index: IndexKey) -> int | Awaitable[int]:
        """How many records are published.

        Raises:
            StoreError: the index was not opened.
        """
        ...

    def drop(self, index: IndexKey) -> Awaitable[None] | None:
        """Remove an index with all its records; nothing happens if it was not opened."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Give back what the store holds open. Closing again changes nothing.

        Any other call afterwards raises StoreError.
        """
        ...


@runtime_checkable
class LexicalStore(Protocol):
    """The capability of finding records by their words."""

    def lexical_search(
        self, query: str, options: SearchOptions
    ) -> list[DocumentMatch] | Awaitable[list[DocumentMatch]]:
        """The `top_k` published records that best match the words of a query by BM25, best first.

        Any one of the words is enough. `scores["lexical"]` is the BM25 figure, positive, higher
        is better. `score` is that figure divided by the best one of this query among the records
        that pass `where` and `ids`, rounded to 6 decimals; ties go by id. How rare a word is, is
        counted over all that is published in the index, and over nothing else. Being relative it
        cannot tell a miss from a hit, so `min_score`, which is about the cosine, is not applied. A
        query without words to look for gives an empty list.

        Raises:
            StoreError: the index was not opened.
            UsageError: `options.where` is malformed, or `options.top_k` is less than 1.
        """
        ...


@runtime_checkable
class FetchStore(Protocol):
    """The capability of giving records back by their ids."""

    def fetch(
        self, index: IndexKey, ids: Collection[str]
    ) -> dict[str, StoredRecord] | Awaitable[dict[str, StoredRecord]]:
        """The published records with these ids, by id; those that are not there are left out.

        Raises:
            StoreError: the index was not opened.
        """
        ...


@runtime_checkable
class BulkStore(Protocol):
    """The capability of switching many documents at once."""

    def replace_documents(
        self, index: IndexKey, generations: Mapping[str, int]
    ) -> Awaitable[None] | None:
        """Publish one generation of each document and delete all its other records.

        It is `publish` and `delete_by_filter` for every uri, in one transaction where there are
        transactions.

        Raises:
            StoreError: the index was not opened.
        """
        ...


@runtime_checkable
class ApproximateStore(Protocol):
    """The capability of an approximate index, which is best made when much has been loaded."""

    def finish_load(self, index: IndexKey) -> Awaitable[None] | None:
        """Called at the end of every ingest: bring the approximate index up to what is stored.

        Raises:
            StoreError: the index was not opened, or the approximate one cannot be made.
        """
        ...


async def replace_documents(
    store: VectorStore, index: IndexKey, generations: Mapping[str, int]
) -> None:
    """Switch documents to new generations and delete the old ones, whatever the store can."""
    if isinstance(store, BulkStore):
        await call(store.replace_documents, index, generations)
        return
    for uri, generation in generations.items():
        await call(store.publish, index, uri, generation)
        old = RecordFilter(index, uri=uri, except_generation=generation)
        await call(store.delete_by_filter, old)
