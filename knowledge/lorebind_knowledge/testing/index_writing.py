"""The conformance tests of writing to an `Index`, which `IndexConformance` inherits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import StoreError
from lorebind_knowledge.testing.index_driver import (
    DIMENSION,
    NORTH,
    Driver,
    IndexTests,
    ids,
    record,
)


class IndexWriting(IndexTests):
    """The tests of staging, publishing and removing, with every store."""

    keeps_nul = True
    """Whether a text may contain the character NUL. If not, staging it must raise StoreError."""

    # Staging and publishing

    def test_staged_is_not_found(self, to: Driver) -> None:
        """Staged chunks are neither found nor counted before they are published."""
        to.open()
        to.stage(record("first", uri="b.md"))
        assert to.search() == []
        to.publish("b.md")
        to.stage(record("second"))
        assert to.found() == ["first"]
        assert ids(to.words("first second")) == ["first"]
        assert to.count() == 1
        to.publish()
        assert to.found() == ["first", "second"]
        assert ids(to.words("first second")) == ["first", "second"]
        assert to.count() == 2

    def test_publishing_replaces_the_document(self, to: Driver) -> None:
        """Only one generation of a document is found at a time; other documents stay."""
        to.open()
        to.add(record("a1"), record("a2"), record("b1", uri="b.md", generation=7))
        to.stage(record("a2", generation=2), record("a3", generation=2))
        assert to.found() == ["a1", "a2", "b1"]
        assert to.publish(generation=2) == {"a.md": (1, 1, 1)}
        assert to.found() == ["a2", "a3", "b1"]
        assert to.count() == 3

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
        assert to.found() == ["a2", "b2", "d"]
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
        assert to.found() == ["b"]
        to.add(record("a", generation=3))
        assert to.found() == ["a", "b"]

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
        assert to.found() == ["new"]
        assert to.count() == 1
        to.publish("b.md")
        assert to.found() == ["b", "new"]

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
        assert to.found() == ["two"]
        to.publish(generation=3)
        assert to.found() == ["three"]

    def test_the_last_staged_wins(self, to: Driver) -> None:
        """If two records have the same identity, in one call or two, the last one is stored."""
        to.open()
        to.stage(record("a", text="first"))
        to.stage(record("a", text="second"), record("a", NORTH, text="third", n=3))
        to.publish()
        (match,) = to.search(NORTH)
        assert (match.text, match.score, match.metadata) == ("third", 1.0, {"n": 3})
        assert to.words("first second") == []
        assert to.remove("a.md") == 1

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
        assert to.found() == []
        assert to.index.compare(entry, deep=True)[:2] == (0, [])

    def test_wrong_dimension_says_which(self, to: Driver) -> None:
        """The error for a vector of another dimension names the index, both sizes and the uri."""
        to.open()
        with pytest.raises(StoreError) as caught:
            to.stage(record("a", (1.0, 2.0)))
        for part in ("handbook", "4", "2", "a.md"):
            assert part in str(caught.value)

    # Removing

    def test_remove(self, to: Driver) -> None:
        """Staged and live documents are removed; the number of live chunks is returned."""
        to.open()
        to.add(record("aa"), record("bb"), record("cc", uri="c.md"), record("dd", uri="d.md"))
        to.stage(record("new", generation=2), record("staged", uri="s.md"))
        assert to.remove("none.md") == 0
        assert to.remove("a.md", "d.md", "s.md", "none.md") == 3
        assert to.found() == ["cc"]
        assert ids(to.words("aa bb cc dd new staged")) == ["cc"]
        assert to.count() == 1
        assert to.remove("a.md") == 0
        to.publish(generation=2)
        assert to.found() == ["cc"]

    def test_sweeping_deletes_what_is_dead(self, to: Driver) -> None:
        """A sweep changes no results; afterwards the store has only live and staged vectors."""
        entry = to.open()
        to.add(*(record(f"{at}") for at in range(5)))
        to.add(*(record(f"{at}", generation=2) for at in range(3, 8)))
        to.add(record("gone", uri="b.md"))
        to.remove("b.md")
        to.stage(record("next", generation=3))
        before = to.search()
        to.sweep()
        assert to.search() == before
        assert to.store_count(entry) in (None, 6)
        to.sweep(abandon=True)
        assert to.store_count(entry) in (None, 5)
        assert to.index.compare(entry, deep=True)[:2] == (5, [])
        to.publish(generation=3)
        assert to.search() == []

    # Round trips

    def test_metadata_comes_back(self, to: Driver) -> None:
        """Metadata may be any JSON object: nested, in any script, with big and small numbers."""
        metadata: dict[str, Any] = {
            "title": "Ünïcode 漢字 🜚 \u2028",
            "": "empty name",
            "a.b": "dot",
            "$x": "dollar",
            "quote'\"\\": None,
            "nested": {"list": [1, [2, [True, None]], {"deep": "er"}], "empty": {}},
            "numbers": [0, -1, 2**53, 1e-12, 0.1],
        }
        to.open()
        to.add(replace(record("a"), metadata=metadata))
        (match,) = to.search()
        assert match.metadata == metadata
        assert match.metadata["nested"]["list"][1][1][0] is True

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " \t\r\n ",
            "漢字 é é 🜚👩‍👩‍👧",
            "'; drop table x; --",
            "\ufeff\ufffe\x01",
            "x" * 100_000,
        ],
    )
    def test_text_comes_back(self, to: Driver, text: str) -> None:
        """Text is returned unchanged, character by character."""
        to.open()
        to.add(record("a", text=text))
        (match,) = to.search()
        assert match.text == text

    def test_nul(self, to: Driver) -> None:
        """The character NUL is returned or refused; it never truncates a text."""
        to.open()
        odd = record("a", text="before\0after", note="be\0af")
        if not self.keeps_nul:
            with pytest.raises(StoreError, match=r"a\.md"):
                to.stage(odd)
            return
        to.add(odd)
        (match,) = to.search()
        assert (match.text, match.metadata) == ("before\0after", {"note": "be\0af"})
        assert to.remove("a.md") == 1

    def test_nothing_kept_is_shared(self, to: Driver) -> None:
        """Changes to arguments or results do not change stored data."""
        to.open()
        metadata: dict[str, Any] = {"tags": ["x"]}
        given = replace(record("a"), metadata=metadata)
        to.add(given)
        given.vector[:] = 0.5
        metadata["tags"].append("y")
        metadata["new"] = 1
        (match,) = to.search()
        assert (match.score, match.metadata) == (1.0, {"tags": ["x"]})
        match.metadata["tags"].append("z")
        assert to.search()[0].metadata == {"tags": ["x"]}
        assert to.found(where={"tags": ["y", "z"]}) == []

    def test_any_float_vector(self, to: Driver) -> None:
        """Vectors may be float64, a view, or read-only; searches give the same results."""
        to.open()
        wide: Any = np.zeros((2, 2 * DIMENSION))
        wide[:, 0] = 2.0
        wide.setflags(write=False)
        to.add(replace(record("a"), vector=wide[0, ::2]))
        assert [m.score for m in to.search()] == [1.0]
