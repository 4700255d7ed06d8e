"""Vector numbers are assigned once, kept while a chunk is unchanged, and deleted when dead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lorebind_knowledge.index import index as index_module
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.testing.index_driver import HERE, NORTH, Driver, record

from .every_catalog import OnEveryCatalog
from .plain_stores import PlainStore


class RecordingStore(PlainStore):
    """A store that records added and deleted numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[tuple[int, int]] = []
        self.deleted: list[int] = []
        self.metadata: list[Any] = []

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        self.added += [(space.index_uid, vector.number) for vector in vectors]
        self.metadata += [vector.metadata for vector in vectors]
        super().add(space, vectors)

    def delete(self, space: Partition, numbers: Any) -> None:
        self.deleted += numbers
        super().delete(space, numbers)


class FilteringStore(RecordingStore):
    """A recording store that gets metadata too."""

    filters = True


def numbers(to: Driver, *names: str) -> dict[str, int]:
    return {name: chunk.number for name, chunk in to.fetch(*names).items()}


class TestNumbers(OnEveryCatalog):
    @pytest.fixture
    def store(self) -> RecordingStore:
        return RecordingStore()

    @pytest.fixture(autouse=True)
    def no_sweeps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Disable automatic sweeps."""
        monkeypatch.setattr(index_module, "_SECONDS_BETWEEN_SWEEPS", 1e9)

    def test_a_chunk_keeps_its_number(self, to: Driver, store: RecordingStore) -> None:
        """If only a chunk's position in the document changes, the store is not called."""
        to.open()
        to.add(record("aa", line_start=1), record("bb", line_start=2, context="Title"))
        before, words = numbers(to, "aa", "bb"), to.words("aa bb title")
        added = len(store.added)
        to.stage(
            record("aa", generation=2, line_start=7),
            record("bb", generation=2, line_start=8, context="Title"),
        )
        changes = to.publish(generation=2)
        assert changes == {"a.md": (0, 0, 2)}
        assert len(store.added) == added
        assert numbers(to, "aa", "bb") == before
        assert [match.figure for match in to.words("aa bb title")] == [m.figure for m in words]
        assert [chunk.metadata["line_start"] for chunk in to.fetch("aa", "bb").values()] == [7, 8]
        to.sweep()
        assert store.deleted == []
        assert to.hits() == ["aa", "bb"]

    @pytest.mark.parametrize("change", [{"context": "Other"}, {"text": "other"}], ids=str)
    def test_a_chunk_that_changes(
        self, to: Driver, store: RecordingStore, change: dict[str, Any]
    ) -> None:
        """A chunk whose embedded text changes gets a new vector, and so a new number."""
        to.open()
        to.add(record("aa", context="Title"))
        (before,) = numbers(to, "aa").values()
        to.add(record("aa", **({"context": "Title"} | change), generation=2))
        (after,) = numbers(to, "aa").values()
        assert after > before
        to.sweep()
        assert store.deleted == [before]

    @pytest.mark.parametrize("filters", [False, True])
    def test_metadata_that_changes(self, to: Driver, filters: bool) -> None:
        """Only a store that filters gets metadata, without positions, and gets its changes."""
        store = to.index.store = FilteringStore() if filters else RecordingStore()
        to.open()
        to.add(record("aa", lang="en", line_start=1))
        before = numbers(to, "aa")
        to.add(record("aa", lang="de", line_start=2, generation=2))
        assert (numbers(to, "aa") != before) is filters
        assert store.metadata == ([{"lang": "en"}, {"lang": "de"}] if filters else [{}])

    def test_no_number_is_given_twice(self, to: Driver, store: RecordingStore) -> None:
        """Every number is new, whatever was staged, published, removed, swept or dropped."""
        for _ in range(2):
            entry = to.open()
            for generation in range(1, 6):
                chunks = (record(f"{n}", text=f"{generation}") for n in range(4))
                to.stage(*(replace(chunk, generation=generation) for chunk in chunks))
                to.stage(record("0", text="again", generation=generation))
                if generation % 2:
                    to.publish(generation=generation)
                if generation == 3:
                    to.remove("a.md")
                to.sweep(abandon=True)
                to.stage(record("b", uri="b.md", text=f"{generation}", generation=generation))
            to.sweep(abandon=True)
            to.drop(entry)
        assert len(set(store.added)) == len(store.added) > 20
        assert len({index_uid for index_uid, _ in store.added}) == 2

    def test_exactly_what_is_dead_is_deleted(self, to: Driver, store: RecordingStore) -> None:
        """Vectors of live and staged chunks stay; all others are deleted once."""
        entry = to.open()
        to.add(record("aa"), record("bb"), record("cc", uri="c.md"), record("dd", uri="d.md"))
        first = numbers(to, "aa", "bb", "cc", "dd")
        to.stage(record("bb", generation=2), record("ee", NORTH, generation=2))
        to.stage(record("ee", NORTH, text="again", generation=2))
        to.publish(generation=2)
        to.remove("c.md")
        to.stage(record("dd", uri="d.md", generation=2), record("ff", uri="f.md"))
        alive = {*numbers(to, "bb", "ee", "dd").values(), max(n for _, n in store.added)}
        to.sweep()
        gone = {number for _, number in store.added} - alive
        assert sorted(store.deleted) == sorted(gone)
        assert {first["aa"], first["cc"]} < gone
        assert to.store_count(entry) == len(alive) == 4
        to.sweep()
        assert len(store.deleted) == len(gone)
        to.sweep(abandon=True)
        assert set(store.deleted) - gone == {max(alive)}
        to.agree()

    def test_publishing_sweeps_now_and_then(
        self, to: Driver, store: RecordingStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Publishing sweeps at intervals, so that dead vectors of a long run do not accumulate."""
        monkeypatch.setattr(index_module, "_SECONDS_BETWEEN_SWEEPS", 0.0)
        to.open()
        for generation in range(1, 5):
            to.add(record("a", text=f"{generation}", generation=generation))
        assert len(store.deleted) == 3
        to.remove("a.md")
        assert len(store.deleted) == 4
        assert to.index.read(HERE, lambda view: view.state.entered) == 0
