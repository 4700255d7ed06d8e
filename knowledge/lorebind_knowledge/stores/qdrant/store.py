"""The Qdrant store: past one machine, or where a Qdrant server is at hand.

Vectors of one dimension share a collection, `<collection>_<dimension>`; what is known of each index
stands in `<collection>_indexes`. Searches compare with every vector unless told otherwise.

Readers see versions of an index. Each record says since which version it is published and until
which, the index's head says which version it is at, and a search finds what is published at the
version that it read from the head first. Publishing marks the records for the next version, which
nobody sees, then writes the head, in one atomic step; deleting published records makes them
invisible the same way before they go. A search that finds, when it is done, that the head has
moved on begins again, since records it needed may have gone. So no reader ever sees a gap or a
mixture, whichever process writes. With replicas this takes `consistency: majority` or more.

One writer at a time: the writers of a process wait for each other, those of several are kept apart
by the catalog's ingest lock. A writer that was cut off leaves marks for a version that never came;
the next writer of the index removes them.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.filters import compile_filter
from lorebind_knowledge.stores.checks import (
    by_index,
    check_dimension,
    check_options,
    check_query,
    check_room,
    entries_of,
    named,
    not_opened,
)
from lorebind_knowledge.stores.qdrant.connection import QdrantConnection, collection_exists, qdrant
from lorebind_knowledge.stores.qdrant.heads import Head, Heads
from lorebind_knowledge.stores.qdrant.lexical import LexicalSearch
from lorebind_knowledge.stores.qdrant.points import (
    Points,
    stored_record,
    visible,
    where_any,
)
from lorebind_knowledge.stores.qdrant.search import NearestSearch
from lorebind_knowledge.stores.qdrant.writing import IndexWriter
from lorebind_knowledge.stores.terms import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import (
        DocumentMatch,
        Record,
        RecordFilter,
        SearchOptions,
        StoredRecord,
        Vector,
    )

R = TypeVar("R")

_ATTEMPTS = 40


class QdrantStore:
    """A `VectorStore`, `LexicalStore` and `FetchStore` in Qdrant; exact unless told otherwise.

    Lexical search is BM25 as FTS5 has it, over the published records of the index alone. A word
    with an underscore is looked for as its parts.
    """

    def __init__(
        self,
        collection: str,
        *,
        url: str | None = None,
        address_as_written: str | None = None,
        path: Path | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 10,
        consistency: str | None = None,
        metric: str = "cosine",
        exact: bool = True,
    ) -> None:
        """
        Args:
            collection: what the names of the collections begin with.
            url: the server, as http://host:6333; None for qdrant-client's local mode.
            address_as_written: how messages name the server; `url` when left out.
            path: the folder of local mode, for small data and one process; None, without a url,
                keeps everything in memory.
            api_key: sent with every request.
            timeout_seconds: of each request, rounded up to whole seconds.
            consistency: how many replicas must agree on a read: `majority`, `quorum` or `all`;
                None is one.
            metric: what a new collection is made to order by, `cosine`, `l2` or `ip`; vectors are
                kept at length 1, so that all three order alike.
            exact: compare with every vector; False asks the approximate index, HNSW, which may
                miss some of the nearest.
        """
        self._connection = QdrantConnection(
            url=url,
            address_as_written=address_as_written,
            path=path,
            api_key=api_key,
            timeout_seconds=timeout_seconds,
            consistency=consistency,
        )
        self._collection, self._metric, self._exact = collection, metric, exact
        self._heads = Heads(self._connection, f"{collection}_indexes")
        self._writers: defaultdict[IndexKey, threading.RLock] = defaultdict(threading.RLock)

    def open(self, index: IndexKey, dimension: int) -> None:
        check_room(index, dimension)
        with self._writing(index):
            head = self._heads.find_any(index)
            if head is not None and head.dropped:
                self._writer(index, head).drop()
                head = None
            points = self._points(dimension)
            if head is None:
                self._heads.make()
                points.make(dimension, self._metric)
                self._heads.put(index, Head(dimension, uuid.uuid4().hex, self._metric))
                return
        check_dimension(index, head.dimension, dimension)
        if not collection_exists(self._connection, points.collection):
            raise StoreError(
                f"{self}: collection {points.collection!r} of {named(index)} is gone; restore it, "
                "or build the index anew with: lorebind knowledge ingest --strategy replace"
            )

    def upsert(self, records: Sequence[Record]) -> None:
        groups = by_index(records)
        with self._writing(*groups):
            checked = []
            for index, group in groups.items():
                head = self._opened(index)
                checked.append((index, head, entries_of(group, head.dimension)))
            for index, head, entries in checked:
                self._writer(index, head).stage(entries)

    def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        with self._writing(index):
            self._writer(index, self._opened(index)).publish(uri, generation)

    def similarity_search(self, vector: Vector, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allows = compile_filter(options.where)
        vector = np.asarray(vector)

        def search(head: Head) -> list[DocumentMatch]:
            check_query(vector, options.index, head.dimension)
            if not head.records:
                return []
            points = self._points(head.dimension)
            nearest = NearestSearch(points, head, options, allows)
            return nearest.run(vector, exact=self._exact)

        return self._reading(options.index, search)

    def lexical_search(self, query: str, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allows = compile_filter(options.where)

        def search(head: Head) -> list[DocumentMatch]:
            if not head.records or not terms(query):
                return []
            return LexicalSearch(self._points(head.dimension), head, options, allows).run(query)

        return self._reading(options.index, search)

    def fetch(self, index: IndexKey, ids: Collection[str]) -> dict[str, StoredRecord]:
        def search(head: Head) -> dict[str, StoredRecord]:
            points = self._points(head.dimension)
            condition = qdrant("qdrant_client.models").Filter(
                must=[*visible(head), where_any("id", sorted(ids))]
            )
            found = [point.id for point in points.scroll(condition, ("id",))]
            records = map(stored_record, points.retrieve(found, with_vectors=True))
            return {record.id: record for record in records}

        return self._reading(index, search)

    def delete_by_filter(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        with self._writing(filter.index):
            head = self._heads.find(filter.index)
            return 0 if head is None else self._writer(filter.index, head).delete(filter)

    def count(self, index: IndexKey) -> int:
        with self._connection.turn():
            return self._opened(index).records

    def drop(self, index: IndexKey) -> None:
        with self._writing(index):
            head = self._heads.find_any(index)
            if head is not None:
                self._writer(index, head).drop()

    def close(self) -> None:
        self._connection.close()

    def __str__(self) -> str:
        return str(self._connection)

    @contextmanager
    def _writing(self, *indexes: IndexKey) -> Iterator[None]:
        """No other writer of this process comes between; always taken in the same order."""
        with ExitStack() as stack:
            stack.enter_context(self._connection.turn())
            for index in sorted(indexes):
                stack.enter_context(self._writers[index])
            yield

    def _reading(self, index: IndexKey, search: Callable[[Head], R]) -> R:
        """What a search gives that saw one version from its beginning to its end."""
        with self._connection.turn():
            for _ in range(_ATTEMPTS):
                head = self._opened(index)
                try:
                    found = search(head)
                except StoreError:
                    if self._same(index, head):
                        raise
                    continue
                if self._same(index, head):
                    return found
        raise StoreError(
            f"{self}: {named(index)} was changed again and again while it was searched; "
            "search again when less is written"
        )

    def _same(self, index: IndexKey, head: Head) -> bool:
        if self._connection.is_local:
            return True  # nobody else has had a turn
        now = self._heads.find(index)
        return now is not None and (now.birth, now.version) == (head.birth, head.version)

    def _writer(self, index: IndexKey, head: Head) -> IndexWriter:
        return IndexWriter(self._heads, self._points(head.dimension), index, head)

    def _points(self, dimension: int) -> Points:
        return Points(self._connection, f"{self._collection}_{dimension}")

    def _opened(self, index: IndexKey) -> Head:
        head = self._heads.find(index)
        if head is None:
            raise not_opened(index, self)
        return head
