"""The conformance tests of interruptions and losses, which `IndexConformance` inherits."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.stores.base import LostVectorsError, StoredVector
from lorebind_knowledge.testing.index_driver import (
    EAST,
    HERE,
    NORTH,
    Driver,
    IndexTests,
    ids,
    record,
    vector,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.records import Partition
    from lorebind_knowledge.stores.base import VectorStore

_SLANT = (1.0, 1.0, 0.0, 0.0)
_BEFORE = {"a.md": "a1 a2", "b.md": "b1", "c.md": "c1 c2", "d.md": ""}
_AFTER = {"a.md": "a2 a3", "b.md": "b1", "c.md": "", "d.md": "d1 d2"}
"""The ids of the chunks of documents, before and after `edit`."""


def begin(to: Driver, namespace: Namespace) -> None:
    """Create an index with three documents."""
    to.open(namespace)
    to.add(
        record("a1", NORTH, text="old bread"),
        record("a2", text="bread and butter"),
        record("b1", _SLANT, uri="b.md", text="butter"),
        record("c1", uri="c.md", text="milk"),
        record("c2", NORTH, uri="c.md", text="milk and bread"),
        namespace=namespace,
    )


def edit(to: Driver, generation: int, namespace: Namespace) -> None:
    """Write what a run writes: changed documents, a new one, and a removed one."""
    entry = to.entry(namespace)
    to.sweep(namespace, abandon=True)
    to.stage(
        record("a2", text="bread and butter", generation=generation),
        record("a3", text="new bread", generation=generation),
        record("d1", NORTH, uri="d.md", text="cheese", generation=generation),
        record("d2", uri="d.md", text="cheese and bread", generation=generation),
        namespace=namespace,
    )
    rows = [DocumentEntry(uri, "s", generation=generation) for uri in ("a.md", "d.md")]
    generations = {"a.md": generation, "d.md": generation}
    to.index.publish(to.lease(namespace), entry, generations, rows, "run")
    to.add(
        record(
            "b1", EAST, uri="b.md", text="butter", context="Better bread", generation=generation
        ),
        namespace=namespace,
    )
    to.remove("c.md", namespace=namespace)
    to.sweep(namespace)
    to.index.finish_load(entry)


def documents(view: View) -> dict[str, str]:
    """Return the ids of live chunks by document, after checking three ways to find them."""
    seen = {uri: " ".join(chunk.id for chunk in view.document(uri)) for uri in _BEFORE}
    every = " ".join(filter(None, seen.values())).split()
    assert sorted(view.nearest(vector(_SLANT), 100).ids) == sorted(every)
    matching = view.bm25_search("bread butter milk cheese", 100)
    assert sorted(matching.ids) == sorted(every)
    assert view.nearest(vector(_SLANT), 5, {"no": "passage"}).ids == []
    assert view.state.live == len(every)
    return seen


def answers(to: Driver, namespace: Namespace) -> Any:
    """Return the results of all queries to an index."""
    words = "bread butter milk cheese better new old"
    seen = to.index.read(namespace, documents)
    rows = list(to.catalog.ledger.documents(to.entry(namespace).key))
    return to.search(_SLANT, namespace=namespace), to.words(words, namespace=namespace), seen, rows


class Crash(Exception):  # noqa: N818 - nothing is wrong but that it ends here
    """The end of a writer."""


class Steps:
    """Counts the steps of a writer, and ends the writer at one of them.

    A step `before …` that follows one `after …` does not count: nothing was written in between.
    """

    def __init__(self) -> None:
        self.taken, self._fatal = 0, 0
        self._last = ""

    def step(self, name: str) -> None:
        counts = not (self._last.startswith("after ") and name.startswith("before "))
        self._last = name
        if not counts:
            return
        self.taken += 1
        if self.taken == self._fatal:
            raise Crash(name)

    def end_at(self, fatal: int) -> None:
        """End the writer at a step, counted from 1 and from now; 0 means never."""
        self.taken, self._fatal, self._last = 0, fatal, ""


class WatchedStore:
    """A wrapper around a store that calls a function `watch` at each step of a write.

    The steps are `before add`, `within add` with half of the vectors written, `after add`, and the
    same for `delete` and `drop`. Errors that `watch` raises reach the caller.
    """

    def __init__(self, store: VectorStore, watch: Callable[[str], object]) -> None:
        self.inner, self.watch = store, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        self._write(self.inner.add, space, vectors)

    def delete(self, space: Partition, numbers: Collection[int]) -> None:
        self._write(self.inner.delete, space, list(numbers))

    def drop(self, space: Partition) -> None:
        self.watch("before drop")
        finish(self.inner.drop(space))
        self.watch("after drop")

    def __str__(self) -> str:
        return str(self.inner)

    def _write(self, write: Callable[..., Any], space: Partition, items: Sequence[Any]) -> None:
        half = len(items) // 2
        self.watch(f"before {write.__name__}")
        if half:
            finish(write(space, items[:half]))
        self.watch(f"within {write.__name__}")
        finish(write(space, items[half:]))
        self.watch(f"after {write.__name__}")


def watched_driver(
    store: VectorStore,
    catalog: Catalog,
    watch: Callable[[str], object],
    patch: pytest.MonkeyPatch,
) -> Driver:
    """Make an index that calls `watch` at each step that writes to the store or the catalog."""
    writing = catalog.writing

    @contextmanager
    def watched(lease: Lease) -> Iterator[Any]:
        watch("before a transaction")
        with writing(lease) as connection:
            yield connection
            watch("before a commit")
        watch("after a commit")

    patch.setattr(catalog, "writing", watched)
    # Otherwise a slow writer sweeps more often, and so takes more steps.
    patch.setattr("lorebind_knowledge.index.index._SECONDS_BETWEEN_SWEEPS", inf)
    return Driver(cast("VectorStore", WatchedStore(store, watch)), catalog)


class IndexRecovery(IndexTests):
    """The tests of recovery from interruptions and losses, with every store."""

    def test_nothing_half_done_is_seen(
        self,
        store: VectorStore,
        make_catalog: Callable[[], Catalog],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Between any two steps of a writer, a search finds each document complete."""
        seen: list[dict[str, str]] = []
        reader = Driver(store, make_catalog())

        def look(step: str) -> None:
            # A catalog in memory has only one connection, which the writer uses then.
            if looking and step != "before a commit":
                seen.append(reader.index.read(HERE, documents))

        looking = False
        to = watched_driver(store, make_catalog(), look, monkeypatch)
        begin(to, HERE)
        looking = True
        edit(to, 2, HERE)
        to.let_go()
        assert len(seen) > 20
        assert seen[0] == _BEFORE
        assert seen[-1] == _AFTER
        for uri in _BEFORE:
            changed = [documents_seen[uri] for documents_seen in seen].index(_AFTER[uri])
            assert {view[uri] for view in seen[:changed]} <= {_BEFORE[uri]}
            assert {view[uri] for view in seen[changed:]} == {_AFTER[uri]}

    def test_a_crash_at_any_step(
        self,
        store: VectorStore,
        make_catalog: Callable[[], Catalog],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """After a crash at any step, documents are complete, and the next run gives the result."""
        steps = Steps()
        to = watched_driver(store, make_catalog(), steps.step, monkeypatch)
        undisturbed = replace(HERE, kb="undisturbed")
        begin(to, undisturbed)
        steps.end_at(0)
        edit(to, 2, undisturbed)
        expected, last = answers(to, undisturbed), steps.taken
        assert expected[2] == _AFTER
        for fatal in range(1, last + 1):
            here = replace(HERE, kb=f"step {fatal}")
            begin(to, here)
            steps.end_at(fatal)
            with pytest.raises(Crash):
                edit(to, 2, here)
            to.let_go()
            steps.end_at(0)
            left = to.index.read(here, documents)
            assert all(left[uri] in (_BEFORE[uri], _AFTER[uri]) for uri in left)
            edit(to, 3, here)
            assert answers(to, here) == expected
            to.agree(here)
        to.let_go()

    def test_a_crash_while_an_index_is_dropped(
        self,
        store: VectorStore,
        make_catalog: Callable[[], Catalog],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A partly dropped index can be dropped again; its successor is searched all the time."""
        steps = Steps()
        to = watched_driver(store, make_catalog(), steps.step, monkeypatch)
        crashed = True
        for fatal in count(1):
            here = replace(HERE, kb=f"step {fatal}")
            begin(to, here)
            first = to.entry(here)
            to.open(here)
            to.add(record("new"), namespace=here)
            steps.end_at(fatal)
            try:
                to.drop(first)
                crashed = False
            except Crash:
                assert to.hits(namespace=here) == ["new"]
                to.drop(first)
            steps.end_at(0)
            assert to.catalog.ledger.retired_indexes(here) == []
            assert to.hits(namespace=here) == ["new"]
            assert to.store_count(first) in (None, 0)
            to.agree(here)
            if not crashed:
                break
        assert fatal > 5
        to.let_go()

    def test_vectors_that_came_too_late(self, to: Driver) -> None:
        """Vectors added after another writer has taken over are never found, and can be deleted."""
        entry = to.open()
        to.add(record("bread"), record("tea", NORTH))
        to.stage(record("milk", uri="b.md"), record("rice", NORTH, uri="b.md"))
        last = max(chunk.number for chunk in to.fetch("bread", "tea").values())
        to.let_go()
        to.sweep(abandon=True)
        late = [StoredVector(last + n, vector(EAST), "late", {}) for n in (1, 2)]
        finish(to.store.add(entry.space, late))
        assert to.hits() == ["bread", "tea"]
        to.index.delete_strays(to.lease(), entry)
        if to.store_count(entry) is not None:
            assert to.store_count(entry) == 2
        to.agree()
        to.add(record("milk", uri="b.md", generation=2))
        assert to.hits() == ["bread", "milk", "tea"]

    # Losses

    def test_lost_vectors(self, to: Driver) -> None:
        """Vectors that the store has lost are detected, listed, and can be restored."""
        entry = to.open()
        to.add(
            record("bread"), record("milk", _SLANT, uri="b.md", context="B"), record("tea", NORTH)
        )
        before = to.search(), to.words("bread milk tea")
        number = to.fetch("milk")["milk"].number
        finish(to.store.delete(entry.space, [number]))
        try:
            assert number not in finish(to.store.get(entry.space, [number]))
        except NotImplementedError:
            pytest.skip("the store cannot look up vectors")
        assert to.index.compare(entry)[:2] == (3, [number])
        assert to.index.compare(entry, deep=True)[:2] == (3, [number])
        if to.store.is_exact or to.store_count(entry) is not None:
            with pytest.raises(LostVectorsError, match="lorebind knowledge ingest handbook"):
                to.search()
        assert to.index.lost_texts(entry, [number]) == {number: "B\nmilk"}
        to.index.restore(to.lease(), entry, {number: vector(_SLANT) / np.float32(2**0.5)})
        assert to.index.compare(entry, deep=True)[:2] == (3, [])
        assert (to.search(), to.words("bread milk tea")) == before

    def test_a_store_that_was_emptied(self, to: Driver) -> None:
        """A search of an emptied store is an error with a suggested fix, not an empty result."""
        entry = to.open()
        to.add(*(record(f"word{at}") for at in range(30)))
        finish(to.store.drop(entry.space))
        if to.store.is_exact or to.store_count(entry) is not None:
            with pytest.raises(LostVectorsError, match="lorebind knowledge ingest handbook"):
                to.search(k=3)
        if to.store_count(entry) is not None:
            assert len(to.index.compare(entry).lost) == 30
        assert ids(to.words("word7")) == ["word7"]
