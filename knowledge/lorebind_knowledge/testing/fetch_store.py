"""The conformance tests of `FetchStore`, for a store that is a `VectorStore` too."""

from __future__ import annotations

import numpy as np
import pytest

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.namespace import IndexKey
from lorebind_knowledge.stores.base import FetchStore, VectorStore
from lorebind_knowledge.testing.store_driver import (
    EAST,
    INDEX,
    NORTH,
    Driver,
    StoreConformance,
    record,
)


class FetchStoreConformance(StoreConformance):
    """What every `FetchStore` does. Inherit it and give a fixture `store`, an empty one."""

    @pytest.fixture
    async def to(self, store: VectorStore) -> Driver:
        driver = Driver(store)
        await driver.open()
        await driver.add(
            record("a", (3.0, 4.0, 0.0, 0.0), text="first", place=1),
            record("b", NORTH, uri="b.md", text="second", tags=["x"]),
        )
        return driver

    async def test_is_a_fetch_store(self, store: VectorStore) -> None:
        """The store has the method of the protocol."""
        assert isinstance(store, FetchStore)

    async def test_records_come_back(self, to: Driver) -> None:
        """Text, metadata and uri as they were stored, the vector at length 1."""
        found = await to.fetch("a", "b")
        assert sorted(found) == ["a", "b"]
        assert (found["a"].id, found["a"].uri, found["a"].text) == ("a", "a.md", "first")
        assert found["a"].metadata == {"place": 1}
        assert found["b"].metadata == {"tags": ["x"]}
        np.testing.assert_allclose(found["a"].vector, [0.6, 0.8, 0.0, 0.0], atol=1e-6)
        np.testing.assert_allclose(found["b"].vector, NORTH, atol=1e-6)

    async def test_a_vector_of_length_0(self, to: Driver) -> None:
        """It comes back as it is."""
        await to.add(record("z", (0.0, 0.0, 0.0, 0.0), uri="z.md"))
        assert not (await to.fetch("z"))["z"].vector.any()

    async def test_what_is_not_there_is_left_out(self, to: Driver) -> None:
        """Unknown ids, and no ids at all, are no error."""
        assert sorted(await to.fetch("b", "nobody")) == ["b"]
        assert await to.fetch() == {}

    async def test_only_what_is_published(self, to: Driver) -> None:
        """Staged records are not there, and of a document the published generation is."""
        await to.upsert(record("a", EAST, generation=2, text="new"), record("n", generation=2))
        assert (await to.fetch("a", "n"))["a"].text == "first"
        await to.publish(generation=2)
        found = await to.fetch("a", "n")
        assert sorted(found) == ["a", "n"]
        assert found["a"].text == "new"

    async def test_indexes_do_not_see_each_other(self, to: Driver) -> None:
        """A record of another index is not there."""
        neighbour = IndexKey(INDEX.namespace, 2)
        await to.open(neighbour)
        assert await to.fetch("a", index=neighbour) == {}

    async def test_an_index_that_was_not_opened(self, to: Driver) -> None:
        """It is an error, not nothing."""
        with pytest.raises(StoreError):
            await to.fetch("a", index=IndexKey(INDEX.namespace, 9))
