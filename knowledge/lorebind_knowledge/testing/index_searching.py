"""The conformance tests of searching an `Index`, which `IndexConformance` inherits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import StoreError, UsageError
from lorebind_config.namespace import Namespace
from lorebind_knowledge.index.index import NoIndexError
from lorebind_knowledge.testing.index_driver import (
    DIMENSION,
    EAST,
    HERE,
    NORTH,
    Driver,
    IndexTests,
    ids,
    ramp,
    record,
    vector,
)

NEIGHBOURS = [
    replace(HERE, tenant="other"),
    replace(HERE, project="other"),
    replace(HERE, scope="other"),
    replace(HERE, kb="other"),
    # Joined without separators, these names equal those of HERE.
    Namespace("acme/support", "project", "handbook", ""),
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


class IndexSearching(IndexTests):
    """The tests of search results, with every store."""

    # Searching

    def test_best_first(self, to: Driver) -> None:
        """Matches are sorted by their raw cosines."""
        to.open()
        vectors = ramp(20)
        to.add(*(record(f"{99 - at}", values) for at, values in enumerate(vectors)))
        found = to.search()
        assert ids(found) == [str(99 - at) for at in range(20)]
        for match, values in zip(found, vectors, strict=True):
            cosine = 1.0 / math.hypot(*values)
            assert match.figure == pytest.approx(cosine, abs=1e-6)
            assert match.score == pytest.approx(cosine, abs=1e-6)
            assert match.score == round(match.score, 6)

    def test_length_does_not_matter(self, to: Driver) -> None:
        """The score is the cosine: the lengths of vectors do not change it."""
        to.open()
        to.add(record("a", (1e-6, 1e-6, 0, 0)), record("b", (3e6, 3e6, 0, 0)))
        for scale in (1e-3, 1.0, 1e3):
            found = to.search((scale, 0, 0, 0))
            assert ids(found) == ["a", "b"]
            assert [m.score for m in found] == pytest.approx([math.sqrt(0.5)] * 2, abs=1e-6)

    def test_ties_go_by_id(self, to: Driver) -> None:
        """Equal vectors have equal scores in any document, and are sorted by id."""
        to.open()
        values = (0.3, 0.1, -0.7, 0.2)
        names = [f"{number * 7919 % 1009:04d}" for number in range(60)]
        to.add(*(record(name, values, uri=f"{name[-1]}.md") for name in names))
        found = to.search((0.2, -0.5, -0.4, 0.9))
        assert ids(found) == sorted(names)
        assert len({match.score for match in found}) == 1

    def test_fewer_are_a_prefix_of_more(self, to: Driver) -> None:
        """The top 3 are the first of the top 8, even if the limit splits a tie."""
        to.open()
        rng = np.random.default_rng(7)
        kinds = rng.standard_normal((6, DIMENSION))
        names = rng.permutation(48)
        to.add(*(record(f"{n:02d}", kinds[at % 6]) for at, n in enumerate(names)))
        for query in rng.standard_normal((5, DIMENSION)):
            everything = to.search(query)
            assert len(everything) == 48
            for k in (1, 2, 3, 7, 8, 9, 16, 47, 48, 49):
                assert to.search(query, k) == everything[:k]

    def test_score_is_never_negative(self, to: Driver) -> None:
        """A negative cosine stays in the raw figure; its score is 0, and such chunks tie."""
        to.open()
        to.add(record("c", EAST), record("b", NORTH), record("a", (-1.0, 0, 0, 0)))
        found = to.search()
        assert [(m.id, m.score) for m in found] == [("c", 1.0), ("a", 0.0), ("b", 0.0)]
        assert [m.figure for m in found] == pytest.approx([1.0, -1.0, 0.0], abs=1e-6)
        assert to.found(k=2) == ["c", "a"]

    def test_zero_vectors(self, to: Driver) -> None:
        """A vector of length 0, of a query or a chunk, has the cosine 0 with every vector."""
        to.open()
        to.add(record("b"), record("a", NORTH), record("c", (0.0,) * 4))
        found = to.search((0.0,) * 4)
        assert [(m.id, m.score, m.figure) for m in found] == [
            ("a", 0.0, 0.0),
            ("b", 0.0, 0.0),
            ("c", 0.0, 0.0),
        ]
        assert to.found(k=2) == ["b", "a"]

    def test_dead_vectors_take_nobodys_place(self, to: Driver) -> None:
        """`k` chunks are found, even if many dead or staged ones are nearer."""
        to.open()
        to.index.sweep(to.lease(), to.entry())  # now, so that publishing does not sweep
        to.add(*(record(f"old {at}") for at in range(40)))
        to.add(record("far", (1.0, 2.0, 0, 0), generation=2))
        to.stage(*(record(f"new {at}", generation=3) for at in range(40)))
        to.add(record("farther", (1.0, 3.0, 0, 0), uri="b.md"))
        assert to.found(k=1) == ["far"]
        assert to.found(k=2) == ["far", "farther"]

    @pytest.mark.parametrize("values", [(1.0, 0.0), (math.nan, 0, 0, 0)], ids=["size", "nan"])
    def test_unsuitable_query(self, to: Driver, values: tuple[float, ...]) -> None:
        """A query of another dimension or with NaN is an error, even on an empty index."""
        to.open()
        with pytest.raises(StoreError, match="handbook"):
            to.search(values)

    def test_k_is_positive(self, to: Driver) -> None:
        """A `k` of 0 is a usage error."""
        to.open()
        with pytest.raises(UsageError, match="top_k"):
            to.search(k=0)

    def test_cosines_of_some(self, to: Driver) -> None:
        """A chunk has the same cosine in a search and when requested by its number."""
        to.open()
        to.add(*(record(str(at), values) for at, values in enumerate(ramp(5))))
        query = vector((0.3, 0.2, 0.1, 0.0))
        found = to.index.read(HERE, lambda view: view.nearest(query, 5))
        some = found.at([3, 1, 2])
        figures = to.index.read(HERE, lambda view: view.cosines(query, some.numbers))
        assert figures.tolist() == some.scores.tolist()
        none = found.at([]).numbers
        assert len(to.index.read(HERE, lambda view: view.cosines(query, none))) == 0

    # Filtering

    @pytest.mark.parametrize(("where", "expected"), FILTERS, ids=str)
    def test_filter(self, to: Driver, where: dict[str, Any], expected: str) -> None:
        """A metadata filter means what `lorebind_config.filters` says."""
        to.open()
        to.add(*(record(name, **metadata) for name, metadata in SHELF.items()))
        assert "".join(to.found(where=where)) == expected
        assert "".join(to.found(where=where, values=(0.0,) * 4)) == expected

    def test_filter_comes_before_the_cut(self, to: Driver) -> None:
        """`k` counts only chunks that pass the filter, however low they rank."""
        to.open()
        vectors = ramp(30)
        to.add(*(record(f"{at:02d}", values, n=at) for at, values in enumerate(vectors)))
        assert to.found(k=2, where={"n": {"$gte": 20}}) == ["20", "21"]

    def test_filter_sees_what_is_published(self, to: Driver) -> None:
        """A repeated filter sees newly published generations."""
        to.open()
        to.add(record("a", state="old"), record("b", uri="b.md", state="old"))
        assert to.found(where={"state": "old"}) == ["a", "b"]
        to.add(record("a", generation=2, state="new"))
        assert to.found(where={"state": "old"}) == ["b"]
        assert to.found(where={"state": "new"}) == ["a"]

    def test_filter_by_place(self, to: Driver) -> None:
        """The position of a chunk can be filtered by, even after only the position has changed."""
        to.open()
        to.add(record("a", line_start=1), record("b", line_start=9))
        to.add(record("a", generation=2, line_start=5), record("b", generation=2, line_start=13))
        assert to.found(where={"line_start": {"$lt": 9}}) == ["a"]
        assert to.found(where={"line_start": {"$gte": 9}}) == ["b"]

    def test_malformed_filter(self, to: Driver) -> None:
        """A malformed filter is a usage error, even on an empty index."""
        to.open()
        with pytest.raises(UsageError, match=r"\$gte"):
            to.search(where={"year": {"$gtee": 2020}})

    # Fetching

    def test_chunks_by_id(self, to: Driver) -> None:
        """Text, metadata and uri are returned as they were staged, the vector at length 1."""
        to.open()
        to.add(
            record("a", (3.0, 4.0, 0.0, 0.0), text="first", place=1),
            record("b", NORTH, uri="b.md", text="second", tags=["x"]),
        )
        found = to.fetch("a", "b", "nobody")
        assert sorted(found) == ["a", "b"]
        assert (found["a"].id, found["a"].uri, found["a"].text) == ("a", "a.md", "first")
        assert [found[name].metadata for name in "ab"] == [{"place": 1}, {"tags": ["x"]}]
        vectors = to.vectors("a", "b")
        np.testing.assert_allclose(vectors["a"], [0.6, 0.8, 0.0, 0.0], atol=1e-6)
        np.testing.assert_allclose(vectors["b"], NORTH, atol=1e-6)
        assert to.fetch() == {}

    def test_a_vector_of_length_0(self, to: Driver) -> None:
        """A vector of length 0 is returned unchanged."""
        to.open()
        to.add(record("z", (0.0,) * 4))
        assert not to.vectors("z")["z"].any()

    def test_fetching_what_is_published(self, to: Driver) -> None:
        """Only the published generation of a document can be fetched, not staged chunks."""
        to.open()
        to.add(record("a", NORTH, text="first"))
        to.stage(record("a", EAST, generation=2, text="new"), record("n", generation=2))
        assert {name: one.text for name, one in to.fetch("a", "n").items()} == {"a": "first"}
        to.publish(generation=2)
        assert {name: one.text for name, one in to.fetch("a", "n").items()} == {
            "a": "new",
            "n": "n",
        }
        np.testing.assert_allclose(to.vectors("a")["a"], EAST, atol=1e-6)

    def test_a_document_in_its_order(self, to: Driver) -> None:
        """The chunks of a document are returned in the order in which they were staged."""
        to.open()
        to.add(record("z"), record("b", uri="b.md"), record("a"), record("m"))
        to.stage(record("new", generation=2))
        found = to.index.read(HERE, lambda view: view.document("a.md"))
        assert [one.id for one in found] == ["z", "a", "m"]
        assert to.index.read(HERE, lambda view: view.document("none.md")) == []

    # Namespaces

    @pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=str)
    def test_knowledge_bases_do_not_see_each_other(self, to: Driver, neighbour: Namespace) -> None:
        """Equal ids and uris in another knowledge base are other chunks, in every operation."""
        to.open()
        with pytest.raises(NoIndexError):
            to.search(namespace=neighbour)
        theirs = to.open(neighbour)
        to.add(record("a", text="native"), record("b", text="native"))
        to.stage(record("a", text="foreign"), namespace=neighbour)
        assert to.count(neighbour) == 0
        to.publish(namespace=neighbour)
        assert [m.text for m in to.search()] == ["native", "native"]
        assert [m.text for m in to.search(namespace=neighbour)] == ["foreign"]
        assert [m.text for m in to.words("foreign", namespace=neighbour)] == ["foreign"]
        assert to.words("foreign") == []
        assert to.fetch("b", namespace=neighbour) == {}
        to.publish(generation=2, namespace=neighbour)
        to.sweep(neighbour)
        assert to.count() == 2
        to.add(record("a", generation=3), namespace=neighbour)
        assert to.remove("a.md", namespace=neighbour) == 1
        to.sweep(neighbour)
        assert to.count() == 2
        to.drop(theirs)
        assert to.found() == ["a", "b"]
        assert to.index.compare(to.entry(), deep=True).lost == []
