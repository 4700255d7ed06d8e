"""Rows of `PgvectorStore` in PostgreSQL's binary format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.postgres.rows import bigint
from lorebind_knowledge.stores.matrix import stacked
from lorebind_knowledge.stores.pgvector.filters import as_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Space, Vector
    from lorebind_knowledge.stores.base import StoredVector

_JSONB_VERSION = b"\x01"


def rows_of(space: Space, vectors: Sequence[StoredVector]) -> list[tuple[bytes, ...]]:
    """Rows of the columns `space`, `number`, `embedding` and `fields`.

    Raises:
        StoreError: a vector has another dimension, or metadata that JSON cannot hold.
    """
    packed = _packed(space, vectors)
    birth = bigint(space.birth)
    rows: list[tuple[bytes, ...]] = []
    for vector, one in zip(packed, vectors, strict=True):
        try:
            fields = as_fields(one.metadata).encode()
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{space}: the metadata of vector {one.number} is not JSON: {error}"
            ) from error
        rows.append((birth, bigint(one.number), vector.tobytes(), _JSONB_VERSION + fields))
    return rows


def _packed(space: Space, vectors: Sequence[StoredVector]) -> NDArray[np.void]:
    packed = np.zeros(len(vectors), _kind(space.dimension))
    packed["dimension"] = space.dimension
    packed["values"] = stacked(space, vectors)
    return packed


def vectors_of(values: Sequence[bytes], dimension: int) -> Matrix:
    """Vectors from their binary format."""
    matrix: Matrix = np.frombuffer(b"".join(values), _kind(dimension))["values"].astype(np.float32)
    return matrix


def vector_text(vector: Vector) -> str:
    """A vector as pgvector reads it in a statement."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def _kind(dimension: int) -> np.dtype[np.void]:
    return np.dtype([("dimension", ">u2"), ("unused", ">u2"), ("values", ">f4", (dimension,))])
