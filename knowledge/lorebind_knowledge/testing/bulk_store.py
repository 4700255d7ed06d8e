"""The conformance tests of `BulkStore`, for a store that is a `VectorStore` too."""

from __future__ import annotations

import pytest

from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.namespace import IndexKey
from lorebind_knowledge.stores.base import BulkStore, VectorStore
from lorebind_knowledge.testing.store_driver import INDEX, Driver, StoreConformance, record


class BulkStoreConformance(StoreConformance):
    """What every `BulkStore` does. Inherit it and give a fixture `store`, an empty one."""

    @pytest.fixture
    async def to(self, store: VectorStore) -> Driver:
        driver = Driver(store)
        await driver.open()
        await driver.add(record("a"), record("b", uri="b.md"), record("c", uri="c.md"))
        return driver

    async def test_is_a_bulk_store(self, store: VectorStore) -> None:
        """The store has the method of the protocol."""
        assert isinstance(store, BulkStore)

    async def test_documents_are_replaced(self, to: Driver, store: BulkStore) -> None:
        """New generations are found, the old ones are deleted, other documents are left alone."""
        await to.upsert(
            record("a2", generation=2), record("b2", uri="b.md", generation=3), record("a3")
        )
        await call(store.replace_documents, INDEX, {"a.md": 2, "b.md": 3, "new.md": 1})
        assert sorted(await to.found()) == ["a2", "b2", "c"]
        assert await to.delete(uri="a.md", except_generation=2) == 0
        await to.publish("a.md", 1)
        assert sorted(await to.found()) == ["b2", "c"]

    async def test_a_document_without_records(self, to: Driver, store: BulkStore) -> None:
        """A generation without records leaves the document none."""
        await call(store.replace_documents, INDEX, {"a.md": 7})
        assert sorted(await to.found()) == ["b", "c"]
        assert await to.count() == 2

    async def test_again(self, to: Driver, store: BulkStore) -> None:
        """Replacing by what is published already changes nothing."""
        before = await to.search()
        await call(store.replace_documents, INDEX, {"a.md": 1, "b.md": 1})
        assert await to.search() == before

    async def test_staged_again(self, to: Driver, store: BulkStore) -> None:
        """What was staged again under the published generation takes its place."""
        await to.upsert(record("a", text="newer"))
        await call(store.replace_documents, INDEX, {"a.md": 1})
        assert {match.id: match.text for match in await to.search()}["a"] == "newer"

    async def test_an_index_that_was_not_opened(self, to: Driver, store: BulkStore) -> None:
        """It is an error."""
        with pytest.raises(StoreError):
            await call(store.replace_documents, IndexKey(INDEX.namespace, 9), {"a.md": 1})
