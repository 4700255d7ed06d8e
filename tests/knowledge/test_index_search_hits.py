"""For any hits of a store, an index finds exactly the live chunks, once, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import SearchHits, StoredVector
from lorebind_knowledge.testing.index_driver import (
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

from .plain_stores import PlainStore


class OddStore(PlainStore):
    """A store whose hits a test may change."""

    def __init__(self) -> None:
        super().__init__()
        self.change: Callable[[Partition, SearchHits, int], SearchHits] = lambda _, hits, __: hits

    def nearest(
        self, space: Partition, vector: Any, k: int, where: Any, allowed_ids: Any
    ) -> SearchHits:
        return self.change(space, super().nearest(space, vector, k, where, allowed_ids), k)


def without_vectors(_: Partition, hits: SearchHits, __: int) -> SearchHits:
    return SearchHits(hits.numbers)


class TestNominees(IndexTests):
    @pytest.fixture
    def store(self) -> OddStore:
        return OddStore()

    @pytest.mark.parametrize("count", [1, 7, 100])
    @pytest.mark.parametrize("change", [None, without_vectors])
    def test_vectors_that_nobody_knows(
        self, to: Driver, store: OddStore, count: int, change: Any
    ) -> None:
        """Vectors that a writer without its lease has left do not displace any passage."""
        entry = to.open()
        store.change = change or store.change
        to.add(*(record(f"{at}", values, n=at) for at, values in enumerate(ramp(5))))
        before = {k: to.search(NORTH, k) for k in (1, 2, 5, 9)}
        filtered = to.search(NORTH, where={"n": {"$gt": 2}})
        strays = [StoredVector(10**6 + at, vector(NORTH), "", {}) for at in range(count)]
        store.add(entry.space, strays)
        assert {k: to.search(NORTH, k) for k in (1, 2, 5, 9)} == before
        assert to.search(NORTH, where={"n": {"$gt": 2}}) == filtered
        number = to.fetch("3")["3"].number
        store.delete(entry.space, [number])
        with pytest.raises(Exception, match="lorebind knowledge ingest handbook"):
            to.search(NORTH)

    def test_dead_vectors(self, to: Driver, store: OddStore) -> None:
        """Deleted vectors that reappear, as from a lagging replica, are not found."""
        entry = to.open()
        to.add(record("old", NORTH))
        number = to.fetch("old")["old"].number
        to.add(record("new", generation=2), record("b", uri="b.md"))
        to.sweep()
        before = to.search(NORTH)
        store.add(entry.space, [StoredVector(number, vector(NORTH), "", {})])
        assert to.search(NORTH) == before
        assert to.hits(values=NORTH, k=1) == ["b"]

    @pytest.mark.parametrize("times", [2, 9])
    def test_nominees_that_come_twice(self, to: Driver, store: OddStore, times: int) -> None:
        """A chunk that is nominated several times is found once, and displaces no other."""
        to.open()
        to.add(*(record(f"{at}", values, n=at) for at, values in enumerate(ramp(9))))
        before = {k: to.search(NORTH, k) for k in (1, 2, 3, 9, 99)}
        filtered = to.search(NORTH, where={"n": {"$gt": 2}})

        def repeat(_: Partition, hits: SearchHits, k: int) -> SearchHits:
            assert hits.vectors is not None
            numbers = np.repeat(np.asarray(hits.numbers), times)[:k].tolist()
            return SearchHits(numbers, np.repeat(hits.vectors, times, axis=0)[:k])

        store.change = repeat
        assert {k: to.search(NORTH, k) for k in (1, 2, 3, 9, 99)} == before
        assert to.search(NORTH, where={"n": {"$gt": 2}}) == filtered

    @pytest.mark.parametrize("change", [None, without_vectors])
    def test_nominees_of_another_space(self, to: Driver, store: OddStore, change: Any) -> None:
        """Only passages of this index are found, even if a store mixes up spaces."""
        foreign = to.open(replace(HERE, tenant="other"))
        texts = [record(f"f{at}", text="foreign", uri=f"{at}.md") for at in range(30)]
        to.add(*texts, namespace=foreign.key.namespace)
        to.open()
        to.add(*(record(f"{at}", values) for at, values in enumerate(ramp(5))))

        def confuse(space: Partition, hits: SearchHits, k: int) -> SearchHits:
            theirs = PlainStore.nearest(store, foreign.space, vector(EAST), k, {}, None)
            assert theirs.vectors is not None
            both = [*theirs.numbers, *hits.numbers]
            rows = [*theirs.vectors, *([] if hits.vectors is None else hits.vectors)]
            changed = SearchHits(both, np.stack(rows))
            return changed if change is None else change(space, changed, k)

        store.change = confuse
        for k in (1, 3, 5, 50):
            matches = to.search(k=k)
            assert len(set(ids(matches))) == len(matches) <= 5
            assert {match.text for match in matches} <= set("01234")

    def test_an_approximate_store_that_finds_little(self, to: Driver, store: OddStore) -> None:
        """Results are sorted, and no chunk is ranked below a less near one."""
        to.open()
        to.add(*(record(f"{9 - at}", values) for at, values in enumerate(ramp(9))))
        store.is_exact = False
        store.change = lambda _, hits, __: SearchHits(hits.numbers[:2])
        matches = to.search()
        assert ids(matches)[:2] == ["9", "8"]
        assert matches == sorted(matches, key=lambda match: (-match.score, match.id))

    def test_a_filter_that_few_pass(self, to: Driver, store: OddStore) -> None:
        """The few chunks that pass a filter are found without reading all others."""
        to.open()
        to.add(*(record(f"{at:03d}", values, n=at) for at, values in enumerate(ramp(300))))
        to.search(where={"n": 7})
        read: list[int] = []

        def ask(view: Any) -> list[str]:
            whole = view.chunks

            def chunks(numbers: list[int]) -> Any:
                read.extend(numbers)
                return whole(numbers)

            view.chunks = chunks
            return view.nearest(vector(EAST), 5, {"n": {"$in": [7, 8, 9]}}).ids

        assert to.index.read(HERE, ask) == ["007", "008", "009"]
        assert len(read) <= 3

    def test_a_filter_against_the_question(self, to: Driver) -> None:
        """Chunks with the score 0 pass a filter like others, and are sorted by id."""
        to.open()
        vectors = {"c": EAST, "b": (-1.0, 0, 0, 0), "a": NORTH, "d": (-1.0, 1, 0, 0), "e": EAST}
        to.add(*(record(name, values, even=name in "bd") for name, values in vectors.items()))
        assert to.hits(where={"even": True}) == ["b", "d"]
        assert to.hits(where={"even": False}) == ["c", "e", "a"]
        assert to.hits(k=1, where={"even": True}) == ["b"]

    def test_a_filter_and_lost_vectors(self, to: Driver, store: OddStore) -> None:
        """A search with a filter detects lost vectors too."""
        entry = to.open()
        to.add(*(record(f"{at}", values, n=at) for at, values in enumerate(ramp(9))))
        store.delete(entry.space, [to.fetch("3")["3"].number])
        with pytest.raises(Exception, match="has lost"):
            to.search(where={"n": {"$in": [2, 3]}})
        assert to.hits(where={"n": 2}) == ["2"]
