"""Data for the conformance tests of stores, and a driver for sync and async stores."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lorebind_config.filters import resolved
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Vector
    from lorebind_knowledge.stores.base import SearchHits, VectorStore

INDEX = IndexKey(Namespace("acme", "support", "project", "handbook"))
DIMENSION = 4
TOLERANCE = 1e-5
"""Larger than float32's error in a product of unit vectors."""

SHELF: dict[str, dict[str, Any]] = {
    "a": {"lang": "en", "year": 2020, "tags": ["x", "y"], "draft": True},
    "b": {"lang": "de", "year": 2022.5, "tags": ["y"], "draft": False},
    "c": {"lang": "en", "year": "2021", "tags": [], "draft": None},
    "d": {"lang": "fr", "year": 1, "tags": "x"},
    "e": {"lang": "Ünïcode 漢字 🜚", "year": -3, "tags": [1, "1", True, None]},
    "f": {"lang": "", "year": 2**53, "a.b": "dot", 'it\'s "quoted"': 1},
    "g": {"lang": ["en", "de"], "year": None, "tags": {"nested": {"x": 1}}},
    "h": {"lang": True, "year": 0, "draft": 0},
    "i": {},
}
"""Metadata of passages, by their ids."""
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdefghi"),
    ({"lang": "en"}, "acg"),
    ({"lang": "EN"}, ""),
    ({"lang": ""}, "f"),
    ({"lang": "Ünïcode 漢字 🜚"}, "e"),
    ({"lang": ["de", "fr"]}, "bdg"),
    ({"lang": []}, ""),
    ({"lang": "en", "year": 2020}, "a"),
    ({"tags": "x"}, "ad"),
    ({"tags": ["x", "y"]}, "abd"),
    ({"tags": 1}, "e"),
    ({"tags": True}, "e"),
    ({"tags": None}, "e"),
    ({"tags": ["x", 1, None]}, "ade"),
    ({"year": 2020.0}, "a"),
    ({"year": "2020"}, ""),
    ({"year": True}, ""),
    ({"year": 2**53}, "f"),
    ({"draft": True}, "a"),
    ({"draft": 1}, ""),
    ({"draft": 0}, "h"),
    ({"draft": None}, "c"),
    ({"a.b": "dot"}, "f"),
    ({'it\'s "quoted"': 1}, "f"),
    ({"lang": {"$eq": "en"}}, "acg"),
    ({"lang": {"$ne": "en"}}, "bdefhi"),
    ({"draft": {"$ne": True}}, "bcdefghi"),
    ({"draft": {"$ne": None}}, "abdefghi"),
    ({"tags": {"$ne": "x"}}, "bcefghi"),
    ({"lang": {"$in": ["en", "xx", None]}}, "acg"),
    ({"lang": {"$nin": ["en", "de"]}}, "defhi"),
    ({"draft": {"$nin": [True]}}, "bcdefghi"),
    ({"lang": {"$nin": []}}, "abcdefghi"),
    ({"tags": {"$nin": ["x", 1]}}, "bcfghi"),
    ({"year": {"$gt": 2000}}, "abf"),
    ({"year": {"$gte": 2020, "$lt": 2022.5}}, "a"),
    ({"year": {"$lte": 2020}}, "adeh"),
    ({"year": {"$gt": "2020"}}, "c"),
    ({"lang": {"$gte": "de", "$lt": "fr"}}, "abc"),
    ({"draft": {"$gte": 0}}, "h"),
    ({"tags": {"$gt": "a"}}, "d"),
    ({"missing": {"$lt": 5}}, ""),
    ({"missing": {"$ne": 5}}, "abcdefghi"),
    ({"missing": {"$in": [None]}}, ""),
    ({"draft": {"$exists": True}}, "abch"),
    ({"draft": {"$exists": False}}, "defgi"),
    ({"year": {"$exists": True, "$gt": 0}}, "abdf"),
    ({"$and": [{"lang": "en"}, {"tags": "x"}]}, "a"),
    ({"$and": [{"$or": [{"lang": "en"}, {"year": 1}]}, {"$not": {"draft": None}}]}, "adg"),
    ({"$or": [{"lang": "de"}, {"year": 1}]}, "bdg"),
    ({"$or": [{"lang": []}, {"tags": {"$exists": False}}]}, "fhi"),
    ({"$not": {"lang": "en"}}, "bdefhi"),
    ({"$not": {"year": {"$gt": 0}}}, "ceghi"),
    ({"$not": {"$not": {"tags": "x"}}}, "ad"),
    ({"$not": {"$or": [{"lang": "en"}, {"tags": {"$ne": "y"}}]}}, "b"),
    ({"$not": {"$and": [{"draft": {"$exists": True}}, {"year": {"$lte": 2022.5}}]}}, "cdefgi"),
    ({"lang": "en", "$or": [{"draft": True}, {"draft": {"$exists": False}}]}, "ag"),
    ({"lang": {"$in": ["en", "xx"]}}, "acg"),
]
"""Metadata filters, each with the ids of the passages that pass it."""
CALENDAR: dict[str, dict[str, Any]] = {
    "a": {"on": "2026-01-31", "price": 2.5},
    "b": {"on": "2026-01-31T23:59:59Z", "price": 2.5000001},
    "c": {"on": "2026-02-01T00:00:00Z", "price": -0.0},
    "d": {"on": "2019-12-31", "price": -(10**400)},
    "e": {"on": "9999-12-31", "price": 2**53 + 1},
    "f": {"on": "soon", "price": "2.5"},
    "g": {"on": ["2026-02-01", "x"], "price": -1e-300},
    "h": {"on": 20260201, "price": 1e300},
    "i": {"on": "2026-02-01", "price": True},
    "j": {"price": [2.5]},
}
"""Metadata with dates and numbers, by the ids of passages."""
RANGES: list[tuple[dict[str, Any], str]] = [
    ({"on": {"$gte": "2026-01-31"}}, "abcei"),
    ({"on": {"$gt": "2026-01-31"}}, "cei"),
    ({"on": {"$lt": "2026-01-31"}}, "d"),
    ({"on": {"$lte": "2026-01-31"}}, "abd"),
    ({"on": {"$gte": datetime.date(2026, 1, 1), "$lte": datetime.date(2026, 1, 31)}}, "ab"),
    ({"on": {"$lt": "2026-02-01T00:00:00Z"}}, "abd"),
    ({"on": {"$gte": "2026-02-01 01:00+01:00"}}, "cei"),
    ({"on": {"$gt": "2026-02-01T00:00Z"}}, "e"),
    ({"on": {"$lte": "2026-01-31T23:59:59.9Z"}}, "abd"),
    ({"on": "2026-02-01"}, "gi"),
    ({"on": "2026-02-01T01:00:00+01:00"}, "c"),
    ({"on": ["2026-02-01T01:00:00+01:00", datetime.date(2026, 2, 1)]}, "cgi"),
    ({"on": {"$ne": "2026-02-01 00:00"}}, "abdefghij"),
    ({"$not": {"on": {"$gte": "2020-01-01"}}}, "dfghj"),
    ({"on": {"$gte": "2026"}}, "abcefi"),
    ({"on": {"$lt": "3"}}, "abcdi"),
    ({"on": {"$newer_than": "1h"}}, "e"),
    ({"on": {"$older_than": "999999y"}}, ""),
    ({"on": {"$older_than": "1h", "$lt": "2020-01-01"}}, "d"),
    ({"on": {"$newer_than": "99y", "$gte": "9999-01-01"}}, "e"),
    ({"price": {"$gte": 2.5}}, "abeh"),
    ({"price": {"$gt": 2.5}}, "beh"),
    ({"price": {"$lte": 0}}, "cdg"),
    ({"price": {"$lt": 0}}, "dg"),
    ({"price": {"$gte": 2**53 + 1}}, "eh"),
    ({"price": {"$lt": -(10**399)}}, "d"),
    ({"price": {"$lt": 2.5, "$gt": -1}}, "cg"),
    ({"price": {"$gte": "2"}}, "f"),
]
"""Filters by dates and numbers, each with the ids of the passages that pass it."""
FILTERED = [(SHELF, FILTERS), (CALENDAR, RANGES)]


