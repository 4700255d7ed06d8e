"""Vectors in Qdrant: on a server, or in qdrant-client's local mode.

Vectors of one dimension share a collection, `<collection>_<dimension>`. Several processes may use
one server. If it has replicas, a search is guaranteed to find newly added vectors only with
`consistency: majority` or stronger.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.base import SearchHits, VectorStore, batches
from lorebind_knowledge.stores.matrix import ExactMatrix
from lorebind_knowledge.stores.qdrant.connection import QdrantConnection, collection_is_missing
from lorebind_knowledge.stores.qdrant.filters import FACTS, facts, has_fact, narrow
from lorebind_knowledge.stores.qdrant.local_mode import qdrant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from qdrant_client import QdrantClient

    from lorebind_knowledge.records import Matrix, Partition, Vector
    from lorebind_knowledge.stores.base import StoredVector

R = TypeVar("R")

_DISTANCES = {"cosine": "COSINE", "l2": "EUCLID", "ip": "DOT"}
_SPARSE = 8
"""In local mode, reading a vector takes less time than a search does for this many."""
_VECTORS_AT_ONCE = 1000
"""Larger results omit the vectors, because few of them pass a filter."""
_SECONDS_BETWEEN_LOOKS = 60.0
"""How long a space counts as small or large before its size is looked up again."""
_GROWTH = 4
"""How many more vectors are asked for if too few of them are among the allowed ones."""
_READ_AT_ONCE = 256
_DELETED_AT_ONCE = 10_000
_SPACE = "space"
_ZERO = "zero"
"""The fact of a vector of length 0."""

_REQUEST_BYTES = 16 * 2**20
"""Half the maximum size of a request that a server accepts by default."""
# The approximate bytes of a number, and of a fact, in a request, which is JSON.
_FLOAT_BYTES = 24
_FACT_BYTES = 28


class QdrantStore(VectorStore):
    """Stores vectors in Qdrant. Local mode compares a query with every vector.

    A server filters. Local mode evaluates each condition in Python for every point, which takes
    a hundred times as long as the search, so it searches all points and keeps some of them.

    A missing collection counts as empty. Every write returns when it has been applied.
    """

    counts_fast = False

    def __init__(
        self,
        collection: str,
        connection: QdrantConnection | None = None,
        *,
        consistency: str | None = None,
        metric: str = "cosine",
        exact: bool = False,
        approximate_from: int = 10_000,
    ) -> None:
        """
        Args:
            collection: the prefix of the names of the collections.
            connection: the server or folder, closed with the store; None means in memory.
            consistency: the replicas that must agree on a read: `majority`, `quorum` or `all`;
                None means one.
            metric: the metric of new collections, `cosine`, `l2` or `ip`. Vectors have length 1,
                so all three give the same order.
            exact: whether a server compares with every vector, however many there are. If not, it
                uses its approximate index, HNSW, for large spaces, and may miss some of the
                nearest.
            approximate_from: number of vectors from which a space is large.
        """
        self._connection = connection or QdrantConnection()
        self._collection, self._metric = collection, metric
        self.is_exact = exact or self._connection.is_local
        self.filters = not self._connection.is_local
        self._approximate_from = approximate_from
        self._large: dict[int, tuple[float, bool]] = {}
        """Whether spaces are large, each with the time at which to look again."""
        self.persistent = self._connection.persistent
        self._reads: dict[str, Any] = {} if consistency is None else {"consistency": consistency}
        self._made: set[int] = set()

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        for points in requests(_point(space, stored) for stored in vectors):
            self._upsert(space, points)

    def nearest(
        self,
        space: Partition,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        if allowed_ids is not None:
            return self._nearest_among(space, vector, k, allowed_ids)
        narrowed = narrow(where) if self.filters else None
        conditions = [] if narrowed is None else [narrowed]
        exact = self.is_exact or not self._is_large(space)
        if self._metric == "l2":
            points = self._nearest_by_distance(space, vector, k, conditions, exact=exact)
        else:
            points = self._query(space, vector, k, conditions, exact=exact)
        vectors = _vectors_of(space, points) if k <= _VECTORS_AT_ONCE else None
        return SearchHits([_number_of(point) for point in points], vectors, is_exact=exact)

    def get(self, space: Partition, numbers: Collection[int]) -> dict[int, Vector | None]:
        stored: dict[int, Vector | None] = {}
        for some in _ids(space, numbers, _READ_AT_ONCE):
            points = self._retrieve(space, some)
            stored.update(zip(map(_number_of, points), _vectors_of(space, points), strict=True))
        return stored

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        for some in _ids(space, numbers, _DELETED_AT_ONCE):
            self._delete(space, some)

    def count(self, space: Partition) -> int:
        return self._count(space, exact=True)

    def drop(self, space: Partition) -> None:
        self._delete(space, _inside(space))
        self._large.pop(space.index_uid, None)

    def close(self) -> None:
        self._connection.close()

    def __str__(self) -> str:
        return str(self._connection)

    def _nearest_among(
        self, space: Partition, vector: Vector, k: int, allowed_ids: Collection[int]
    ) -> SearchHits:
        """Return the nearest of some numbers.

        The vectors of few are compared here. For many, the nearest of all are asked for, until
        enough of these are among them.
        """
        there = self._ask(
            space, lambda client, name: client.get_collection(name).points_count or 0, nothing=0
        )
        allowed = np.unique(np.fromiter(allowed_ids, np.int64, len(allowed_ids)))
        if not there or len(allowed) * _SPARSE <= there:
            vectors = self.get(space, allowed.tolist())
            numbers = np.array(sorted(vectors), np.int64)
            matrix = np.array([vectors[number] for number in numbers.tolist()], np.float32)
            return ExactMatrix(numbers, matrix.reshape(-1, space.dimension)).nearest(vector, k)
        limit = 2 * k * max(there // len(allowed), 1)
        while True:
            hits = self.nearest(space, vector, limit, {}, None)
            inside = np.isin(hits.numbers, allowed)
            if inside.sum() >= k or len(hits.numbers) < limit:
                numbers = np.array(hits.numbers, np.int64)[inside]
                return SearchHits(
                    numbers.tolist(), None if hits.vectors is None else hits.vectors[inside]
                )
            limit *= _GROWTH

    def _upsert(self, space: Partition, points: list[Any]) -> None:
        def upsert(client: QdrantClient, name: str) -> object:
            # Otherwise the server answers before searches can find the points.
            return client.upsert(name, points, wait=True)

        exists = space.dimension in self._made
        if not exists or self._ask(space, upsert, nothing=None) is None:
            self._make_collection(space)
            self._made.add(space.dimension)
            self._connection.ask(lambda client: upsert(client, self._name(space)))

    def _is_large(self, space: Partition) -> bool:
        """Return whether a space is searched with the approximate index."""
        recount_at, large = self._large.get(space.index_uid, (0.0, False))
        if (now := time.monotonic()) >= recount_at:
            large = self._count(space, exact=False) >= self._approximate_from
            self._large[space.index_uid] = now + _SECONDS_BETWEEN_LOOKS, large
        return large

    def _count(self, space: Partition, *, exact: bool) -> int:
        """Return the number of vectors, or the server's fast estimate of it."""
        inside = _inside(space)
        return self._ask(
            space,
            lambda client, name: client.count(name, count_filter=inside, exact=exact).count,
            nothing=0,
        )

    def _nearest_by_distance(
        self, space: Partition, vector: Vector, k: int, conditions: list[Any], *, exact: bool
    ) -> list[Any]:
        """Return the nearest by cosine from a collection that measures distance.

        By distance, a vector of length 0 is as near as one at 60 degrees. By cosine it belongs
        before the first vector at more than 90 degrees.
        """
        directed = [*conditions, has_fact([_ZERO], negated=True)]
        points = self._query(space, vector, k, directed, exact=exact)
        acute = sum(point.score**2 <= 2 for point in points)
        if acute == k:
            return points
        zeros = self._query(space, vector, k, [*conditions, has_fact([_ZERO])], exact=exact)
        return [*points[:acute], *zeros, *points[acute:]][:k]

    def _query(
        self, space: Partition, vector: Vector, k: int, conditions: list[Any], *, exact: bool
    ) -> list[Any]:
        remote = not self._connection.is_local
        search = qdrant("qdrant_client.models").SearchParams(exact=exact)
        settings = {
            "query": vector.tolist(),
            # Local mode is always exact, and warns about search parameters.
            "search_params": search if remote else None,
            "with_payload": False,
            "with_vectors": k <= _VECTORS_AT_ONCE,
            **self._reads,
        }

        def points(limit: int, where: Any) -> list[Any]:
            return self._ask(
                space,
                lambda client, name: (
                    client.query_points(name, query_filter=where, limit=limit, **settings).points
                ),
                nothing=[],
            )

        if remote or conditions:
            return points(k, _inside(space, *conditions))
        limit = k
        while True:
            of_all_spaces = points(limit, None)
            inside = [point for point in of_all_spaces if _is_of(space, point)]
            if len(inside) >= k or len(of_all_spaces) < limit:
                return inside[:k]
            limit *= _GROWTH

    def _retrieve(self, space: Partition, some: Sequence[str]) -> list[Any]:
        return self._ask(
            space,
            lambda client, name: client.retrieve(
                name, some, with_payload=False, with_vectors=True, **self._reads
            ),
            nothing=[],
        )

    def _delete(self, space: Partition, which: Any) -> None:
        self._ask(space, lambda client, name: client.delete(name, which, wait=True), nothing=None)

    def _ask(self, space: Partition, request: Callable[[QdrantClient, str], R], *, nothing: R) -> R:
        """Return the result of a request to the space's collection; `nothing` if it is missing."""
        if not self._connection.exists():
            return nothing
        name = self._name(space)
        try:
            return self._connection.ask(lambda client: request(client, name))
        except StoreError as error:
            if collection_is_missing(error):
                return nothing
            raise

    def _make_collection(self, space: Partition) -> None:
        """Create the collection and its payload indexes if missing.

        Raises:
            StoreError: the collection exists with another metric.
        """
        models = qdrant("qdrant_client.models")
        ask, name = self._connection.ask, self._name(space)
        distance = models.Distance[_DISTANCES[self._metric]]
        config = models.VectorParams(size=space.dimension, distance=distance)
        try:
            ask(lambda client: client.create_collection(name, vectors_config=config))
        except StoreError:
            # Another process may have created it at the same moment.
            if not ask(lambda client: client.collection_exists(name)):
                raise
        vectors: Any = ask(lambda client: client.get_collection(name)).config.params.vectors
        if getattr(vectors, "distance", None) != distance:
            raise StoreError(
                f"{self}: collection {name!r} was created with other settings ({vectors}); set the "
                "metric that it has, or name another collection"
            )
        if self._connection.is_local:  # local mode has no payload indexes, and warns about them
            return
        # Qdrant then keeps the points of a space together on the disk, as searches read them.
        tenant = models.KeywordIndexParams(type="keyword", is_tenant=True)
        keyword = models.PayloadSchemaType.KEYWORD
        ask(lambda client: client.create_payload_index(name, _SPACE, field_schema=tenant))
        ask(lambda client: client.create_payload_index(name, FACTS, field_schema=keyword))

    def _name(self, space: Partition) -> str:
        return f"{self._collection}_{space.dimension}"


