"""Chunks in the form in which the catalog stores them: validated copies of the caller's records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from lorebind_config.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.records import Matrix, Partition, Record, Vector

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Entry(NamedTuple):
    """A validated chunk of one index."""

    id: str
    uri: str
    generation: int
    text: str
    context: str
    language: str
    metadata: str
    """The metadata as JSON."""
    vector: Vector
    """The vector: float32, of length 1 or 0, read-only."""
    terms: bytes | None
    """The encoded terms, see `StoredTerms`; None without a sparse embedder."""


def entries_of(records: Sequence[Record], space: Partition) -> list[Entry]:
    """Validate and copy records of one index; of records with the same identity, use the last.

    Raises:
        StoreError: a record is invalid. The message names the index, the record's document and the
            problem.
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
            _encoded_terms(record),
        )
        for record, vector in zip(unique, _checked_vectors(unique, space), strict=True)
    ]


def _encoded_terms(record: Record) -> bytes | None:
    if record.terms is None:
        return None
    from lorebind_knowledge.catalog.terms import StoredTerms

    return StoredTerms.of(record.terms).encode()


def unit_vector(vector: Vector) -> Vector:
    """Scale a vector to length 1, in float32. A vector of length 0 stays as it is."""
    unit: Vector = unit_vectors(vector[None])[0]
    return unit


def _checked_vectors(records: Sequence[Record], space: Partition) -> list[Vector]:
    import numpy as np

    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused below
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
    # One matrix, because checking vectors one by one is much slower.
    matrix = np.stack(vectors)
    finite = np.isfinite(matrix).all(axis=-1)
    if not finite.all():
        uri = records[int(finite.argmin())].uri
        raise StoreError(f"{space}: {uri!r}: its vector holds NaN or infinity")
    unit = unit_vectors(matrix)
    unit.setflags(write=False)
    return list(unit)


def unit_vectors(matrix: Matrix) -> Matrix:
    """Scale each row of a matrix as `unit_vector` does."""
    import numpy as np

    wide = matrix.astype(np.float64)
    length = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
    length[length == 0] = 1
    unit: Matrix = (wide / length).astype(np.float32)
    return unit


def _checked_metadata(record: Record, space: Partition) -> str:
    """Return the metadata as JSON, after checking that all texts of the record are valid."""
    try:
        metadata = _JSON.encode(dict(record.metadata))
        for text in (record.id, record.uri, record.text, record.context, metadata):
            text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{space}: {record.uri!r}: not valid Unicode: {error}") from error
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{space}: {record.uri!r}: metadata holds a value that JSON cannot represent: {error}"
        ) from error
    return metadata
