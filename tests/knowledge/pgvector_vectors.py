"""Vectors for the PostgreSQL store, and what its tables hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg

from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector.store import PgvectorStore

INDEX = IndexKey(Namespace("acme", "support", "project", "handbook"))
SPACE = Partition(INDEX, 2**62 - 1, 4)
OTHER = Partition(INDEX, 77, 4)
EAST = np.array([1, 0, 0, 0], np.float32)


def stored(number: int, vector: np.ndarray = EAST, **metadata: Any) -> StoredVector:
    return StoredVector(number, vector, "", metadata)


def hits(store: PgvectorStore, space: Partition = SPACE, k: int = 100, **where: Any) -> list[int]:
    vector = np.eye(1, space.dimension, dtype=np.float32)[0]
    return list(store.nearest(space, vector, k, where, None).numbers)


def unit(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    rows = rng.standard_normal((count, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def indexes(db: psycopg.Connection) -> dict[str, bool]:
    """Return the approximate indexes, each with whether it is valid."""
    query = """select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = indexrelid
        join pg_am a on a.oid = c.relam where indrelid = to_regclass('knowledge_chunks_vectors')
        and amname in ('hnsw', 'ivfflat')"""
    return dict(db.execute(query).fetchall())
