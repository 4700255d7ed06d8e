"""Reading an index during writes: a result belongs to one moment, or the read is repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lorebind_config.errors import StoreError
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.index.view import View
from lorebind_knowledge.testing.index_driver import HERE, Driver, ids, record, vector
from tests.density import DENSE

from .every_catalog import OnEveryCatalog
from .plain_stores import PlainStore

ANSWERS = 2000 if DENSE else 700
SECONDS = 4.0
"""Seconds after which the test ends, even with fewer than `ANSWERS` results."""
SIZE = 4
"""Number of chunks of a document."""


def state(view: View) -> str:
    """Return the generation of the only document, after checking it in every kind of query."""
    near = sorted(view.nearest(vector([1.0, 0.0, 0.0, 0.0]), 9).ids)
    worded = sorted(view.bm25_search("passage", 9).ids)
    whole = [chunk.id for chunk in view.document("a.md")]
    assert near == worded == whole
    chunks = view.named(whole)
    assert len(whole) == len(chunks) == view.state.live == SIZE
    (generation,) = {chunk.text.split()[1] for chunk in chunks.values()}
    return generation


def write(to: Driver, generation: int) -> None:
    """Replace the document with another generation."""
    to.add(
        *(
            record(f"{generation} {at}", text=f"passage {generation}", generation=generation)
            for at in range(SIZE)
        )
    )


class TestReaders(OnEveryCatalog):
    @pytest.fixture(autouse=True)
    def more_than_one_connection(self, request: pytest.FixtureRequest) -> None:
        if "memory" in request.node.name and "threads" not in request.node.name:
            pytest.skip("a catalog in memory has one connection: nobody writes while it is read")

    def test_the_moment_of_a_view(self, to: Driver) -> None:
        """A reader does not see publications during its read, and need not repeat it."""
        to.open()
        write(to, 1)
        to.sweep()
        states = []

        def ask(view: View) -> str:
            states.append(state(view))
            write(to, len(states) + 1)
            return state(view)

        assert to.index.read(HERE, ask) == "1"
        assert states == ["1"]
        assert to.index.read(HERE, state) == "2"

    def test_what_was_swept_while_it_was_read(self, to: Driver) -> None:
        """A reader whose passages were deleted during its read starts again."""
        to.open()
        write(to, 1)
        versions = []

        def ask(view: View) -> list[str]:
            versions.append(view.state.version)
            if len(versions) == 1:
                write(to, 2)
                to.sweep()
            return ids_of(view)

        assert to.index.read(HERE, ask) == [f"2 {at}" for at in range(SIZE)]
        assert len(versions) == 2

    def test_an_index_that_was_dropped_while_it_was_read(self, to: Driver) -> None:
        """A reader whose index was dropped starts again with the index that replaced it."""
        first = to.open()
        write(to, 1)
        numbers = []

        def ask(view: View) -> list[str]:
            numbers.append(view.index.key.number)
            if len(numbers) == 1:
                to.open()
                write(to, 2)
                to.drop(first)
            return ids_of(view)

        assert to.index.read(HERE, ask) == [f"2 {at}" for at in range(SIZE)]
        assert numbers == [1, 2]

    def test_an_index_that_never_rests(self, to: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        """A reader of an index that keeps changing finally fails with the reason."""
        monkeypatch.setattr("lorebind_knowledge.index.index._LONGEST_PAUSE", 0.0)
        to.open()
        write(to, 1)
        versions = []

        def ask(view: View) -> None:
            versions.append(view.state.version)
            write(to, len(versions) + 1)
            to.sweep()

        with pytest.raises(
            StoreError, match=r"'handbook' kept changing while it was being searched"
        ):
            to.index.read(HERE, ask)
        assert len(versions) == len(set(versions)) > 5

    def test_threads_that_read_while_one_writes(
        self, to: Driver, store: PlainStore, make_catalog: Callable[[], Catalog]
    ) -> None:
        """Every reader finds a complete document, however often the index is swept."""
        to.open()
        write(to, 1)
        enough = threading.Event()
        answers: list[str] = []
        end = time.monotonic() + SECONDS

        def read() -> None:
            index = Index(store, make_catalog())
            newest = 0
            try:
                while not enough.is_set():
                    seen = int(index.read(HERE, state))
                    assert seen >= newest
                    newest = seen
                    answers.append(str(seen))
            finally:
                enough.set()

        def work() -> int:
            generation = 1
            while not enough.is_set():
                generation += 1
                write(to, generation)
                if generation % 5 == 0:
                    to.sweep()
                if len(answers) > ANSWERS or time.monotonic() > end:
                    enough.set()
                time.sleep(0.001)
            return generation

        with ThreadPoolExecutor(4) as threads:
            readers = [threads.submit(read) for _ in range(3)]
            last = threads.submit(work).result()
            for reader in readers:
                reader.result()
        assert last > 5
        assert len(set(answers)) > 3
        assert ids(to.search()) == [f"{last} {at}" for at in range(SIZE)]
        to.agree()


def ids_of(view: View) -> list[str]:
    return view.nearest(vector([1.0, 0.0, 0.0, 0.0]), 9).ids