def space(dimension: int = DIMENSION, *, number: int = 1, **names: Any) -> Partition:
    """Return a space with a new index_uid, by default of the index INDEX."""
    index = IndexKey(replace(INDEX.namespace, **names), number)
    return Partition(index, random.getrandbits(62), dimension)


def vectors(count: int, dimension: int = DIMENSION, seed: int = 0) -> Matrix:
    """Return random unit vectors, shape (count, dimension)."""
    drawn = np.random.default_rng(seed).standard_normal((count, dimension))
    unit: Matrix = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return unit


def vector(*values: float) -> Vector:
    return np.array(values, np.float32)


def cosines(matrix: Matrix, query: Vector) -> NDArray[np.float64]:
    """Return the exact cosines of unit vectors with a query; 0 for vectors of length 0."""
    exact: NDArray[np.float64] = matrix.astype(np.float64) @ query.astype(np.float64)
    return exact


class Driver:
    """A store, with one space for all calls."""

    def __init__(self, store: VectorStore, space: Partition) -> None:
        self.store, self.space = store, space

    def about(self, space: Partition) -> Driver:
        """Return a driver of the same store for another space."""
        return Driver(self.store, space)

    async def add(
        self,
        numbers: Iterable[int],
        matrix: Iterable[Vector],
        text: str = "a passage",
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Add vectors; only a store that filters gets their metadata."""
        pairs = list(zip(numbers, matrix, strict=True))
        fields = metadata if metadata is not None and self.store.filters else [{}] * len(pairs)
        added = [
            StoredVector(number, row, text, fields_of_one)
            for (number, row), fields_of_one in zip(pairs, fields, strict=True)
        ]
        await call(self.store.add, self.space, added)

    async def nearest(
        self,
        query: Vector,
        k: int = 100,
        where: Mapping[str, Any] | None = None,
        allowed_ids: Collection[int] | None = None,
    ) -> SearchHits:
        plain = resolved(where or {})
        return await call(self.store.nearest, self.space, query, k, plain, allowed_ids)

    async def hits(
        self,
        k: int = 100,
        where: Mapping[str, Any] | None = None,
        allowed_ids: Collection[int] | None = None,
    ) -> list[int]:
        """Return the numbers near to some vector, ascending, after checking for duplicates."""
        hits = await self.nearest(vectors(1, self.space.dimension)[0], k, where, allowed_ids)
        numbers = [int(number) for number in hits.numbers]
        assert len(set(numbers)) == len(numbers)
        return sorted(numbers)

    async def get(self, *numbers: int) -> dict[int, Vector | None]:
        return dict(await call(self.store.get, self.space, numbers))

    async def delete(self, *numbers: int) -> None:
        await call(self.store.delete, self.space, numbers)

    async def counts(self, expected: int) -> bool:
        """Return whether the count is right, or the database cannot count."""
        return await call(self.store.count, self.space) in (None, expected)

    async def drop(self) -> None:
        await call(self.store.drop, self.space)

    async def close(self) -> None:
        await call(self.store.close)


class StoreConformance:
    """The fixtures of all conformance tests of stores, which are coroutines."""

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def store(self) -> VectorStore:
        raise NotImplementedError("define a fixture named `store` that returns an empty store")

    @pytest.fixture
    def to(self, store: VectorStore) -> Driver:
        return Driver(store, space())
