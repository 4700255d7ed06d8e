"""Chunks as the catalog keeps them: checked, and copied from what their caller could change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.records import Record, Space, Vector

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Entry(NamedTuple):
    """A chunk of one index that was found fit to be kept."""

    id: str
    uri: str
    generation: int
    text: str
    context: str
    language: str
    metadata: str
    """As JSON."""
    vector: Vector
    """float32, of length 1 or of length 0, read-only."""


def entries_of(records: Sequence[Record], space: Space) -> list[Entry]:
    """Records of one index as they are kept; of those with the same identity the last one.

    Raises:
        StoreError: naming the index, a record's document and what is wrong with it.
    """
    unique = list({(r.uri, r.id, r.generation): r for r in records}.values())
    return [
        Entry(
            record.id,
            record.uri,
            record.generation,
            record.text,
            record.context,
            record.language,
            _checked_metadata(record, space),
            vector,
        )
        for record, vector in zip(unique, _checked_vectors(unique, space), strict=True)
    ]


def unit_vector(vector: Vector) -> Vector:
    """A vector at length 1 in float32; one of length 0 stays."""
    unit: Vector = _normalised(vector[None])[0]
    return unit


def _checked_vectors(records: Sequence[Record], space: Space) -> list[Vector]:
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinity, and refused as such
        vectors = [np.asarray(record.vector, dtype=np.float32) for record in records]
    for record, vector in zip(records, vectors, strict=True):
        if vector.shape != (space.dimension,):
            size = str(vector.shape[0]) if vector.ndim == 1 else f"shape {vector.shape}"
            raise StoreError(
                f"{space}: {record.uri!r}: expected a vector of dimension {space.dimension}, "
                f"got {size}"
            )
    if not vectors:
        return []
    # Together, which is much quicker than one by one.
    matrix = np.stack(vectors)
    finite = np.isfinite(matrix).all(axis=-1)
    if not finite.all():
        uri = records[int(finite.argmin())].uri
        raise StoreError(f"{space}: {uri!r}: its vector holds NaN or infinity")
    unit = _normalised(matrix)
    unit.setflags(write=False)
    return list(unit)


def _normalised(matrix: Any) -> Any:
    wide = matrix.astype(np.float64)
    length = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
    length[length == 0] = 1
    return (wide / length).astype(np.float32)


def _checked_metadata(record: Record, space: Space) -> str:
    """The metadata as JSON; the texts of the record are looked at too."""
    try:
        metadata = _JSON.encode(dict(record.metadata))
        for text in (record.id, record.uri, record.text, record.context, metadata):
            text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{space}: {record.uri!r}: not valid Unicode: {error}") from error
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{space}: {record.uri!r}: metadata holds what JSON cannot: {error}"
        ) from error
    return metadata
