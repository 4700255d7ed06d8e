"""Vectors in Qdrant: on a server, or in qdrant-client's local mode.

Vectors of one dimension share a collection, `<collection>_<dimension>`. Several processes may use
one server. Where it has replicas, a search surely finds what was just added only if they are asked
with `consistency: majority` or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.base import Nominees, VectorStore
from lorebind_knowledge.stores.qdrant.connection import QdrantConnection, collection_is_missing
from lorebind_knowledge.stores.qdrant.filters import FACTS, has_fact, narrow
from lorebind_knowledge.stores.qdrant.local_mode import qdrant
from lorebind_knowledge.stores.qdrant.points import (
    SPACE,
    ZERO,
    ids,
    make_point,
    number_of,
    requests,
    vectors_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from qdrant_client import QdrantClient

    from lorebind_knowledge.records import Space, Vector
    from lorebind_knowledge.stores.base import StoredVector

R = TypeVar("R")

_DISTANCES = {"cosine": "COSINE", "l2": "EUCLID", "ip": "DOT"}
_VECTORS_AT_ONCE = 1000
"""Of more nominees the vectors are left out: few of so many pass a filter."""
_READ_AT_ONCE = 256
_DELETED_AT_ONCE = 10_000


class QdrantStore(VectorStore):
    """Keeps vectors in Qdrant; compares with every vector unless told otherwise.

    A collection that is not there holds nothing. Every write returns when it has been applied.
    """

    filters = True

    def __init__(
        self,
        collection: str,
        connection: QdrantConnection | None = None,
        *,
        consistency: str | None = None,
        metric: str = "cosine",
        exact: bool = True,
    ) -> None:
        """
        Args:
            collection: what the names of the collections begin with.
            connection: where they are, closed with the store; None keeps everything in memory.
            consistency: how many replicas must agree on a read: `majority`, `quorum` or `all`;
                None is one.
            metric: what a new collection is made to order by, `cosine`, `l2` or `ip`; vectors have
                length 1, so that all three order alike.
            exact: compare with every vector; False asks the approximate index, HNSW, which may
                miss some of the nearest.
        """
        self._connection = connection or QdrantConnection()
        self._collection, self._metric, self.is_exact = collection, metric, exact
        self.persistent = self._connection.persistent
        self._reads: dict[str, Any] = {} if consistency is None else {"consistency": consistency}
        self._made: set[int] = set()

    def add(self, space: Space, vectors: Sequence[StoredVector]) -> None:
        for points in requests(make_point(space, stored) for stored in vectors):
            self._upsert(space, points)

    def nearest(
        self,
        space: Space,
        vector: Vector,
        k: int,
        where: Mapping[str, Any],
        among: Collection[int] | None,
    ) -> Nominees:
        narrowed = narrow(where)
        conditions = [] if narrowed is None else [narrowed]
        if self._metric == "l2":
            points = self._nearest_by_distance(space, vector, k, conditions)
        else:
            points = self._query(space, vector, k, conditions)
        vectors = vectors_of(space, points) if k <= _VECTORS_AT_ONCE else None
        return Nominees([number_of(point) for point in points], vectors)

    def get(self, space: Space, numbers: Collection[int]) -> dict[int, Vector | None]:
        found: dict[int, Vector | None] = {}
        for some in ids(space, numbers, _READ_AT_ONCE):
            points = self._retrieve(space, some)
            found.update(zip(map(number_of, points), vectors_of(space, points), strict=True))
        return found

    def delete(self, space: Space, numbers: Collection[int]) -> None:
        for some in ids(space, numbers, _DELETED_AT_ONCE):
            self._delete(space, some)

    def count(self, space: Space) -> int:
        inside = _inside(space)
        return self._ask(
            space,
            lambda client, name: client.count(name, count_filter=inside, exact=True).count,
            nothing=0,
        )

    def drop(self, space: Space) -> None:
        self._delete(space, _inside(space))

    def close(self) -> None:
        self._connection.close()

    def __str__(self) -> str:
        return str(self._connection)

    def _upsert(self, space: Space, points: list[Any]) -> None:
        def upsert(client: QdrantClient, name: str) -> object:
            return client.upsert(name, points, wait=True)

        made = space.dimension in self._made
        if not made or self._ask(space, upsert, nothing=None) is None:
            self._make_collection(space)
            self._made.add(space.dimension)
            self._connection.ask(lambda client: upsert(client, self._name(space)))

    def _nearest_by_distance(
        self, space: Space, vector: Vector, k: int, conditions: list[Any]
    ) -> list[Any]:
        """The nearest by cosine: by distance a vector of length 0 is as near as one at 60 degrees.

        Those of length 0 belong before the first that is further than 90 degrees away.
        """
        directed = [*conditions, has_fact([ZERO], negated=True)]
        points = self._query(space, vector, k, directed)
        acute = sum(point.score**2 <= 2 for point in points)
        if acute == k:
            return points
        zeros = self._query(space, vector, k, [*conditions, has_fact([ZERO])])
        return [*points[:acute], *zeros, *points[acute:]][:k]

    def _query(self, space: Space, vector: Vector, k: int, conditions: list[Any]) -> list[Any]:
        # Local mode is always exact, and warns that it knows no parameters.
        remote = not self._connection.is_local
        search = qdrant("qdrant_client.models").SearchParams(exact=self.is_exact)
        return self._ask(
            space,
            lambda client, name: (
                client.query_points(
                    name,
                    query=vector.tolist(),
                    query_filter=_inside(space, *conditions),
                    limit=k,
                    search_params=search if remote else None,
                    with_payload=False,
                    with_vectors=k <= _VECTORS_AT_ONCE,
                    **self._reads,
                ).points
            ),
            nothing=[],
        )

    def _retrieve(self, space: Space, some: list[str]) -> list[Any]:
        return self._ask(
            space,
            lambda client, name: client.retrieve(
                name, some, with_payload=False, with_vectors=True, **self._reads
            ),
            nothing=[],
        )

    def _delete(self, space: Space, which: Any) -> None:
        self._ask(space, lambda client, name: client.delete(name, which, wait=True), nothing=None)

    def _ask(self, space: Space, request: Callable[[QdrantClient, str], R], *, nothing: R) -> R:
        """What a request gives that names the collection of a space; `nothing` if it is missing."""
        if not self._connection.exists():
            return nothing
        name = self._name(space)
        try:
            return self._connection.ask(lambda client: request(client, name))
        except StoreError as error:
            if collection_is_missing(error):
                return nothing
            raise

    def _make_collection(self, space: Space) -> None:
        """Make the collection and its payload indexes; what is there already stays.

        Raises:
            StoreError: it is there and orders by another metric.
        """
        models = qdrant("qdrant_client.models")
        ask, name = self._connection.ask, self._name(space)
        distance = models.Distance[_DISTANCES[self._metric]]
        config = models.VectorParams(size=space.dimension, distance=distance)
        try:
            ask(lambda client: client.create_collection(name, vectors_config=config))
        except StoreError:
            if not ask(lambda client: client.collection_exists(name)):
                raise
        kept: Any = ask(lambda client: client.get_collection(name)).config.params.vectors
        if getattr(kept, "distance", None) != distance:
            raise StoreError(
                f"{self}: collection {name!r} was made with other settings ({kept}); set the "
                "metric that it has, or name another collection"
            )
        if self._connection.is_local:  # it has no payload indexes, and warns that it has none
            return
        tenant = models.KeywordIndexParams(type="keyword", is_tenant=True)
        keyword = models.PayloadSchemaType.KEYWORD
        ask(lambda client: client.create_payload_index(name, SPACE, field_schema=tenant))
        ask(lambda client: client.create_payload_index(name, FACTS, field_schema=keyword))

    def _name(self, space: Space) -> str:
        return f"{self._collection}_{space.dimension}"


def _inside(space: Space, *conditions: Any) -> Any:
    """The filter that a point is of a space and meets conditions."""
    models = qdrant("qdrant_client.models")
    own = models.FieldCondition(key=SPACE, match=models.MatchValue(value=space.name))
    return models.Filter(must=[own, *conditions])