def _inside(space: Partition, *conditions: Any) -> Any:
    """Return the filter for points of a space that meet conditions."""
    models = qdrant("qdrant_client.models")
    inside = models.FieldCondition(key=_SPACE, match=models.MatchValue(value=space.name))
    return models.Filter(must=[inside, *conditions])


def _point(space: Partition, stored: StoredVector) -> Any:
    known_facts = facts(stored.metadata)
    if not stored.vector.any():
        known_facts.append(_ZERO)
    return qdrant("qdrant_client.models").PointStruct(
        id=_id(space, stored.number),
        vector=stored.vector.tolist(),
        payload={_SPACE: space.name, FACTS: known_facts},
    )


def _is_of(space: Partition, point: Any) -> bool:
    return uuid.UUID(point.id).int >> 64 == space.index_uid


def _number_of(point: Any) -> int:
    return uuid.UUID(point.id).int & (2**64 - 1)


def _vectors_of(space: Partition, points: list[Any]) -> Matrix:
    vectors = np.array([point.vector for point in points], np.float32)
    return vectors.reshape(len(points), space.dimension)


def _ids(space: Partition, numbers: Collection[int], size: int) -> Iterator[Sequence[str]]:
    """Return the ids of points, in parts of this size."""
    return batches([_id(space, number) for number in numbers], size)


def requests(points: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield points in parts that a server accepts in one request."""
    part: list[Any] = []
    size = 0
    for point in points:
        weight = _FLOAT_BYTES * len(point.vector) + _FACT_BYTES * len(point.payload[FACTS])
        if part and size + weight > _REQUEST_BYTES:
            yield part
            part, size = [], 0
        part.append(point)
        size += weight
    if part:
        yield part


def _id(space: Partition, number: int) -> str:
    """Return a UUID, the only text id in Qdrant: one half is the space, the other the number."""
    return str(uuid.UUID(int=space.index_uid << 64 | number))
