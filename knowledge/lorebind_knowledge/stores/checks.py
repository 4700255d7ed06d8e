"""What the built-in stores check and copy before they keep a record or answer a search."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.errors import IndexMismatchError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.records import Record, SearchOptions, Vector
    from lorebind_knowledge.scope import IndexKey


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A record that was found fit to be stored, with copies of what its caller could change."""

    id: str
    uri: str
    generation: int
    text: str
    metadata: str
    """As JSON."""
    vector: Vector
    """Little-endian float32, read-only."""
    context: str = ""

    @property
    def searched(self) -> str:
        """The words that a lexical search looks through."""
        return f"{self.context}\n{self.text}"


def named(index: IndexKey) -> str:
    """How messages call an index."""
    owner = index.namespace
    return f"index {owner.tenant}/{owner.project}/{owner.scope}/{owner.kb} #{index.number}"


def not_opened(index: IndexKey, store: object) -> StoreError:
    return StoreError(
        f"{named(index)} is not in the {store}: nothing has been ingested into it yet"
    )


def check_dimension(index: IndexKey, stored: int, asked: int) -> None:
    if stored != asked:
        raise IndexMismatchError(
            f"{named(index)} was built for vectors of dimension {stored}, "
            f"and the embedder now gives {asked}; reindex the knowledge base"
        )


def check_room(index: IndexKey, dimension: int) -> None:
    if dimension < 1:
        raise UsageError(f"{named(index)} cannot have the dimension {dimension}")


def check_options(options: SearchOptions) -> None:
    if options.top_k < 1:
        raise UsageError(f"top_k is at least 1, not {options.top_k}")


def entry_of(record: Record, dimension: int) -> Entry:
    """A record as it is stored.

    Raises:
        StoreError: naming the record's document and what is wrong with it.
    """
    where = f"{named(record.index)}: {record.uri!r}"
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinity, and refused as such
        vector = np.array(record.vector, dtype="<f4")
    if vector.shape != (dimension,):
        raise StoreError(
            f"{where}: expected a vector of dimension {dimension}, got {_size(vector)}"
        )
    if not np.isfinite(vector).all():
        raise StoreError(f"{where}: its vector holds NaN or infinity")
    vector.setflags(write=False)
    metadata = _json(record, where)
    for text in (record.id, record.uri, record.text, record.context, metadata):
        _check_utf8(text, where)
    return Entry(
        record.id,
        record.uri,
        record.generation,
        record.text,
        metadata,
        vector,
        record.context,
    )


def check_query(vector: Vector, index: IndexKey, dimension: int) -> None:
    """Refuse a vector that an index cannot be searched with.

    Raises:
        StoreError: it has another dimension, or holds NaN or infinity.
    """
    if vector.shape != (dimension,):
        raise StoreError(
            f"{named(index)}: searched with a vector of dimension {_size(vector)}, "
            f"expected {dimension}; was it made by the embedder of the index?"
        )
    if not np.isfinite(vector).all():
        raise StoreError(f"{named(index)}: searched with a vector that holds NaN or infinity")


def by_index(records: Sequence[Record]) -> dict[IndexKey, list[Record]]:
    """Records sorted by index; of those with the same identity the last one stays."""
    unique = {(r.index, r.uri, r.id, r.generation): r for r in records}
    groups: dict[IndexKey, list[Record]] = {}
    for record in unique.values():
        groups.setdefault(record.index, []).append(record)
    return groups


def _json(record: Record, where: str) -> str:
    try:
        return json.dumps(dict(record.metadata), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{where}: metadata holds what JSON cannot: {error}") from error


def _check_utf8(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{where}: not valid Unicode: {error}") from error


def _size(vector: Vector) -> str:
    return str(vector.shape[0]) if vector.ndim == 1 else f"shape {vector.shape}"
