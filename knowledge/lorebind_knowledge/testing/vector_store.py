"""The conformance tests of `VectorStore`. They need pytest and pytest-asyncio.

    class TestMyStore(VectorStoreConformance):
        @pytest.fixture
        def store(self):
            store = MyStore(...)        # empty
            yield store
            store.close()

A store that keeps its records beyond the process gives `reopen` too: a function that opens what
`store` has written once more.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lorebind_knowledge.errors import IndexMismatchError, StoreError
from lorebind_knowledge.stores.base import VectorStore
from lorebind_knowledge.testing.searching import NEIGHBOURS, SearchingConformance
from lorebind_knowledge.testing.store_driver import (
    DIMENSION,
    NORTH,
    Driver,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class VectorStoreConformance(SearchingConformance):
    """What every `VectorStore` does. Inherit it and give a fixture `store`, an empty one."""

    keeps_nul = True
    """Whether a text may hold the character NUL; if not, `upsert` raises StoreError for it."""

    @pytest.fixture
    def reopen(self) -> Callable[[], VectorStore] | None:
        """Opens the same data again in a new store object; None where nothing persists."""
        return None

    # Opening

    async def test_is_a_vector_store(self, store: VectorStore) -> None:
        """The store has every method of the protocol."""
        assert isinstance(store, VectorStore)

    async def test_opening_again_keeps_what_is_there(self, to: Driver) -> None:
        """`open` is idempotent."""
        await to.open()
        await to.add(record("a"))
        await to.open()
        assert await to.found() == ["a"]

    async def test_another_dimension_is_a_mismatch(self, to: Driver) -> None:
        """Opening an index with another dimension is refused, naming both."""
        await to.open()
        with pytest.raises(IndexMismatchError, match=r"\b4\b.*\b7\b"):
            await to.open(dimension=7)

    async def test_open_index_is_empty(self, to: Driver) -> None:
        """An index that was opened and holds nothing gives empty answers."""
        await to.open()
        assert await to.search() == []
        assert await to.count() == 0
        assert await to.delete() == 0

    async def test_unopened_index_is_an_error(self, to: Driver) -> None:
        """Without `open` there is no index to write to, publish in, search or count."""
        await to.open(NEIGHBOURS[0])
        for attempt in (to.upsert(record("a")), to.publish(), to.search(), to.count()):
            with pytest.raises(StoreError, match="handbook"):
                await attempt

    async def test_unopened_index_has_nothing_to_remove(self, to: Driver) -> None:
        """Deleting from an index that was not opened, or dropping it, does nothing."""
        assert await to.delete() == 0
        await to.drop()

    # Staging and publishing

    async def test_staged_is_not_found(self, to: Driver) -> None:
        """What was upserted is neither found nor counted before it is published."""
        await to.open()
        await to.upsert(record("a"))
        assert await to.found() == []
        assert await to.count() == 0
        await to.publish()
        assert await to.found() == ["a"]
        assert await to.count() == 1

    async def test_publishing_replaces_the_document(self, to: Driver) -> None:
        """One generation of a document is found at a time; other documents are left alone."""
        await to.open()
        await to.add(record("a1"), record("a2"), record("b1", uri="b.md", generation=7))
        await to.upsert(record("a2", generation=2), record("a3", generation=2))
        assert await to.found() == ["a1", "a2", "b1"]
        await to.publish(generation=2)
        assert await to.found() == ["a2", "a3", "b1"]
        assert await to.count() == 3

    async def test_publishing_nothing_empties_the_document(self, to: Driver) -> None:
        """A generation without records leaves the document none; its records stay staged."""
        await to.open()
        await to.add(record("a"), record("b", uri="b.md"))
        await to.publish(generation=2)
        assert await to.found() == ["b"]
        await to.publish(generation=1)
        assert await to.found() == ["a", "b"]

    async def test_publishing_an_unknown_document_does_nothing(self, to: Driver) -> None:
        """A document that has no records can be published."""
        await to.open()
        await to.publish("never.md", 3)
        assert await to.count() == 0

    async def test_publishing_is_idempotent(self, to: Driver) -> None:
        """Publishing what is published changes nothing."""
        await to.open()
        await to.add(record("a"))
        before = await to.search()
        await to.publish()
        await to.publish()
        assert await to.search() == before
        assert await to.count() == 1

    async def test_upsert_replaces(self, to: Driver) -> None:
        """The same identity again, in one call or in two, leaves the last one."""
        await to.open()
        await to.upsert(record("a", text="first"))
        await to.upsert(record("a", text="second"), record("a", NORTH, text="third", n=3))
        await to.publish()
        (match,) = await to.search(NORTH)
        assert (match.text, match.score, match.metadata) == ("third", 1.0, {"n": 3})
        assert await to.delete() == 1

    async def test_published_generation_can_be_staged_again(self, to: Driver) -> None:
        """Upserting into the published generation shows once it is published again, no sooner."""
        await to.open()
        await to.add(record("a", text="old"), record("b", text="old"))
        await to.upsert(record("a", text="new"), record("c", text="new"))
        assert [match.text for match in await to.search()] == ["old", "old"]
        await to.publish()
        found = await to.search()
        assert [(m.id, m.text) for m in found] == [("a", "new"), ("b", "old"), ("c", "new")]
        assert await to.count() == 3

    async def test_staged_again_then_superseded(self, to: Driver) -> None:
        """What was staged over a published record survives the publishing of another generation."""
        await to.open()
        await to.add(record("a", text="old"))
        await to.upsert(record("a", text="new"))
        await to.publish(generation=2)
        assert await to.found() == []
        await to.publish(generation=1)
        assert [match.text for match in await to.search()] == ["new"]

    async def test_upsert_of_nothing(self, to: Driver) -> None:
        """An empty batch is no error."""
        await to.open()
        await to.upsert()
        assert await to.count() == 0

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
    async def test_upsert_is_all_or_nothing(self, to: Driver, bad: Any) -> None:
        """A record that cannot be stored is named by its uri, and no other of its call is kept."""
        await to.open()
        with pytest.raises(StoreError, match=r"bad\.md"):
            await to.upsert(record("a"), bad, record("b"))
        await to.publish()
        assert await to.found() == []
        assert await to.delete() == 0

    async def test_wrong_dimension_says_which(self, to: Driver) -> None:
        """The error for a vector of another dimension names the index, both sizes and the uri."""
        await to.open()
        with pytest.raises(StoreError) as caught:
            await to.upsert(record("a", (1.0, 2.0)))
        for part in ("handbook", "4", "2", "a.md"):
            assert part in str(caught.value)

    async def test_upsert_over_several_indexes(self, to: Driver) -> None:
        """One call may carry records of several indexes; one unopened index refuses all."""
        await to.open()
        await to.open(NEIGHBOURS[0], 2)
        other = record("b", (1.0, 0.0), index=NEIGHBOURS[0])
        await to.add(record("a"), other)
        assert await to.found() == ["a"]
        assert await to.found(NEIGHBOURS[0], values=(1.0, 0.0)) == ["b"]
        with pytest.raises(StoreError):
            await to.upsert(record("c", uri="c.md"), record("d", index=NEIGHBOURS[1]))
        await to.publish("c.md")
        assert await to.found() == ["a"]

    # Removing

    @pytest.mark.parametrize(
        ("conditions", "left"),
        [
            ({}, ""),
            ({"uri": "a.md"}, "b"),
            ({"uri": "none.md"}, "ab"),
            ({"generation": 2}, ""),
            ({"generation": 1}, "ab"),
            ({"except_generation": 2}, "ab"),
            ({"except_generation": 1}, ""),
            ({"uri": "a.md", "generation": 2}, "b"),
            ({"uri": "a.md", "except_generation": 2}, "ab"),
            ({"uri": "b.md", "except_generation": 1}, "a"),
            ({"generation": 2, "except_generation": 2}, "ab"),
        ],
        ids=str,
    )
    async def test_delete(self, to: Driver, conditions: dict[str, Any], left: str) -> None:
        """Every condition must hold; staged and published are deleted alike, and counted."""
        everything = [record("a", generation=generation) for generation in (1, 2, 3)] + [
            record("b", uri="b.md", generation=generation) for generation in (1, 2)
        ]
        await to.open()
        await to.upsert(*everything)
        await to.publish("a.md", 2)
        await to.publish("b.md", 2)
        expected = [
            r
            for r in everything
            if conditions.get("uri", r.uri) == r.uri
            and conditions.get("generation", r.generation) == r.generation
            and conditions.get("except_generation") != r.generation
        ]
        assert await to.delete(**conditions) == len(expected)
        assert "".join(await to.found()) == left
        assert await to.count() == len(left)
        assert await to.delete() == len(everything) - len(expected)

    async def test_drop(self, to: Driver) -> None:
        """A dropped index is gone; opened anew, with any dimension, it is empty."""
        await to.open()
        await to.add(record("a"))
        await to.search()
        await to.drop()
        with pytest.raises(StoreError):
            await to.search()
        await to.drop()
        await to.open(dimension=2)
        assert await to.search((1.0, 0.0)) == []
        await to.add(record("b", (0.0, 1.0)))
        assert await to.found(values=(1.0, 0.0)) == ["b"]

    # What goes in comes out

    async def test_metadata_comes_back(self, to: Driver) -> None:
        """Metadata is any JSON object: nested, of any script, with big and small numbers."""
        metadata: dict[str, Any] = {
            "title": "Ünïcode 漢字 🜚 \u2028",
            "": "empty name",
            "a.b": "dot",
            "$x": "dollar",
            "quote'\"\\": None,
            "nested": {"list": [1, [2, [True, None]], {"deep": "er"}], "empty": {}},
            "numbers": [0, -1, 2**53, 1e-12, 0.1],
        }
        await to.open()
        await to.add(replace(record("a"), metadata=metadata))
        (match,) = await to.search()
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
    async def test_text_comes_back(self, to: Driver, text: str) -> None:
        """Text comes back as it went in, character by character."""
        await to.open()
        await to.add(record("a", text=text))
        (match,) = await to.search()
        assert match.text == text

    async def test_nul(self, to: Driver) -> None:
        """The character NUL comes back, or is refused; it never cuts a text short."""
        await to.open()
        odd = record("a", text="before\0after", note="be\0af")
        if not self.keeps_nul:
            with pytest.raises(StoreError, match=r"a\.md"):
                await to.upsert(odd)
            return
        await to.add(odd)
        (match,) = await to.search()
        assert (match.text, match.metadata) == ("before\0after", {"note": "be\0af"})
        assert await to.delete() == 1

    async def test_nothing_stored_is_shared(self, to: Driver) -> None:
        """Changing what was handed in, or what was handed out, changes nothing stored."""
        await to.open()
        metadata: dict[str, Any] = {"tags": ["x"]}
        given = replace(record("a"), metadata=metadata)
        await to.add(given)
        given.vector[:] = 0.5
        metadata["tags"].append("y")
        metadata["new"] = 1
        (match,) = await to.search()
        assert (match.score, match.metadata) == (1.0, {"tags": ["x"]})
        match.metadata["tags"].append("z")
        assert (await to.search())[0].metadata == {"tags": ["x"]}
        assert await to.found(where={"tags": ["y", "z"]}) == []

    async def test_any_float_vector(self, to: Driver) -> None:
        """Vectors may be float64, a view, or read-only; searches give the same answer."""
        await to.open()
        wide: Any = np.zeros((2, 2 * DIMENSION))
        wide[:, 0] = 2.0
        wide.setflags(write=False)
        await to.add(replace(record("a"), vector=wide[0, ::2]))
        assert [m.score for m in await to.search()] == [1.0]

    # Concurrency and persistence

    async def test_readers_never_see_a_gap_or_a_mixture(self, to: Driver) -> None:
        """While generations follow each other, every search finds one of them, whole."""
        last, size = 25, 3
        await to.open()
        await to.add(*(record(f"1-{n}", n=1) for n in range(size)))
        done = asyncio.Event()

        async def write() -> None:
            try:
                for number in range(2, last + 1):
                    names = [f"{number}-{n}" for n in range(size)]
                    await to.add(*(record(x, generation=number, n=number) for x in names))
                    await to.delete(uri="a.md", except_generation=number)
            finally:
                done.set()

        async def read() -> None:
            newest = 1
            while not done.is_set():
                found = [match.metadata["n"] for match in await to.search()]
                assert found == found[:1] * size
                assert found[0] >= newest
                newest = found[0]

        await asyncio.gather(write(), read(), read(), read())
        assert await to.found() == [f"{last}-{n}" for n in range(size)]

    async def test_writers_do_not_lose_each_other(self, to: Driver) -> None:
        """Documents that are written at the same time are all there in the end."""
        await to.open()

        async def write(uri: str) -> None:
            for number in range(1, 6):
                await to.add(record(f"{uri}-{number}", uri=uri, generation=number))
                await to.delete(uri=uri, except_generation=number)

        uris = [f"{at}.md" for at in range(8)]
        await asyncio.gather(*map(write, uris))
        assert await to.found() == [f"{uri}-5" for uri in uris]
        assert await to.delete() == len(uris)

    async def test_what_was_written_persists(
        self, to: Driver, reopen: Callable[[], VectorStore] | None
    ) -> None:
        """Another store on the same data knows indexes, published and staged records."""
        if reopen is None:
            pytest.skip("nothing persists, no `reopen` was given")
        await to.open()
        await to.add(record("a", (1.0, 2.0, 3.0, 4.0), text="kept", tags=["x"]))
        await to.upsert(record("b", generation=2))
        before = await to.search()
        await to.close()
        again = Driver(reopen())
        try:
            assert await again.search() == before
            with pytest.raises(IndexMismatchError):
                await again.open(dimension=9)
            await again.publish(generation=2)
            assert await again.found() == ["b"]
        finally:
            await again.close()

    async def test_two_stores_on_the_same_data(
        self, to: Driver, reopen: Callable[[], VectorStore] | None
    ) -> None:
        """What one store publishes or deletes, another finds or misses at its next search."""
        if reopen is None:
            pytest.skip("nothing persists, no `reopen` was given")
        other = Driver(reopen())
        try:
            await to.open()
            await to.add(record("a"))
            assert await other.found() == ["a"]
            await to.add(record("b", generation=2))
            assert await other.found() == ["b"]
            await to.delete()
            assert await other.found() == []
            await to.drop()
            with pytest.raises(StoreError):
                await other.search()
        finally:
            await other.close()

    async def test_close(self, to: Driver) -> None:
        """Closing twice is fine; asking a closed store is an error, not an empty answer."""
        await to.open()
        await to.add(record("a"))
        await to.close()
        await to.close()
        with pytest.raises(StoreError, match="closed"):
            await to.search()
