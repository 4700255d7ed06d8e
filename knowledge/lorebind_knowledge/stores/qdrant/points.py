"""How a vector is kept in Qdrant: the point's id and payload, and how it is read back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.stores.qdrant.filters import FACTS, facts
from lorebind_knowledge.stores.qdrant.local_mode import qdrant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lorebind_knowledge.records import Matrix, Space
    from lorebind_knowledge.stores.base import StoredVector

SPACE = "space"
ZERO = "zero"
"""The fact that a vector has the length 0."""

_REQUEST_BYTES = 16 * 2**20
"""Half of what a server takes by default."""
_FLOAT_BYTES = 24
_FACT_BYTES = 28


def make_point(space: Space, stored: StoredVector) -> Any:
    known = facts(stored.metadata)
    if not stored.vector.any():
        known.append(ZERO)
    return qdrant("qdrant_client.models").PointStruct(
        id=_id(space, stored.number),
        vector=stored.vector.tolist(),
        payload={SPACE: space.name, FACTS: known},
    )


def number_of(point: Any) -> int:
    return uuid.UUID(point.id).int & (2**64 - 1)


def vectors_of(space: Space, points: list[Any]) -> Matrix:
    vectors = np.array([point.vector for point in points], np.float32)
    return vectors.reshape(len(points), space.dimension)


def ids(space: Space, numbers: Collection[int], size: int) -> Iterator[list[str]]:
    """The ids of points, in parts of this size."""
    every = [_id(space, number) for number in numbers]
    for start in range(0, len(every), size):
        yield every[start : start + size]


def requests(points: Iterable[Any]) -> Iterator[list[Any]]:
    """Points in parts that a server takes in one request."""
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


def _id(space: Space, number: int) -> str:
    """Qdrant takes no text but a UUID: one half is the space, the other the number."""
    return str(uuid.UUID(int=space.birth << 64 | number))
