"""The conformance tests of a vector store as part of an `Index`. They need pytest.

    class TestMyStore(IndexConformance):
        @pytest.fixture
        def store(self):
            store = MyStore(...)        # empty
            yield store
            store.close()

A store whose vectors outlive the process also needs a fixture `reopen`. It returns a function that
opens the data of `store` again.
"""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lorebind_config.errors import StoreError
from lorebind_config.namespace import Namespace
from lorebind_knowledge.index.index import NoIndexError
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.testing.index_driver import (
    DIMENSION,
    EAST,
    HERE,
    NORTH,
    Driver,
    ids,
    ramp,
    record,
    vector,
)
from lorebind_knowledge.testing.index_recovery import IndexRecovery
from lorebind_knowledge.testing.store_driver import FILTERED

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.stores.base import VectorStore


NEIGHBOURS = [
    replace(HERE, tenant="other"),
    replace(HERE, project="other"),
    replace(HERE, scope="other"),
    replace(HERE, kb="other"),
    # Joined without separators, these names equal those of HERE.
    Namespace("acme/support", "project", "handbook", ""),
]


class IndexConformance(IndexRecovery):
    """The tests of an index with a store. Inherit it and define a fixture `store`, an empty one."""

    @pytest.fixture
    def reopen(self) -> Callable[[], VectorStore] | None:
        """Return a function that opens the same vectors in a new store; None if none persist."""
        return None

    # Writing

    def test_staged_is_not_found(self, to: Driver) -> None:
        """Staged chunks are neither found nor counted before they are published."""
        to.open()
        to.stage(record("first", uri="b.md"))
        assert to.search() == []
        to.publish("b.md")
        to.stage(record("second"))
        assert to.hits() == ["first"]
        assert ids(to.words("first second")) == ["first"]
        assert to.count() == 1
        to.publish()
        assert to.hits() == ["first", "second"]
        assert ids(to.words("first second")) == ["first", "second"]
        assert to.count() == 2

    def test_publishing_replaces_the_document(self, to: Driver) -> None:
        """Only one generation of a document is found at a time; other documents stay."""
        to.open()
        to.add(record("a1"), record("a2"), record("b1", uri="b.md", generation=7))
        to.stage(record("a2", generation=2), record("a3", generation=2))
        assert to.hits() == ["a1", "a2", "b1"]
        assert to.publish(generation=2) == {"a.md": (1, 1, 1)}
        assert to.hits() == ["a2", "a3", "b1"]
        assert to.count() == 3

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

    # Searching

    def test_best_first(self, to: Driver) -> None:
        """Matches are sorted by their raw cosines."""
        to.open()
        vectors = ramp(20)
        to.add(*(record(f"{99 - at}", values) for at, values in enumerate(vectors)))
        matches = to.search()
        assert ids(matches) == [str(99 - at) for at in range(20)]
        for match, values in zip(matches, vectors, strict=True):
            cosine = 1.0 / math.hypot(*values)
            assert match.figure == pytest.approx(cosine, abs=1e-6)
            assert match.score == pytest.approx(cosine, abs=1e-6)
            assert match.score == round(match.score, 6)

    def test_length_does_not_matter(self, to: Driver) -> None:
        """The score is the cosine: the lengths of vectors do not change it."""
        to.open()
        to.add(record("a", (1e-6, 1e-6, 0, 0)), record("b", (3e6, 3e6, 0, 0)))
        for scale in (1e-3, 1.0, 1e3):
            matches = to.search((scale, 0, 0, 0))
            assert ids(matches) == ["a", "b"]
            assert [m.score for m in matches] == pytest.approx([math.sqrt(0.5)] * 2, abs=1e-6)

    def test_ties_go_by_id(self, to: Driver) -> None:
        """Equal vectors have equal scores in any document, and are sorted by id."""
        to.open()
        values = (0.3, 0.1, -0.7, 0.2)
        names = [f"{number * 7919 % 1009:04d}" for number in range(60)]
        to.add(*(record(name, values, uri=f"{name[-1]}.md") for name in names))
        matches = to.search((0.2, -0.5, -0.4, 0.9))
        assert ids(matches) == sorted(names)
        assert len({match.score for match in matches}) == 1

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
        matches = to.search()
        assert [(m.id, m.score) for m in matches] == [("c", 1.0), ("a", 0.0), ("b", 0.0)]
        assert [m.figure for m in matches] == pytest.approx([1.0, -1.0, 0.0], abs=1e-6)
        assert to.hits(k=2) == ["c", "a"]

    def test_zero_vectors(self, to: Driver) -> None:
        """A vector of length 0, of a query or a chunk, has the cosine 0 with every vector."""
        to.open()
        to.add(record("b"), record("a", NORTH), record("c", (0.0,) * 4))
        matches = to.search((0.0,) * 4)
        assert [(m.id, m.score, m.figure) for m in matches] == [
            ("a", 0.0, 0.0),
            ("b", 0.0, 0.0),
            ("c", 0.0, 0.0),
        ]
        assert to.hits(k=2) == ["b", "a"]

    def test_dead_vectors_take_nobodys_place(self, to: Driver) -> None:
        """`k` chunks are found, even if many dead or staged ones are nearer."""
        to.open()
        to.index.sweep(to.lease(), to.entry())  # now, so that publishing does not sweep
        to.add(*(record(f"old {at}") for at in range(40)))
        to.add(record("far", (1.0, 2.0, 0, 0), generation=2))
        to.stage(*(record(f"new {at}", generation=3) for at in range(40)))
        to.add(record("farther", (1.0, 3.0, 0, 0), uri="b.md"))
        assert to.hits(k=1) == ["far"]
        assert to.hits(k=2) == ["far", "farther"]

    # Filtering

    @pytest.mark.parametrize(("shelf", "filters"), FILTERED, ids=["values", "ranges"])
    def test_filters(self, to: Driver, shelf: Any, filters: Any) -> None:
        """A metadata filter means what `lorebind_config.filters` says."""
        to.open()
        to.add(*(replace(record(name), metadata=fields) for name, fields in shelf.items()))
        for where, expected in filters:
            assert "".join(to.hits(where=where)) == expected, where
            assert "".join(to.hits(where=where, values=(0.0,) * 4)) == expected, where

    def test_filter_comes_before_the_cut(self, to: Driver) -> None:
        """`k` counts only chunks that pass the filter, however low they rank."""
        to.open()
        vectors = ramp(30)
        to.add(*(record(f"{at:02d}", values, n=at) for at, values in enumerate(vectors)))
        assert to.hits(k=2, where={"n": {"$gte": 20}}) == ["20", "21"]

    def test_filter_sees_what_is_published(self, to: Driver) -> None:
        """A repeated filter sees newly published generations."""
        to.open()
        to.add(record("a", state="old"), record("b", uri="b.md", state="old"))
        assert to.hits(where={"state": "old"}) == ["a", "b"]
        to.add(record("a", generation=2, state="new"))
        assert to.hits(where={"state": "old"}) == ["b"]
        assert to.hits(where={"state": "new"}) == ["a"]

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
        assert to.hits() == ["a", "b"]
        assert to.index.compare(to.entry(), deep=True).lost == []

    # Indexes

    def test_an_empty_index(self, to: Driver) -> None:
        """An empty index gives empty results."""
        entry = to.open()
        assert to.search() == []
        assert to.search(where={"lang": "en"}) == []
        assert to.words("anything") == []
        assert to.count() == 0
        assert to.remove("a.md") == 0
        assert to.index.compare(entry, deep=True)[:2] == (0, [])

    def test_a_successor(self, to: Driver) -> None:
        """An index that is being built is not searched; once activated, only it is searched."""
        first = to.open()
        to.add(record("a", text="old"))
        second = to.build(dimension=2)
        assert second.key.number == first.key.number + 1
        built = [record("a", (1.0, 0.0), text="new"), record("b", (1.0, 0.0), text="new")]
        to.index.stage(to.lease(), second, built)
        to.index.publish(to.lease(), second, {"a.md": 1})
        assert [match.text for match in to.search()] == ["old"]
        assert to.words("new") == []
        to.catalog.ledger.activate_index(to.lease(), second.key)
        assert [match.text for match in to.search((1.0, 0.0))] == ["new", "new"]
        to.drop(first)
        assert to.count() == 2
        assert to.index.compare(second, deep=True)[:2] == (2, [])

    def test_drop(self, to: Driver) -> None:
        """A dropped index is gone and can be dropped again; its successor is empty."""
        entry = to.open()
        to.add(record("a", text="bread"))
        to.drop(entry)
        with pytest.raises(NoIndexError):
            to.search()
        to.drop(entry)
        again = to.open(dimension=2)
        assert (again.key, again.space.name) != (entry.key, entry.space.name)
        assert to.search((1.0, 0.0)) == []
        assert to.words("bread") == []
        to.add(record("b", (0.0, 1.0)))
        assert to.hits(values=(1.0, 0.0)) == ["b"]

    # Concurrency and persistence

    def test_readers_never_see_a_gap_or_a_mixture(self, to: Driver) -> None:
        """While generations replace each other, every search finds exactly one, complete."""
        last, size = 12, 3
        to.open()
        to.add(*(record(f"1-{n}", n=1) for n in range(size)))
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(2, last + 1):
                    names = [f"{number}-{n}" for n in range(size)]
                    to.add(*(record(x, generation=number, n=number) for x in names))
                    to.sweep()
            finally:
                done.set()

        def read() -> None:
            newest = 1
            while not done.is_set():
                seen = [match.metadata["n"] for match in to.search()]
                assert seen == seen[:1] * size
                assert seen[0] >= newest
                newest = seen[0]

        with ThreadPoolExecutor(4) as threads:
            for task in [threads.submit(write), *(threads.submit(read) for _ in range(3))]:
                task.result()
        assert to.hits() == [f"{last}-{n}" for n in range(size)]

    def test_threads_of_a_writer_do_not_lose_each_other(self, to: Driver) -> None:
        """Documents that threads of one writer write at the same time are all found afterwards."""
        entry = to.open()

        def write(uri: str) -> None:
            for number in range(1, 6):
                to.add(record(f"{uri}-{number}", uri=uri, generation=number))
                to.sweep()

        uris = [f"{at}.md" for at in range(8)]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(write, uris))
        assert to.hits() == sorted(ids(to.words("md"))) == [f"{uri}-5" for uri in uris]
        assert to.index.compare(entry, deep=True)[:2] == (len(uris), [])
        to.agree()

    def test_what_was_written_persists(
        self,
        to: Driver,
        reopen: Callable[[], VectorStore] | None,
        make_catalog: Callable[[], Catalog],
    ) -> None:
        """Another index on the same data has its published and staged chunks."""
        if reopen is None:
            pytest.skip("nothing persists: there is no `reopen`")
        to.open()
        to.add(record("a", (1.0, 2.0, 3.0, 4.0), text="kept", tags=["x"]))
        to.stage(record("b", generation=2))
        before = to.search(), to.words("kept")
        to.close()
        with closing(Driver(reopen(), make_catalog())) as again:
            assert (again.search(), again.words("kept")) == before
            again.publish(generation=2)
            assert again.hits() == ["b"]

    def test_two_stores_on_the_same_data(
        self,
        to: Driver,
        reopen: Callable[[], VectorStore] | None,
        make_catalog: Callable[[], Catalog],
    ) -> None:
        """The next search of another index sees published and removed documents."""
        if reopen is None:
            pytest.skip("nothing persists: there is no `reopen`")
        with closing(Driver(reopen(), make_catalog())) as other:
            entry = to.open()
            to.add(record("a"))
            assert other.hits() == ["a"]
            to.add(record("b", generation=2))
            to.sweep()
            assert other.hits() == ["b"]
            to.remove("a.md")
            to.sweep()
            assert other.hits() == []
            to.drop(entry)
            with pytest.raises(NoIndexError):
                other.search()

    def test_close(self, to: Driver) -> None:
        """Closing twice is allowed; searching a closed store is an error, not an empty result."""
        to.open()
        to.add(record("a"))
        finish(to.store.close())
        finish(to.store.close())
        with pytest.raises(StoreError, match="closed"):
            to.index.read(HERE, lambda view: view.nearest(vector(NORTH), 1))
