"""What the built-in stores check and copy before they keep a record or answer a search."""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.errors import IndexMismatchError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import Record, SearchOptions, Vector

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Entry(NamedTuple):
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


def entries_of(records: Sequence[Record], dimension: int) -> list[Entry]:
    """Records of one index as they are stored.

    Raises:
        StoreError: naming a record's document and what is wrong with it.
    """
    return [
        Entry(
            record.id,
            record.uri,
            record.generation,
            record.text,
            _checked_metadata(record),
            vector,
            record.context,
        )
        for record, vector in zip(records, _checked_vectors(records, dimension), strict=True)
    ]


def _checked_vectors(records: Sequence[Record], dimension: int) -> list[Vector]:
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinity, and refused as such
        vectors = [np.array(record.vector, dtype="<f4") for record in records]
    for record, vector in zip(records, vectors, strict=True):
        if vector.shape != (dimension,):
            raise StoreError(
                f"{_place(record)}: expected a vector of dimension {dimension}, got {_size(vector)}"
            )
        vector.setflags(write=False)
    # Asked of all together, which is much quicker than of each.
    finite = np.isfinite(vectors).all(axis=-1)
    if not finite.all():
        raise StoreError(
            f"{_place(records[int(finite.argmin())])}: its vector holds NaN or infinity"
        )
    return vectors


def _checked_metadata(record: Record) -> str:
    """The metadata as JSON; the texts of the record are looked at too."""
    try:
        metadata = _JSON.encode(dict(record.metadata))
        for text in (record.id, record.uri, record.text, record.context, metadata):
            text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{_place(record)}: not valid Unicode: {error}") from error
    except (TypeError, ValueError) as error:
        raise StoreError(f"{_place(record)}: metadata holds what JSON cannot: {error}") from error
    return metadata


def _place(record: Record) -> str:
    return f"{named(record.index)}: {record.uri!r}"


def stored_metadata(id_: object, text: object, generation: object, metadata: Any) -> dict[str, Any]:
    """The metadata of a record that is read back.

    Raises:
        TypeError, ValueError: something of the record cannot have been written like that.
    """
    if (type(id_), type(text), type(generation)) != (str, str, int):
        raise TypeError(f"the record {id_!r} has a text or a number that is none")
    read = json.loads(metadata)
    if not isinstance(read, dict):
        raise TypeError(f"the metadata of record {id_!r} is no mapping")
    return read


def check_query(vector: Vector, index: IndexKey, dimension: int) -> None:
    """Refuse a vector that an index cannot be searched with.

    Raises:
        StoreError: it has another dimension, or holds NaN or infinity.
    """
    if vector.shape != (dimension,):
        raise StoreError(
            f"{named(index)}: searched with a vector of dimension {_size(vector)}, "
            f"expected {dimension}; was it made by the embedder of the index? "
            "If so, reindex the knowledge base"
        )
    if not np.isfinite(vector).all():
        raise StoreError(f"{named(index)}: searched with a vector that holds NaN or infinity")


def by_index(records: Sequence[Record]) -> dict[IndexKey, list[Record]]:
    """Records sorted by index; of those with the same identity the last one stays."""
    groups: dict[IndexKey, dict[tuple[str, str, int], Record]] = {}
    for index, some in groupby(records, key=attrgetter("index")):
        unique = groups.setdefault(index, {})
        unique.update(((r.uri, r.id, r.generation), r) for r in some)
    return {index: list(unique.values()) for index, unique in groups.items()}


def _size(vector: Vector) -> str:
    return str(vector.shape[0]) if vector.ndim == 1 else f"shape {vector.shape}"
