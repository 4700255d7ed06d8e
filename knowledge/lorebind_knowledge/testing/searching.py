"""The conformance tests of searching, which every `VectorStore` passes: inherited with the rest."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.testing.store_driver import (
    DIMENSION,
    EAST,
    INDEX,
    NORTH,
    Driver,
    StoreConformance,
    ids,
    ramp,
    record,
)

if TYPE_CHECKING:
    from lorebind_knowledge.stores.base import VectorStore

NEIGHBOURS = [
    replace(INDEX, number=2),
    *(
        IndexKey(replace(INDEX.namespace, **{name: "other"}))
        for name in ("tenant", "project", "scope", "kb")
    ),
    # Joined without care, these names are those of INDEX.
    IndexKey(Namespace("acme/support", "project", "handbook", "")),
]

# (metadata filter, the ids of `SHELF` that pass it)
SHELF: dict[str, dict[str, Any]] = {
    "a": {"lang": "en", "year": 2020, "tags": ["x", "y"], "draft": True},
    "b": {"lang": "de", "year": 2022.5, "tags": ["y"], "draft": False},
    "c": {"lang": "en", "year": "2021", "tags": [], "draft": None},
    "d": {"lang": "fr", "year": 1, "tags": "x"},
}
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcd"),
    ({"lang": "en"}, "ac"),
    ({"lang": "EN"}, ""),
    ({"lang": ["de", "fr"]}, "bd"),
    ({"lang": []}, ""),
    ({"lang": "en", "year": 2020}, "a"),
    ({"tags": "x"}, "ad"),
    ({"tags": ["x", "y"]}, "abd"),
    ({"year": 2020.0}, "a"),
    ({"year": "2020"}, ""),
    ({"draft": True}, "a"),
    ({"draft": 1}, ""),
    ({"year": True}, ""),
    ({"draft": None}, "c"),
    ({"lang": {"$eq": "en"}}, "ac"),
    ({"lang": {"$ne": "en"}}, "bd"),
    ({"draft": {"$ne": True}}, "bcd"),
    ({"tags": {"$ne": "x"}}, "bc"),
    ({"lang": {"$in": ["en", "xx"]}}, "ac"),
    ({"lang": {"$nin": ["en", "de"]}}, "d"),
    ({"draft": {"$nin": [True]}}, "bcd"),
    ({"lang": {"$nin": []}}, "abcd"),
    ({"year": {"$gt": 2000}}, "ab"),
    ({"year": {"$gte": 2020, "$lt": 2022.5}}, "a"),
    ({"year": {"$lte": 2020}}, "ad"),
    ({"year": {"$gt": "2020"}}, "c"),
    ({"draft": {"$gte": 0}}, ""),
    ({"tags": {"$gt": "a"}}, "d"),
    ({"missing": {"$lt": 5}}, ""),
    ({"draft": {"$exists": True}}, "abc"),
    ({"draft": {"$exists": False}}, "d"),
    ({"$and": [{"lang": "en"}, {"tags": "x"}]}, "a"),
    ({"$or": [{"lang": "de"}, {"year": 1}]}, "bd"),
    ({"$not": {"lang": "en"}}, "bd"),
    ({"$not": {"year": {"$gt": 0}}}, "c"),
    ({"lang": "en", "$or": [{"draft": True}, {"draft": {"$exists": False}}]}, "a"),
]


class SearchingConformance(StoreConformance):
    """How every `VectorStore` searches."""

    @pytest.fixture
    def to(self, store: VectorStore) -> Driver:
        return Driver(store)

    # Searching

    async def test_best_first(self, to: Driver) -> None:
        """Matches come in the order of their cosines, which are given raw beside the score."""
        await to.open()
        vectors = ramp(20)
        await to.add(*(record(f"{99 - at}", values) for at, values in enumerate(vectors)))
        found = await to.search()
        assert ids(found) == [str(99 - at) for at in range(20)]
        for match, values in zip(found, vectors, strict=True):
            cosine = 1.0 / math.hypot(*values)
            assert match.scores["dense"] == pytest.approx(cosine, abs=1e-6)
            assert match.score == pytest.approx(cosine, abs=1e-6)
            assert match.score == round(match.score, 6)

    async def test_length_does_not_matter(self, to: Driver) -> None:
        """The score is the cosine: neither a record's length nor the query's changes it."""
        await to.open()
        await to.add(record("a", (1e-6, 1e-6, 0, 0)), record("b", (3e6, 3e6, 0, 0)))
        for scale in (1e-3, 1.0, 1e3):
            found = await to.search((scale, 0, 0, 0))
            assert ids(found) == ["a", "b"]
            assert [m.score for m in found] == pytest.approx([math.sqrt(0.5)] * 2, abs=1e-6)

    async def test_ties_go_by_id(self, to: Driver) -> None:
        """Equal vectors have equal scores, whatever document they are of, and order by id."""
        await to.open()
        values = (0.3, 0.1, -0.7, 0.2)
        names = [f"{number * 7919 % 1009:04d}" for number in range(60)]
        await to.add(*(record(name, values, uri=f"{name[-1]}.md") for name in names))
        found = await to.search((0.2, -0.5, -0.4, 0.9))
        assert ids(found) == sorted(names)
        assert len({match.score for match in found}) == 1

    async def test_fewer_are_a_prefix_of_more(self, to: Driver) -> None:
        """The top 3 are the first of the top 8 for every k, also where the cut parts a tie."""
        await to.open()
        rng = np.random.default_rng(7)
        kinds = rng.standard_normal((6, DIMENSION))
        names = rng.permutation(48)
        await to.add(*(record(f"{n:02d}", kinds[at % 6]) for at, n in enumerate(names)))
        for query in rng.standard_normal((5, DIMENSION)):
            everything = await to.search(query)
            assert len(everything) == 48
            for top_k in (1, 2, 3, 7, 8, 9, 16, 47, 48, 49):
                assert await to.search(query, top_k=top_k) == everything[:top_k]

    async def test_score_is_never_negative(self, to: Driver) -> None:
        """A negative cosine is kept raw; its score is 0, where it ties with all such."""
        await to.open()
        await to.add(record("c", EAST), record("b", NORTH), record("a", (-1.0, 0, 0, 0)))
        found = await to.search()
        assert [(m.id, m.score) for m in found] == [("c", 1.0), ("a", 0.0), ("b", 0.0)]
        assert [m.scores["dense"] for m in found] == pytest.approx([1.0, -1.0, 0.0], abs=1e-6)
        assert ids(await to.search(top_k=2)) == ["c", "a"]

    async def test_min_score(self, to: Driver) -> None:
        """What reaches `min_score` stays, also when it equals it; 0 keeps scores of 0."""
        await to.open()
        await to.add(record("a"), record("b", (1.0, 1.0, 0, 0)), record("c", (-1.0, 0, 0, 0)))
        middle = (await to.search())[1].score
        assert middle == 0.707107
        cases = {0.0: "abc", 1e-6: "ab", middle: "ab", middle + 1e-6: "a", 1.0: "a", 1.1: ""}
        for threshold, expected in cases.items():
            assert "".join(await to.found(min_score=threshold)) == expected
        assert "".join(await to.found(min_score=None)) == "abc"

    async def test_zero_vectors(self, to: Driver) -> None:
        """A query without direction has the cosine 0 with everything, and so has such a record."""
        await to.open()
        await to.add(record("b"), record("a", NORTH), record("c", (0.0,) * 4))
        found = await to.search((0.0,) * 4)
        assert [(m.id, m.score, m.scores["dense"]) for m in found] == [
            ("a", 0.0, 0.0),
            ("b", 0.0, 0.0),
            ("c", 0.0, 0.0),
        ]
        assert await to.found(top_k=2) == ["b", "a"]

    @pytest.mark.parametrize("values", [(1.0, 0.0), (math.nan, 0, 0, 0)], ids=["size", "nan"])
    async def test_unsuitable_query(self, to: Driver, values: tuple[float, ...]) -> None:
        """A query of another dimension or with NaN is an error, also on an empty index."""
        await to.open()
        with pytest.raises(StoreError, match="handbook"):
            await to.search(values)

    async def test_top_k_is_positive(self, to: Driver) -> None:
        """Asking for no matches is a mistake of the caller."""
        await to.open()
        with pytest.raises(UsageError, match="top_k"):
            await to.search(top_k=0)

    # Filtering

    @pytest.mark.parametrize(("where", "expected"), FILTERS, ids=str)
    async def test_filter(self, to: Driver, where: dict[str, Any], expected: str) -> None:
        """A metadata filter means on this store what `lorebind_knowledge.filters` says."""
        await to.open()
        await to.add(*(record(name, **metadata) for name, metadata in SHELF.items()))
        assert "".join(await to.found(where=where)) == expected

    async def test_filter_comes_before_the_cut(self, to: Driver) -> None:
        """`top_k` counts what passes the filter, however far down it stands."""
        await to.open()
        vectors = ramp(30)
        await to.add(*(record(f"{at:02d}", values, n=at) for at, values in enumerate(vectors)))
        assert await to.found(top_k=2, where={"n": {"$gte": 20}}) == ["20", "21"]

    async def test_filter_sees_what_is_published(self, to: Driver) -> None:
        """The same filter, asked again, follows the generations."""
        await to.open()
        await to.add(record("a", state="old"), record("b", uri="b.md", state="old"))
        assert await to.found(where={"state": "old"}) == ["a", "b"]
        await to.add(record("a", generation=2, state="new"))
        assert await to.found(where={"state": "old"}) == ["b"]
        assert await to.found(where={"state": "new"}) == ["a"]

    async def test_among_some(self, to: Driver) -> None:
        """Among some records only, their scores are what they are among all."""
        await to.open()
        names = ["a", "b", "c", "d"]
        await to.add(*(record(n, v, even=n in "bd") for n, v in zip(names, ramp(4), strict=True)))
        everything = {match.id: match for match in await to.search()}
        found = await to.search(among=["d", "b", "nobody"])
        assert found == [everything["b"], everything["d"]]
        assert await to.found(among=["a", "b", "c"], where={"even": True}) == ["b"]
        assert await to.found(among=["d", "b"], top_k=1) == ["b"]
        assert await to.found(among=[]) == []

    async def test_malformed_filter(self, to: Driver) -> None:
        """A filter that means nothing is a mistake of the caller, also on an empty index."""
        await to.open()
        with pytest.raises(UsageError, match=r"\$gte"):
            await to.search(where={"year": {"$gtee": 2020}})

    # Namespaces

    @pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=str)
    async def test_indexes_do_not_see_each_other(self, to: Driver, neighbour: IndexKey) -> None:
        """The same ids and uris in another index are other records, in every operation."""
        await to.open()
        await to.open(neighbour)
        await to.add(record("a", text="mine"), record("b", text="mine"))
        await to.upsert(record("a", index=neighbour, text="theirs"))
        assert await to.count(neighbour) == 0
        await to.publish(index=neighbour)
        assert [m.text for m in await to.search()] == ["mine", "mine"]
        assert [m.text for m in await to.search(index=neighbour)] == ["theirs"]
        await to.publish(generation=2, index=neighbour)
        assert await to.count() == 2
        assert await to.delete(neighbour) == 1
        assert await to.count() == 2
        await to.drop(neighbour)
        assert await to.found() == ["a", "b"]
