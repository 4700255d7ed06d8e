"""Rows of `PgvectorStore` in PostgreSQL's binary format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.postgres.binary_copy import sized
from lorebind_knowledge.stores.pgvector.filters import as_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Space, Vector
    from lorebind_knowledge.stores.base import StoredVector

_JSONB_VERSION = b"\x01"


def rows_of(space: Space, vectors: Sequence[StoredVector]) -> Iterator[bytes]:
    """Rows of the columns `space`, `number`, `embedding` and `fields`.

    Raises:
        StoreError: a vector has another dimension, or metadata that JSON cannot hold.
    """
    for row, one in zip(_without_fields(space, vectors), vectors, strict=True):
        try:
            fields = as_fields(one.metadata).encode()
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{space}: the metadata of vector {one.number} is not JSON: {error}"
            ) from error
        yield row.tobytes() + sized(_JSONB_VERSION + fields)


def _without_fields(space: Space, vectors: Sequence[StoredVector]) -> NDArray[np.void]:
    """Each row up to its last column; a value is preceded by its size."""
    for one in vectors:
        if one.vector.shape != (space.dimension,):
            raise StoreError(
                f"{space}: vector {one.number} has the shape {one.vector.shape}, "
                f"expected the dimension {space.dimension}"
            )
    head = [("columns", ">i2")]
    key = [("space_size", ">i4"), ("space", ">i8"), ("number_size", ">i4"), ("number", ">i8")]
    rows = np.zeros(
        len(vectors), [*head, *key, ("vector_size", ">i4"), ("vector", _kind(space.dimension))]
    )
    rows["columns"] = 4
    rows["space_size"] = rows["number_size"] = 8
    rows["space"] = space.birth
    rows["number"] = [one.number for one in vectors]
    rows["vector_size"] = rows["vector"].itemsize
    rows["vector"]["dimension"] = space.dimension
    rows["vector"]["values"] = [one.vector for one in vectors]
    return rows


def vectors_of(values: Sequence[bytes], dimension: int) -> Matrix:
    """Vectors from their binary format."""
    matrix: Matrix = np.frombuffer(b"".join(values), _kind(dimension))["values"].astype(np.float32)
    return matrix


def vector_text(vector: Vector) -> str:
    """A vector as pgvector reads it in a statement."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def _kind(dimension: int) -> np.dtype[np.void]:
    return np.dtype([("dimension", ">u2"), ("unused", ">u2"), ("values", ">f4", (dimension,))])
