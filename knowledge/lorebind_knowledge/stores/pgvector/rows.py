"""Rows of `PgvectorStore`: from a record to what PostgreSQL reads in binary, and back."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.postgres import escaped
from lorebind_knowledge.stores.checks import entries_of
from lorebind_knowledge.stores.matrix import normalised
from lorebind_knowledge.stores.pgvector.filters import comparable
from lorebind_knowledge.stores.pgvector.schema import WRITTEN
from lorebind_knowledge.stores.pgvector.terms import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_knowledge.records import Record, Vector

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""What comes before rows in PostgreSQL's binary format."""
TAIL = b"\xff\xff"
"""What comes after them."""
_COUNT = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_VECTOR_HEAD = struct.Struct(">HH")
_SIZED_VECTOR_HEAD = struct.Struct(">iHH")
_JSONB_VERSION = b"\x01"
_INTEGER = _SIZE.pack(4)
# While PostgreSQL takes in one block, the next is made.
_BLOCK = 125


class Row(NamedTuple):
    """A record as PostgreSQL reads it."""

    version: int
    length: int
    """How many words it has."""
    binary: bytes
    """The columns of `schema.WRITTEN`."""


def rows_of(
    records: Sequence[Record], key: int, dimension: int, versions: Mapping[tuple[str, int], int]
) -> Iterator[list[Row]]:
    """Records of one index as rows, made a block at a time as they are asked for.

    Args:
        records: of one index.
        key: that index's.
        dimension: of its vectors.
        versions: by uri and generation.

    Raises:
        StoreError: naming the document of a record that cannot be stored.
    """
    owner, number = records[0].index.namespace, records[0].index.number
    names = [_text(name) for name in (owner.tenant, owner.project, owner.scope, owner.kb)]
    # Columns that follow each other and are the same for all, or for all of a document.
    of_all = b"".join([*names, _sized(_SIZE.pack(number))])
    of_doc = {
        (uri, generation): _text(uri) + _bigints(generation, version, key)
        for (uri, generation), version in versions.items()
    }
    begin, size = _COUNT.pack(len(WRITTEN)), _SIZE.pack
    for start in range(0, len(records), _BLOCK):
        entries = entries_of(records[start : start + _BLOCK], dimension)
        vectors = _binaries(np.stack([entry.vector for entry in entries]))
        words = words_of(key, [entry.searched for entry in entries])
        rows = []
        for entry, vector, (terms, times, length) in zip(entries, vectors, words, strict=True):
            document = entry.uri, entry.generation
            metadata, fields = entry.metadata.encode(), comparable(entry.metadata).encode()
            columns = (
                begin,
                _text(entry.text),
                vector,
                size(len(metadata)),
                metadata,
                _text(entry.id),
                of_all,
                of_doc[document],
                size(len(fields) + 1),
                _JSONB_VERSION,
                fields,
                size(len(terms)),
                terms,
                size(len(times)),
                times,
                _INTEGER,
                size(length),
            )
            rows.append(Row(versions[document], length, b"".join(columns)))
        yield rows


def vector_text(vector: Vector) -> str:
    """A vector as pgvector reads it in a statement."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def vector_of(binary: bytes) -> Vector:
    """A vector from what `vector_send` gives."""
    return np.frombuffer(binary, ">f4", offset=_VECTOR_HEAD.size).astype(np.float32)


def _sized(value: bytes) -> bytes:
    return _SIZE.pack(len(value)) + value


def _text(value: str) -> bytes:
    return _sized(escaped(value).encode())


def _bigints(*values: int) -> bytes:
    return b"".join(_sized(value.to_bytes(8, "big", signed=True)) for value in values)


def _binaries(vectors: Vector) -> Iterator[bytes]:
    """Vectors at length 1, as pgvector reads them in binary, with their size in front."""
    count, dimension = vectors.shape
    unit = normalised(vectors.astype(np.float64)).astype(">f4")
    head = _SIZED_VECTOR_HEAD.pack(_VECTOR_HEAD.size + 4 * dimension, dimension, 0)
    rows = np.empty((count, len(head) + 4 * dimension), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rows[:, len(head) :] = unit.view(np.uint8).reshape(count, -1)
    return (row.tobytes() for row in rows)
