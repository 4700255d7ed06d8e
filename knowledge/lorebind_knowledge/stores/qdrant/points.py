"""How a record is kept in Qdrant: its point's id, vectors and payload, and when it is visible.

The payload is laid out for other programs too: langchain-qdrant's `QdrantVectorStore` reads the
text under `page_content` and the metadata under `metadata`. What this store itself goes by stands
under `lorebind`. All points there are in a collection are seen by such a reader, staged and
superseded ones among them; after an ingest has ended only the published ones are left.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.records import StoredRecord
from lorebind_knowledge.stores.matrix import normalised
from lorebind_knowledge.stores.qdrant.connection import make_collection, qdrant
from lorebind_knowledge.stores.qdrant.filters import facts, narrow

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import SearchOptions, Vector
    from lorebind_knowledge.stores.checks import Entry
    from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
    from lorebind_knowledge.stores.qdrant.heads import Head

OURS = "lorebind"
LEXICAL = "lorebind-lexical"
"""The sparse vector with the words of a record."""
NEVER = 2**52
"""The version that never comes. Qdrant compares in float64, which holds it exactly."""

_PAGE = 1000
_VECTOR_PAGE = 128
_REQUEST_BYTES = 16 * 2**20
"""Half of what a server takes by default."""
_PREFIX = 6
_ALL_VALUES = 10_000_000

INDEXED = ("index", "id", "uri", "since", "until", "facts", "stems")
"""The fields under `lorebind` that conditions are about."""


def point_id(birth: str, entry: Entry, copy: int) -> str:
    """A UUID that sorts as the record's id does, as far as its first bytes tell."""
    start = entry.id.encode()[:_PREFIX].ljust(_PREFIX, b"\0")
    rest = digest(birth, entry.uri, entry.id, str(entry.generation), str(copy))
    return str(uuid.UUID(bytes=start + bytes.fromhex(rest)[: 16 - _PREFIX]))


def prefix_of(point: str) -> bytes:
    """The part of a point's id that sorts as its record's id does."""
    return uuid.UUID(point).bytes[:_PREFIX]


def payload(
    index: IndexKey, birth: str, entry: Entry, metadata: Mapping[str, Any], words: Counter[str]
) -> dict[str, Any]:
    owner = index.namespace
    return {
        "page_content": entry.text,
        "metadata": metadata,
        OURS: {
            "tenant": owner.tenant,
            "project": owner.project,
            "scope": owner.scope,
            "kb": owner.kb,
            "index": birth,
            "id": entry.id,
            "uri": entry.uri,
            "generation": entry.generation,
            "since": NEVER,
            "until": NEVER,
            "directed": bool(entry.vector.any()),
            "context": entry.context,
            "tokens": words.total(),
            "stems": sorted(words),
            "facts": facts(metadata),
            # A server keeps numbers in 64 bits; JSON's have no limit.
            "metadata": entry.metadata,
        },
    }


def vectors(entry: Entry, sparse: Mapping[int, float]) -> dict[str, Any]:
    """Of length 1 already: what a server makes of very short vectors is not the direction."""
    models = qdrant("qdrant_client.models")
    dense = normalised(entry.vector.astype(np.float64)).astype(np.float32).tolist()
    if not sparse:
        return {"": dense}
    words = models.SparseVector(indices=list(sparse), values=list(sparse.values()))
    return {"": dense, LEXICAL: words}


def dense_of(vector: Any) -> Vector:
    """The vector in an answer, which has a name where a point has others beside it."""
    return np.array(vector[""] if isinstance(vector, dict) else vector, np.float32)


def stored_record(point: Any) -> StoredRecord:
    ours = point.payload[OURS]
    metadata = json.loads(ours["metadata"])
    text, vector = point.payload["page_content"], dense_of(point.vector)
    return StoredRecord(ours["id"], ours["uri"], text, metadata, vector)


