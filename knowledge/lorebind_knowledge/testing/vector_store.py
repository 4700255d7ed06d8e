"""The conformance tests of `VectorStore`. They need pytest and pytest-asyncio, without settings:

    from lorebind_knowledge.testing import VectorStoreConformance

    class TestMyStore(VectorStoreConformance):
        @pytest.fixture
        def store(self):
            store = MyStore(...)        # empty
            yield store
            store.close()

A fixture may be `async def` too; pytest-asyncio then needs the setting `asyncio_mode = auto`. A
store whose vectors outlive the process also needs a fixture `reopen`. It returns a function that
opens the data of `store` again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import StoreError
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.stores.base import ApproximateStore, StoredVector, VectorStore
from lorebind_knowledge.testing.searching import SearchingConformance
from lorebind_knowledge.testing.store_driver import Driver, space, vector, vectors

BIG = [1, 2**31, 2**53 + 1, 2**63 - 2, 2**63 - 1]
TEXTS = [
    "",
    " \t\r\n ",
    "漢字 é e\u0301 🜚👩‍👩‍👧 \u202eשלום",
    "'; drop table x; -- $1 %s {} \\",
    "\ufeff\ufffe\x01\x7f",
    "long " * 60_000,
]
METADATA: dict[str, Any] = {
    "title": "Ünïcode 漢字 🜚 \u2028",
    "": "empty name",
    "a.b": "dot",
    "$x": "dollar",
    "quote'\"\\": None,
    "nested": {"list": [1, [2, [True, None]], {"deep": "er"}], "empty": {}},
    "numbers": [0, -1, 2**53, 1e-12, 0.1],
    "long": "x" * 100_000,
    **{f"field {number}": number for number in range(100)},
}


class VectorStoreConformance(SearchingConformance):
    """The tests of `VectorStore`. Inherit it and define a fixture `store`, an empty one."""

    keeps_nul = True
    """Whether a text may contain the character NUL. If not, `add` must raise StoreError for it."""

    @pytest.fixture
    def reopen(self) -> Callable[[], VectorStore] | None:
        """Return a function that opens the same data in a new store; None if nothing persists."""
        return None

    async def test_is_a_vector_store(self, store: VectorStore) -> None:
        """The store has every member of the protocol, and a text for messages."""
        assert isinstance(store, VectorStore)
        flags = store.is_exact, store.filters, store.returns_vectors, store.counts_fast
        assert {type(flag) for flag in flags} == {bool}
        assert str(store)

    async def test_a_space_that_nothing_was_added_to(self, to: Driver) -> None:
        """A new space is empty; deleting from it, dropping it and adding nothing have no effect."""
        await to.delete(1, 2)
        await to.drop()
        await to.add([], [])
        assert await to.counts(0)
        assert await to.get(1) == {}
        assert await to.hits() == []

    # Adding

    async def test_what_was_added_comes_back(self, to: Driver) -> None:
        """`get` returns vectors as they were added, and omits missing numbers."""
        matrix = vectors(20)
        await to.add(range(1, 21), matrix)
        stored = await to.get(20, 7, 99, 1)
        assert sorted(stored) == [1, 7, 20]
        for number, row in stored.items():
            if not to.store.returns_vectors:
                assert row is None
                continue
            assert row is not None
            assert row.dtype == np.float32
            np.testing.assert_allclose(row, matrix[number - 1], atol=1e-6)
        assert await to.get() == {}

    async def test_big_numbers(self, to: Driver) -> None:
        """Any number from 1 to 2**63 - 1 is valid."""
        await to.add(BIG, vectors(len(BIG)))
        assert await to.hits() == BIG
        assert sorted(await to.get(*BIG)) == BIG
        await to.delete(2**63 - 1)
        assert await to.hits() == BIG[:-1]

    async def test_adding_again(self, to: Driver) -> None:
        """A number that is added twice with its vector is stored once."""
        matrix = vectors(5)
        await to.add(range(1, 6), matrix)
        await to.add(range(3, 6), matrix[2:])
        assert await to.hits() == [1, 2, 3, 4, 5]
        assert await to.counts(5)
        await to.delete(4)
        assert await to.hits() == [1, 2, 3, 5]

    async def test_in_any_order(self, to: Driver) -> None:
        """Numbers may be added in any order, a few at a time, between searches."""
        matrix = vectors(30)
        order = np.random.default_rng(6).permutation(30)
        for step in range(0, 30, 7):
            some = order[step : step + 7].tolist()
            await to.add([at + 1 for at in some], matrix[some])
            there = sorted(at + 1 for at in order[: step + 7].tolist())
            assert await to.hits() == there
        for number, row in (await to.get(*range(1, 31))).items():
            assert row is None or np.allclose(row, matrix[number - 1], atol=1e-6)

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    async def test_any_text(self, to: Driver, text: str) -> None:
        """A text may have any script and any length."""
        await to.add([1], vectors(1), text)
        assert await to.hits() == [1]

    async def test_nul(self, to: Driver) -> None:
        """The character NUL is stored, or refused."""
        odd = [{"note": "be\0af"}]
        if self.keeps_nul:
            await to.add([1], vectors(1), "before\0after", odd)
            assert await to.hits() == [1]
        else:
            with pytest.raises(StoreError):
                await to.add([1], vectors(1), "before\0after", odd)

    async def test_any_metadata(self, to: Driver) -> None:
        """Metadata may be any JSON object: nested, in any script, with odd names and big values."""
        await to.add([1, 2], vectors(2), metadata=[METADATA, {}])
        assert await to.hits() == [1, 2]
        assert 1 in await to.hits(where={"title": METADATA["title"]})

    async def test_nothing_stored_is_shared(self, to: Driver) -> None:
        """Changes to arguments or results do not change stored data."""
        east = vector(1, 0, 0, 0)
        argument, fields = east.copy(), {"tags": ["x"]}
        added = [StoredVector(1, argument, "text", fields if to.store.filters else {})]
        await call(to.store.add, to.space, added)
        argument[:] = 0.5
        fields["tags"].append("y")
        added.clear()
        assert await to.hits(where={"tags": "x"}) == [1]
        for _ in range(2):
            hits = await to.nearest(east, 1)
            handed_out = [*(await to.get(1)).values(), hits.vectors]
            for array in handed_out:
                if array is not None:
                    np.testing.assert_allclose(array.reshape(-1), east, atol=1e-6)
                    with suppress(ValueError):  # it may be read-only
                        array[:] = 0.5

    async def test_any_array(self, to: Driver) -> None:
        """A vector may be a view into a larger array, or read-only."""
        wide = np.zeros((2, 8), np.float32)
        wide[:, 2] = 1.0
        wide.setflags(write=False)
        await to.add([1], [wide[1, ::2]])
        stored = (await to.get(1))[1]
        assert stored is None or stored.tolist() == [0, 1, 0, 0]

    # Deleting

    async def test_delete(self, to: Driver) -> None:
        """Deleted numbers are gone; numbers that never existed are ignored."""
        await to.add(range(1, 11), vectors(10))
        await to.delete(2, 3, 99)
        assert await to.hits() == [1, 4, 5, 6, 7, 8, 9, 10]
        assert sorted(await to.get(1, 2, 3, 4)) == [1, 4]
        assert await to.counts(8)
        await to.delete(2)
        await to.delete()
        assert await to.counts(8)
        await to.delete(*range(1, 11))
        assert await to.hits() == []
        assert await to.get(1) == {}
        assert await to.counts(0)

    async def test_odd_orders(self, to: Driver) -> None:
        """A number may be deleted before it is added, and added again after it was deleted."""
        matrix = vectors(3)
        await to.delete(1)
        await to.add([1, 2], matrix[:2])
        assert await to.hits() == [1, 2]
        await to.delete(1)
        await to.delete(1)
        assert await to.hits() == [2]
        await to.add([1], matrix[:1])
        assert await to.hits() == [1, 2]
        await to.delete(1, 2)
        await to.add([3], matrix[2:])
        assert await to.hits() == [3]

    async def test_drop(self, to: Driver) -> None:
        """A dropped space is empty and can be filled again; other spaces do not change."""
        other = to.about(space(number=2))
        await to.add([1, 2], vectors(2))
        await other.add([1, 2, 3], vectors(3))
        assert await to.hits() == [1, 2]
        await to.drop()
        await to.drop()
        assert await to.hits() == []
        assert await to.get(1) == {}
        assert await to.counts(0)
        assert await other.hits() == [1, 2, 3]
        await to.add([5], vectors(1))
        assert await to.hits() == [5]
        assert await to.counts(1)

    async def test_spaces_do_not_see_each_other(self, to: Driver) -> None:
        """Spaces of other indexes, rebuilt indexes and other dimensions are separate."""
        dict.fromkeys(("tenant", "project", "scope", "kb"), "other")
        spaces = [
            to.space,
            space(),
            space(number=2),
            space(7),
            space(1, number=2),
            space(tenant="other"),
            space(project="other"),
            space(scope="other"),
            space(kb="other"),
            # Joined without separators, these names equal those of the first space.
            space(tenant="acme/support", project="project", scope="handbook", kb=""),
        ]
        for at, partition in enumerate(spaces):
            await to.about(partition).add([1, 10 + at], vectors(2, partition.dimension, seed=at))
        for at, partition in enumerate(spaces):
            assert await to.about(partition).hits() == [1, 10 + at]
            assert await to.about(partition).counts(2)
            stored = (await to.about(partition).get(1, 10, 11, 12, 13))[1]
            expected = vectors(2, partition.dimension, seed=at)[0]
            assert stored is None or np.allclose(stored, expected, atol=1e-6)
        await to.delete(1, 11)
        assert await to.hits() == [10]
        assert await to.about(spaces[1]).hits() == [1, 11]

    async def test_finishing_a_load(self, to: Driver) -> None:
        """An approximate index can be built at any time, and loses nothing."""
        if not isinstance(to.store, ApproximateStore):
            pytest.skip("the store has no `finish_load`")
        await call(to.store.finish_load, to.space)
        for first in (1, 31):
            await to.add(range(first, first + 30), vectors(30, seed=first))
            await call(to.store.finish_load, to.space)
            await call(to.store.finish_load, to.space)
        assert await to.hits() == list(range(1, 61))

    # Concurrency and persistence

    async def test_another_thread(self, to: Driver) -> None:
        """Another thread with its own event loop sees additions and deletions immediately."""
        for number in range(1, 6):
            await to.add([number], vectors(1, seed=number))
            assert await in_a_thread(to.hits()) == list(range(1, number + 1))
        await in_a_thread(to.delete(3))
        assert await to.hits() == [1, 2, 4, 5]

    async def test_many_tasks(self, to: Driver) -> None:
        """Concurrent tasks that add, search and delete do not lose each other's vectors."""
        await asyncio.gather(*(work(to, first) for first in range(1000, 9000, 1000)))
        assert await to.hits(k=1000) == remaining(range(1000, 9000, 1000))
        assert await to.counts(8 * 8)

    async def test_many_threads(self, to: Driver) -> None:
        """Nor do threads, each with its own event loop, in two spaces."""
        other = to.about(space(7))

        def run_all() -> None:
            with ThreadPoolExecutor(8) as threads:
                firsts = range(1000, 5000, 1000)
                drivers = [(driver, first) for first in firsts for driver in (to, other)]
                list(threads.map(lambda pair: asyncio.run(work(*pair)), drivers))

        await asyncio.to_thread(run_all)
        for driver in (to, other):
            assert await driver.hits(k=1000) == remaining(range(1000, 5000, 1000))
            assert await driver.counts(4 * 8)

    async def test_what_was_written_persists(
        self, to: Driver, reopen: Callable[[], VectorStore] | None
    ) -> None:
        """Another store on the same data has all vectors."""
        if reopen is None:
            pytest.skip("nothing persists: there is no `reopen`")
        matrix = vectors(30)
        await to.add(range(1, 31), matrix)
        await to.delete(4)
        await to.close()
        again = Driver(reopen(), to.space)
        try:
            assert await again.hits() == [number for number in range(1, 31) if number != 4]
            row = (await again.get(30))[30]
            assert row is None or np.allclose(row, matrix[29], atol=1e-6)
            await again.add([31], vectors(1, seed=31))
            await again.delete(1)
            assert await again.counts(29)
        finally:
            await again.close()

    async def test_two_stores_on_the_same_data(
        self, to: Driver, reopen: Callable[[], VectorStore] | None
    ) -> None:
        """The next call of another store sees added, deleted and dropped vectors."""
        if reopen is None:
            pytest.skip("nothing persists: there is no `reopen`")
        other = Driver(reopen(), to.space)
        try:
            assert await other.hits() == []
            await to.add([1, 2], vectors(2))
            assert await other.hits() == [1, 2]
            await other.add([3], vectors(1, seed=3))
            assert await to.hits() == [1, 2, 3]
            await other.delete(1)
            assert await to.hits() == [2, 3]
            assert sorted(await to.get(1, 2)) == [2]
            await to.drop()
            assert await other.hits() == []
            assert await other.get(2) == {}
            await other.add([9], vectors(1, seed=9))
            assert await to.hits() == [9]
        finally:
            await other.close()

    async def test_close(self, to: Driver) -> None:
        """Closing twice is allowed; any other call of a closed store is an error."""
        await to.add([1], vectors(1))
        await to.close()
        await to.close()
        attempts: list[Callable[[], Awaitable[Any]]] = [
            lambda: to.add([2], vectors(1)),
            to.hits,
            lambda: to.get(1),
            lambda: to.delete(1),
            lambda: to.counts(1),
            to.drop,
        ]
        for attempt in attempts:
            with pytest.raises(StoreError):
                await attempt()


async def in_a_thread(coroutine: Any) -> Any:
    return await asyncio.to_thread(asyncio.run, coroutine)


async def work(to: Driver, first: int) -> None:
    """Add 20 vectors with numbers from `first`, four at a time, and delete 12 of them again."""
    for step in range(first, first + 20, 4):
        numbers = range(step, step + 4)
        await to.add(numbers, vectors(4, to.space.dimension, seed=step))
        assert set(numbers) <= set(await to.hits(k=1000))
        assert sorted(await to.get(*numbers)) == list(numbers)
        if step >= first + 8:
            await to.delete(*range(step - 8, step - 4))
            assert not set(range(step - 8, step - 4)) & set(await to.hits(k=1000))


def remaining(firsts: range) -> list[int]:
    """Return the numbers that `work` leaves."""
    return [number for first in firsts for number in range(first + 12, first + 20)]
