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

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lorebind_config.errors import StoreError
from lorebind_knowledge.index.index import NoIndexError
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.testing.index_driver import HERE, NORTH, Driver, record, vector
from lorebind_knowledge.testing.index_recovery import IndexRecovery
from lorebind_knowledge.testing.index_searching import IndexSearching
from lorebind_knowledge.testing.index_writing import IndexWriting

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.stores.base import VectorStore


class IndexConformance(IndexWriting, IndexSearching, IndexRecovery):
    """The tests of an index with a store. Inherit it and define a fixture `store`, an empty one."""

    @pytest.fixture
    def reopen(self) -> Callable[[], VectorStore] | None:
        """Return a function that opens the same vectors in a new store; None if none persist."""
        return None

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

    def test_where_nothing_was_ingested(self, to: Driver) -> None:
        """A knowledge base without an active index cannot be searched."""
        with pytest.raises(NoIndexError):
            to.search()
        to.build()
        with pytest.raises(NoIndexError):
            to.search()

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
        assert to.found(values=(1.0, 0.0)) == ["b"]

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

    # Concurrency and persistence

    def test_readers_never_see_a_gap_or_a_mixture(self, to: Driver) -> None:
        """While generations replace each other, every search finds exactly one, complete."""
        last, size = 25, 3
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
                found = [match.metadata["n"] for match in to.search()]
                assert found == found[:1] * size
                assert found[0] >= newest
                newest = found[0]

        with ThreadPoolExecutor(4) as threads:
            for task in [threads.submit(write), *(threads.submit(read) for _ in range(3))]:
                task.result()
        assert to.found() == [f"{last}-{n}" for n in range(size)]

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
        assert to.found() == [f"{uri}-5" for uri in uris]
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
            assert again.found() == ["b"]

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
            assert other.found() == ["a"]
            to.add(record("b", generation=2))
            to.sweep()
            assert other.found() == ["b"]
            to.remove("a.md")
            to.sweep()
            assert other.found() == []
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