def searched_text(point: Any) -> str:
    """The words that a lexical search looks through."""
    return f"{point.payload[OURS]['context']}\n{point.payload['page_content']}"


def word_hash(stem: str) -> int:
    """The 32 bits that stand for a word in a sparse vector."""
    return int.from_bytes(hashlib.sha256(stem.encode("utf-8", "surrogatepass")).digest()[:4], "big")


def where_field(name: str, value: Any = None, **bounds: int) -> Any:
    """The condition that a field under `lorebind` has a value, or lies within bounds."""
    models = qdrant("qdrant_client.models")
    key = f"{OURS}.{name}"
    if bounds:
        return models.FieldCondition(key=key, range=models.Range(**bounds))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def where_any(name: str, values: list[str]) -> Any:
    """The condition that a field under `lorebind` has one of these values."""
    models = qdrant("qdrant_client.models")
    return models.FieldCondition(key=f"{OURS}.{name}", match=models.MatchAny(any=values))


def visible(head: Head) -> list[Any]:
    """The conditions that a record is published at this version of its index."""
    return [
        where_field("index", head.birth),
        where_field("since", lte=head.version),
        where_field("until", gt=head.version),
    ]


def searched(head: Head, options: SearchOptions) -> tuple[list[Any], bool]:
    """The conditions of a search, and whether only those that its filter allows meet them."""
    narrowing = narrow(options.where)
    conditions = visible(head)
    if narrowing.condition is not None:
        conditions.append(narrowing.condition)
    if options.ids is not None:
        conditions.append(where_any("id", sorted(options.ids)))
    return conditions, narrowing.exact


def is_visible(point: Any, version: int) -> bool:
    """The same of a point whose payload is here."""
    ours = point.payload[OURS]
    return bool(ours["since"] <= version < ours["until"])


