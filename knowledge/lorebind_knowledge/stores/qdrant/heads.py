"""What is known of each index: its dimension, the version that readers go by, and its totals.

Heads stand in a collection of their own, one point each. Writing one point is the one thing that
Qdrant does atomically, and so the moment at which a change of any size becomes visible.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.stores.qdrant.connection import (
    collection_is_missing,
    make_collection,
    qdrant,
)

if TYPE_CHECKING:
    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.stores.qdrant.connection import QdrantConnection


@dataclass(frozen=True, slots=True)
class Head:
    """An index at one version."""

    dimension: int
    birth: str
    """A random name: an index that was dropped and opened again is another index."""
    metric: str = "cosine"
    """What its collection orders by."""
    version: int = 0
    """Counts the changes to what is published."""
    pending: bool = False
    """Whether the next version was begun; if nobody is at it, it was cut off."""
    dropped: bool = False
    """Whether removing the index was begun; it counts as gone."""
    records: int = 0
    """How many are published."""
    tokens: int = 0
    """How many words those hold, for BM25."""
    usual_tokens: float = 0.0
    """Of one record, as known when the first was staged; fixed since. 0 until then."""


_FIELDS = {field.name for field in fields(Head)}


class Heads:
    """The heads of all indexes of one store."""

    def __init__(self, connection: QdrantConnection, collection: str) -> None:
        self._connection = connection
        self._collection = collection

    def make(self) -> None:
        """Make the collection of the heads, unless it is there."""
        models = qdrant("qdrant_client.models")
        # Not every version of Qdrant takes a collection without vectors.
        nothing = models.VectorParams(size=1, distance=models.Distance.DOT)
        make_collection(self._connection, self._collection, vectors_config=nothing)

    def find(self, index: IndexKey) -> Head | None:
        """The head as it is now, None for an index that is not there."""
        head = self.find_any(index)
        return None if head is None or head.dropped else head

    def find_any(self, index: IndexKey) -> Head | None:
        """The same, with an index whose removal was cut off."""
        if not self._connection.exists:
            return None
        payload = self._read(index)
        if payload is None:
            return None
        return Head(**{name: value for name, value in payload.items() if name in _FIELDS})

    def put(self, index: IndexKey, head: Head) -> None:
        models = qdrant("qdrant_client.models")
        owner = index.namespace
        names = {
            "tenant": owner.tenant,
            "project": owner.project,
            "scope": owner.scope,
            "kb": owner.kb,
            "number": index.number,
        }
        point = models.PointStruct(id=_id(index), vector=[0.0], payload=names | asdict(head))
        self._connection.ask(lambda client: client.upsert(self._collection, [point]))

    def remove(self, index: IndexKey) -> None:
        self._connection.ask(
            lambda client: client.delete(self._collection, points_selector=[_id(index)])
        )

    def _read(self, index: IndexKey) -> dict[str, Any] | None:
        try:
            found = self._connection.ask(
                lambda client: client.retrieve(
                    self._collection, [_id(index)], with_payload=True, **self._connection.reads
                )
            )
        except StoreError as error:
            if collection_is_missing(error):  # nothing has ever been ingested
                return None
            raise
        return found[0].payload if found else None


def _id(index: IndexKey) -> str:
    owner = index.namespace
    names = (owner.tenant, owner.project, owner.scope, owner.kb, str(index.number))
    return str(uuid.UUID(hex=digest(*names)[:32]))
