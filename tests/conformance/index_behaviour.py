"""Tests of an index that do not depend on its store, so the public conformance kit lacks them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import StoreError, UsageError
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
from lorebind_knowledge.testing.vector_store import METADATA, TEXTS


class IndexBehaviour(IndexTests):
    # Staging, publishing and removing

    def test_publishing_several_documents(self, to: Driver) -> None:
        """Several documents are replaced in one step, with or without chunks before and after."""
        to.open()
        to.add(record("a"), record("b", uri="b.md"), record("c", uri="c.md"))
        to.stage(
            record("a2", generation=2),
            record("b2", uri="b.md", generation=3),
            record("d", uri="d.md"),
        )
        changes = to.publish_all({"a.md": 2, "b.md": 3, "c.md": 9, "d.md": 1, "new.md": 1})
        assert to.hits() == ["a2", "b2", "d"]
        assert changes == {
            "a.md": (1, 1, 0),
            "b.md": (1, 1, 0),
            "c.md": (0, 1, 0),
            "d.md": (1, 0, 0),
        }
        assert to.count() == 3

    def test_publishing_nothing_empties_the_document(self, to: Driver) -> None:
        """Publishing a generation that was never staged leaves its document without chunks."""
        to.open()
        to.add(record("a"), record("b", uri="b.md"))
        to.publish(generation=2)
        assert to.hits() == ["b"]
        to.add(record("a", generation=3))
        assert to.hits() == ["a", "b"]

    def test_publishing_an_unknown_document(self, to: Driver) -> None:
        """A document that has no chunks can be published."""
        to.open()
        to.publish("never.md", 3)
        assert to.count() == 0

    def test_publishing_again(self, to: Driver) -> None:
        """Publishing the live generation again changes nothing."""
        to.open()
        to.add(record("bread"))
        before = to.search(), to.words("bread")
        assert to.publish() == {}
        assert to.publish() == {}
        assert (to.search(), to.words("bread")) == before
        assert to.count() == 1

    def test_an_older_generation_is_refused(self, to: Driver) -> None:
        """Publishing an older generation is an error, and no document changes."""
        to.open()
        to.stage(record("old"))
        to.add(record("new", generation=2))
        to.stage(record("b", uri="b.md"))
        with pytest.raises(StoreError, match=r"a\.md"):
            to.publish_all({"b.md": 1, "a.md": 1})
        assert to.hits() == ["new"]
        assert to.count() == 1
        to.publish("b.md")
        assert to.hits() == ["b", "new"]

    def test_a_live_generation_is_not_staged(self, to: Driver) -> None:
        """Staging the live generation or an older one is an error and changes nothing."""
        to.open()
        to.add(record("a", generation=2, text="live"))
        for generation in (1, 2):
            with pytest.raises(StoreError, match=r"a\.md"):
                to.stage(record("b", uri="b.md"), record("c", generation=generation))
        to.publish("b.md")
        to.publish(generation=2)
        assert [match.text for match in to.search()] == ["live"]

    def test_staged_below_what_is_published(self, to: Driver) -> None:
        """A staged generation below a published one is dead; one above stays staged."""
        to.open()
        to.stage(record("one"))
        to.stage(record("three", generation=3))
        to.add(record("two", generation=2))
        to.sweep()
        assert to.hits() == ["two"]
        to.publish(generation=3)
        assert to.hits() == ["three"]

    def test_another_text_under_the_same_id(self, to: Driver) -> None:
        """Text, vector and words of a found chunk belong to the same generation."""
        to.open()
        to.add(record("a", text="old bread"))
        to.add(record("a", NORTH, text="new bread", generation=2))
        (match,) = to.search(NORTH)
        assert (match.text, match.score) == ("new bread", 1.0)
        assert to.words("old") == []
        to.add(record("a", NORTH, text="new bread", context="Bakery", generation=3))
        assert [match.text for match in to.words("bakeries")] == ["new bread"]
        to.publish(generation=4)
        assert to.words("old new bread bakery") == []

    def test_staging_nothing(self, to: Driver) -> None:
        """Staging an empty batch is no error."""
        to.open()
        to.stage()
        assert to.count() == 0

    @pytest.mark.parametrize(
        "bad",
        [
            record("bad", (1.0, 0.0), uri="bad.md"),
            record("bad", (math.nan, 0.0, 0.0, 0.0), uri="bad.md"),
            record("bad", (math.inf, 0.0, 0.0, 0.0), uri="bad.md"),
            record("bad", uri="bad.md", text="lone \ud800 surrogate"),
            record("bad", uri="bad.md", note="lone \ud800 surrogate"),
            record("bad", uri="bad.md", number=math.nan),
            record("bad", uri="bad.md", thing=object()),
        ],
        ids=["dimension", "nan", "infinity", "text", "metadata", "json-nan", "not-json"],
    )
    def test_staging_is_all_or_nothing(self, to: Driver, bad: Any) -> None:
        """The error for an invalid record names its uri, and no record of the call is stored."""
        entry = to.open()
        with pytest.raises(StoreError, match=r"bad\.md"):
            to.stage(record("a"), bad, record("b"))
        to.publish()
        assert to.hits() == []
        assert to.index.compare(entry, deep=True)[:2] == (0, [])

    def test_wrong_dimension_says_which(self, to: Driver) -> None:
        """The error for a vector of another dimension names the index, both sizes and the uri."""
        to.open()
        with pytest.raises(StoreError) as caught:
            to.stage(record("a", (1.0, 2.0)))
        for part in ("handbook", "4", "2", "a.md"):
            assert part in str(caught.value)

    def test_remove(self, to: Driver) -> None:
        """Staged and live documents are removed; the number of live chunks is returned."""
        to.open()
        to.add(record("aa"), record("bb"), record("cc", uri="c.md"), record("dd", uri="d.md"))
        to.stage(record("new", generation=2), record("staged", uri="s.md"))
        assert to.remove("none.md") == 0
        assert to.remove("a.md", "d.md", "s.md", "none.md") == 3
        assert to.hits() == ["cc"]
        assert ids(to.words("aa bb cc dd new staged")) == ["cc"]
        assert to.count() == 1
        assert to.remove("a.md") == 0
        to.publish(generation=2)
        assert to.hits() == ["cc"]

    def test_metadata_comes_back(self, to: Driver) -> None:
        """Metadata may be any JSON object: nested, in any script, with big and small numbers."""
        to.open()
        to.add(replace(record("a"), metadata=METADATA))
        (match,) = to.search()
        assert match.metadata == METADATA
        assert match.metadata["nested"]["list"][1][1][0] is True

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_text_comes_back(self, to: Driver, text: str) -> None:
        """Text is returned unchanged, character by character."""
        to.open()
        to.add(record("a", text=text))
        (match,) = to.search()
        assert match.text == text

    def test_nul(self, to: Driver) -> None:
        """The character NUL is returned; it never truncates a text."""
        to.open()
        odd = record("a", text="before\0after", note="be\0af")
        to.add(odd)
        (match,) = to.search()
        assert (match.text, match.metadata) == ("before\0after", {"note": "be\0af"})
        assert to.remove("a.md") == 1

    def test_nothing_kept_is_shared(self, to: Driver) -> None:
        """Changes to arguments or results do not change stored data."""
        to.open()
        metadata: dict[str, Any] = {"tags": ["x"]}
        row = replace(record("a"), metadata=metadata)
        to.add(row)
        row.vector[:] = 0.5
        metadata["tags"].append("y")
        metadata["new"] = 1
        (match,) = to.search()
        assert (match.score, match.metadata) == (1.0, {"tags": ["x"]})
        match.metadata["tags"].append("z")
        assert to.search()[0].metadata == {"tags": ["x"]}
        assert to.hits(where={"tags": ["y", "z"]}) == []

    def test_any_float_vector(self, to: Driver) -> None:
        """Vectors may be float64, a view, or read-only; searches give the same results."""
        to.open()
        wide: Any = np.zeros((2, 2 * DIMENSION))
        wide[:, 0] = 2.0
        wide.setflags(write=False)
        to.add(replace(record("a"), vector=wide[0, ::2]))
        assert [m.score for m in to.search()] == [1.0]

    # Searching and fetching

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
        hits = to.index.read(HERE, lambda view: view.nearest(query, 5))
        some = hits.at([3, 1, 2])
        figures = to.index.read(HERE, lambda view: view.cosines(query, some.numbers))
        assert figures.tolist() == some.scores.tolist()
        none = hits.at([]).numbers
        assert len(to.index.read(HERE, lambda view: view.cosines(query, none))) == 0

    def test_filter_by_place(self, to: Driver) -> None:
        """The position of a chunk can be filtered by, even after only the position has changed."""
        to.open()
        to.add(record("a", line_start=1), record("b", line_start=9))
        to.add(record("a", generation=2, line_start=5), record("b", generation=2, line_start=13))
        assert to.hits(where={"line_start": {"$lt": 9}}) == ["a"]
        assert to.hits(where={"line_start": {"$gte": 9}}) == ["b"]

    def test_malformed_filter(self, to: Driver) -> None:
        """A malformed filter is a usage error, even on an empty index."""
        to.open()
        with pytest.raises(UsageError, match=r"\$gte"):
            to.search(where={"year": {"$gtee": 2020}})

    def test_chunks_by_id(self, to: Driver) -> None:
        """Text, metadata and uri are returned as they were staged, the vector at length 1."""
        to.open()
        to.add(
            record("a", (3.0, 4.0, 0.0, 0.0), text="first", place=1),
            record("b", NORTH, uri="b.md", text="second", tags=["x"]),
        )
        chunks = to.fetch("a", "b", "nobody")
        assert sorted(chunks) == ["a", "b"]
        assert (chunks["a"].id, chunks["a"].uri, chunks["a"].text) == ("a", "a.md", "first")
        assert [chunks[name].metadata for name in "ab"] == [{"place": 1}, {"tags": ["x"]}]
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
        assert {name: chunk.text for name, chunk in to.fetch("a", "n").items()} == {"a": "first"}
        to.publish(generation=2)
        assert {name: chunk.text for name, chunk in to.fetch("a", "n").items()} == {
            "a": "new",
            "n": "n",
        }
        np.testing.assert_allclose(to.vectors("a")["a"], EAST, atol=1e-6)

    def test_a_document_in_its_order(self, to: Driver) -> None:
        """The chunks of a document are returned in the order in which they were staged."""
        to.open()
        to.add(record("z"), record("b", uri="b.md"), record("a"), record("m"))
        to.stage(record("new", generation=2))
        chunks = to.index.read(HERE, lambda view: view.document("a.md"))
        assert [chunk.id for chunk in chunks] == ["z", "a", "m"]
        assert to.index.read(HERE, lambda view: view.document("none.md")) == []

    # Indexes

    def test_where_nothing_was_ingested(self, to: Driver) -> None:
        """A knowledge base without an active index cannot be searched."""
        with pytest.raises(NoIndexError):
            to.search()
        to.build()
        with pytest.raises(NoIndexError):
            to.search()

    def test_nothing_is_written_to_a_dropped_index(self, to: Driver) -> None:
        """Staging and publishing in a dropped index are errors."""
        entry = to.open()
        to.drop(entry)
        with pytest.raises(StoreError, match="handbook"):
            to.index.stage(to.lease(), entry, [record("a")])
        with pytest.raises(StoreError, match="handbook"):
            to.index.publish(to.lease(), entry, {"a.md": 1})
        assert to.index.remove(to.lease(), entry, ["a.md"]) == 0
        to.index.sweep(to.lease(), entry, abandon=True)
        assert to.index.compare(entry, deep=True)[:2] == (0, [])