class Points:
    """The points of one collection: all vectors of one dimension."""

    def __init__(self, connection: QdrantConnection, collection: str) -> None:
        self.collection = collection
        self.connection = connection

    def make(self, dimension: int, metric: str) -> None:
        """Make the collection and its payload indexes, unless it is there.

        Raises:
            StoreError: it is there and orders by another metric.
        """
        models = qdrant("qdrant_client.models")
        distances = models.Distance
        distance = {"cosine": distances.COSINE, "l2": distances.EUCLID, "ip": distances.DOT}[metric]
        make_collection(
            self.connection,
            self.collection,
            vectors_config=models.VectorParams(size=dimension, distance=distance),
            sparse_vectors_config={LEXICAL: models.SparseVectorParams()},
        )
        self._check_metric(distance)
        if self.connection.is_local:  # it has no payload indexes, and warns that it has none
            return
        kinds: dict[str, Any] = dict.fromkeys(INDEXED, "keyword")
        kinds["index"] = models.KeywordIndexParams(type="keyword", is_tenant=True)
        kinds["stems"] = models.KeywordIndexParams(type="keyword", on_disk=True)
        kinds["since"] = kinds["until"] = "integer"
        for name, kind in kinds.items():
            self._ask_create_index(f"{OURS}.{name}", kind)

    def _check_metric(self, distance: Any) -> None:
        info = self.connection.ask(lambda client: client.get_collection(self.collection))
        kept: Any = info.config.params.vectors
        if getattr(kept, "distance", None) != distance:
            raise StoreError(
                f"{self.connection}: collection {self.collection!r} was made with other settings "
                f"({kept}); set the metric that it has, or name another collection"
            )

    def _ask_create_index(self, name: str, kind: Any) -> None:
        self.connection.ask(
            lambda client: client.create_payload_index(self.collection, name, field_schema=kind)
        )

    def upsert(self, points: Sequence[Any]) -> None:
        self.connection.ask(lambda client: client.upsert(self.collection, list(points)))

    def mark(self, changes: Sequence[tuple[Mapping[str, int], Any]]) -> None:
        """Set fields under `lorebind`, each set on the points of some ids or of a filter."""
        models = qdrant("qdrant_client.models")
        operations = [
            models.SetPayloadOperation(
                set_payload=models.SetPayload(
                    payload=dict(values),
                    key=OURS,
                    **({"points": which} if isinstance(which, list) else {"filter": which}),
                )
            )
            for values, which in changes
        ]
        self.connection.ask(lambda client: client.batch_update_points(self.collection, operations))

    def delete(self, which: Any) -> None:
        """Delete the points of a filter, or those of some ids."""
        self.connection.ask(lambda client: client.delete(self.collection, points_selector=which))

    def delete_ids(self, ids: Sequence[str]) -> None:
        for some in blocks(ids, _PAGE):
            self.delete(some)

    def scroll(self, condition: Any, fields: Sequence[str], size: int = _PAGE) -> Iterator[Any]:
        """Points in the order of their ids, with these fields under `lorebind`."""
        offset = None
        while True:
            found, offset = self._page(condition, fields, size, offset)
            yield from found
            if offset is None:
                return

    def _page(self, condition: Any, fields: Sequence[str], size: int, offset: Any) -> Any:
        return self.connection.ask(
            lambda client: client.scroll(
                self.collection,
                scroll_filter=condition,
                limit=size,
                offset=offset,
                with_payload=[f"{OURS}.{name}" for name in fields],
                **self.connection.reads,
            )
        )

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] = (), *, with_vectors: bool = False
    ) -> Iterator[Any]:
        """The points of these ids that are there, in any order.

        With these fields under `lorebind`; where none is named, with the whole payload.
        """
        wanted: Any = [f"{OURS}.{name}" for name in fields] or True
        for some in blocks(ids, _VECTOR_PAGE if with_vectors else _PAGE):
            yield from self._some(some, wanted, with_vectors)

    def _some(self, ids: list[str], fields: Any, with_vectors: bool) -> list[Any]:
        return self.connection.ask(
            lambda client: client.retrieve(
                self.collection,
                ids,
                with_payload=fields,
                with_vectors=with_vectors,
                **self.connection.reads,
            )
        )

    def query(self, query: Any, conditions: Sequence[Any], limit: int, **more: Any) -> list[Any]:
        """The `limit` best points that meet all conditions, best first."""
        models = qdrant("qdrant_client.models")
        answer = self.connection.ask(
            lambda client: client.query_points(
                self.collection,
                query=query,
                query_filter=models.Filter(must=list(conditions)),
                limit=limit,
                **more,
                **self.connection.reads,
            )
        )
        return list(answer.points)

    def count(self, conditions: Sequence[Any]) -> int:
        models = qdrant("qdrant_client.models")
        meant = models.Filter(must=list(conditions))
        return int(
            self.connection.ask(
                lambda client: client.count(self.collection, count_filter=meant, exact=True)
            ).count
        )

    def facet(self, name: str, conditions: Sequence[Any]) -> dict[str, int]:
        """How many of the points that meet all conditions have each value of a field."""
        models = qdrant("qdrant_client.models")
        meant = models.Filter(must=list(conditions))
        answer = self.connection.ask(
            lambda client: client.facet(
                self.collection,
                key=f"{OURS}.{name}",
                facet_filter=meant,
                limit=_ALL_VALUES,
                exact=True,
            )
        )
        return {str(hit.value): hit.count for hit in answer.hits}


def requests(points: Iterable[Any]) -> Iterator[list[Any]]:
    """Points in parts that a server takes in one request; one by one where one is too big."""
    part: list[Any] = []
    size = 0
    for point in points:
        weight = len(json.dumps(point.payload)) + 24 * len(point.vector[""])
        if part and size + weight > _REQUEST_BYTES:
            yield part
            part, size = [], 0
        part.append(point)
        size += weight
    if part:
        yield part


def blocks(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield list(ids[start : start + size])
