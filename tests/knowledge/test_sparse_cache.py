"""The embedding cache with sparse vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.catalog.embedding_cache import _SPARSE, EmbeddingCache
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import Database, EmbeddedDatabase, PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.records import IDS_END, SparseVector

from .bench import CountingEmbedder, fail_at
from .sparse_words import SparseWords


@pytest.fixture(params=["memory", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    base: Database
    if request.param == "postgres":
        base = PostgresDatabase(PostgresAddress(request.getfixturevalue("dsn")), CATALOG)
    else:
        base = EmbeddedDatabase(tmp_path / "x.db", CATALOG)
    yield base
    base.close()


async def test_a_text_is_embedded_once(database: Database) -> None:
    """The second call gets identical vectors from the cache, in the requested order."""
    cache, embedder = EmbeddingCache(database), SparseWords()
    first, new, hits = await cache.embed_sparse(embedder, ["a long text", "", "a long text"])
    assert (new, hits) == (2, 1)
    wrapped = EmbedderWrapper(embedder)
    second, new, hits = await cache.embed_sparse(wrapped, ["", "other", "a long text"])
    assert (new, hits) == (1, 2)
    assert embedder.batches == [["a long text", ""], ["other"]]
    assert first[0].weights.tolist() == [2, 2, 2]
    for cached, fresh in [(second[0], first[1]), (second[2], first[0])]:
        np.testing.assert_array_equal(cached.ids, fresh.ids)
        np.testing.assert_array_equal(cached.weights, fresh.weights)
        assert (cached.ids.dtype, cached.weights.dtype) == (np.int64, np.float32)
    assert cache.missing(embedder, ["other"]) == {}
    assert await cache.embed_sparse(embedder, []) == ([], 0, 0)


async def test_kinds_do_not_share(database: Database) -> None:
    """A dense embedder with the same fingerprint has vectors of its own."""

    class Dense(CountingEmbedder):
        @property
        def fingerprint(self) -> Fingerprint:
            return Fingerprint("words", "sparse", "1")

    cache, dense, sparse = EmbeddingCache(database), Dense(), SparseWords()
    assert dense.fingerprint == sparse.fingerprint
    await cache.embed(dense, ["a"])
    assert len(cache.missing(sparse, ["a"])) == 1
    await cache.embed_sparse(sparse, ["a"])
    assert (await cache.embed(dense, ["a"])).cache_hits == 1
    assert (await cache.embed_sparse(sparse, ["a"]))[2] == 1


async def test_concurrent_calls(database: Database) -> None:
    """A text that another call is embedding is not embedded again."""
    cache, embedder = EmbeddingCache(database), SparseWords()
    texts = [f"text {number}" for number in range(50)]
    await asyncio.gather(*(cache.embed_sparse(embedder, texts[at:]) for at in range(5)))
    embedded = [text for batch in embedder.batches for text in batch]
    assert sorted(embedded) == sorted(texts)


async def test_a_failure_stores_nothing(database: Database) -> None:
    """A batch whose embedder fails is not cached."""
    cache, embedder = EmbeddingCache(database), SparseWords()
    embedder.before_batch = fail_at(1)
    with pytest.raises(EmbedderError, match="down"):
        await cache.embed_sparse(embedder, ["a"])
    assert len(cache.missing(embedder, ["a"])) == 1


async def test_both_kinds_are_evicted(database: Database) -> None:
    """The limit counts the vectors of both kinds, and the least recently used one goes first."""
    times = iter(range(100))
    cache = EmbeddingCache(database, 16, lambda: float(next(times)))
    await cache.embed(CountingEmbedder(), ["a"])
    await cache.embed_sparse(SparseWords(), ["two words"])
    assert await cache.trim() == 1
    assert len(cache.missing(CountingEmbedder(), ["a"])) == 1
    assert cache.missing(SparseWords(), ["two words"]) == {}


@pytest.mark.parametrize("blob", [b"123456789", b"\x01\0\0\0", b"\x01\0\0\0\0\0\xc0\x7f"])
async def test_a_damaged_vector(database: Database, blob: bytes) -> None:
    """A damaged vector counts as missing: its text is embedded again, and the row replaced."""
    cache, embedder = EmbeddingCache(database), SparseWords()
    (first,), *_ = await cache.embed_sparse(embedder, ["a text"])
    with database.writing() as sql:
        sql.run(
            "update catalog_embeddings set vector = :blob, size = :size", blob=blob, size=len(blob)
        )
    for expected in [(1, 0), (0, 1)]:
        (again,), *counts = await cache.embed_sparse(embedder, ["a text"])
        assert tuple(counts) == expected
        np.testing.assert_array_equal(again.ids, first.ids)


@given(
    st.dictionaries(
        st.integers(0, IDS_END - 1),
        st.floats(0, exclude_min=True, width=32, allow_infinity=False, allow_nan=False),
    )
)
def test_any_vector(weights: dict[int, float]) -> None:
    """Any stored vector is read unchanged; a blob that is cut is damaged."""
    ids = sorted(weights)
    vector = SparseVector(
        np.array(ids, np.int64), np.array([weights[number] for number in ids], np.float32)
    )
    blob = _SPARSE.encode(vector)
    decoded = _SPARSE.decode(blob)
    assert len(blob) == 8 * len(ids)
    assert decoded is not None
    np.testing.assert_array_equal(decoded.ids, vector.ids)
    np.testing.assert_array_equal(decoded.weights, vector.weights)
    assert not ids or _SPARSE.decode(blob[:-1]) is None


@pytest.mark.parametrize(
    ("ids", "weights"),
    [
        ([2, 1], [1.0, 1.0]),
        ([1, 1], [1.0, 1.0]),
        ([IDS_END], [1.0]),
        ([1], [0.0]),
        ([1], [np.inf]),
        ([1], [np.nan]),
    ],
)
def test_what_no_vector_is(ids: list[int], weights: list[float]) -> None:
    """Bytes of the right length that describe no valid vector are damaged."""
    vector = SparseVector(np.array(ids, np.int64), np.array(weights, np.float32))
    assert _SPARSE.decode(_SPARSE.encode(vector)) is None
