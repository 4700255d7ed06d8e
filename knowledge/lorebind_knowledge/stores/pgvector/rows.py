"""Rows of `PgvectorStore`: from a record to what PostgreSQL reads in binary, and back."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.stores.checks import entry_of
from lorebind_knowledge.stores.matrix import unit_vector
from lorebind_knowledge.stores.pgvector.filters import comparable
from lorebind_knowledge.stores.pgvector.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind_knowledge.records import Record, Vector

# By the columns of `pgvector_schema`; bytes are handed on as they are.
TYPES = (
    *("text", "text", "bytea", "bytea"),
    *("text", "text", "text", "text", "int4", "text", "int8", "int8"),
    *("bytea", "bytea", "int4"),
)
_VECTOR_HEAD = struct.Struct(">HH")
_JSONB_VERSION = b"\x01"


def rows_of(records: Sequence[Record], key: int, dimension: int) -> list[tuple[Any, ...]]:
    """Records of one index as rows.

    Raises:
        StoreError: naming the document of a record that cannot be stored.
    """
    entries = [entry_of(record, dimension) for record in records]
    counted = count_terms([entry.searched for entry in entries])
    owner, number = records[0].index.namespace, records[0].index.number
    names = (owner.tenant, owner.project, owner.scope, owner.kb, number)
    return [
        (
            entry.id,
            entry.text,
            _binary(unit_vector(entry.vector)),
            entry.metadata.encode(),
            *names,
            entry.uri,
            entry.generation,
            key,
            _JSONB_VERSION + comparable(entry.metadata).encode(),
            _JSONB_VERSION + _json_counts(scoped(key, words), words.values()),
            words.total(),
        )
        for entry, words in zip(entries, counted, strict=True)
    ]


def scoped(key: int, words: Iterable[str]) -> list[str]:
    """Words as they are kept: those of one index are none of another's."""
    return [f"{key}:{word}" for word in words]


def vector_text(vector: Vector) -> str:
    """A vector as pgvector reads it in a statement."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def vector_of(binary: bytes) -> Vector:
    """A vector from what `vector_send` gives."""
    return np.frombuffer(binary, ">f4", offset=_VECTOR_HEAD.size).astype(np.float32)


def _binary(vector: Vector) -> bytes:
    return _VECTOR_HEAD.pack(len(vector), 0) + vector.astype(">f4").tobytes()


def _json_counts(words: Iterable[str], counts: Iterable[int]) -> bytes:
    # Words of FTS5 hold no quote, backslash or control character.
    pairs = ",".join(f'"{word}":{count}' for word, count in zip(words, counts, strict=True))
    return f"{{{pairs}}}".encode()
