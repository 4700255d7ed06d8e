"""A filter finds the same passages, whichever way a store can search for those that pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.index import view
from lorebind_knowledge.stores.base import VectorStore
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing.index_driver import Driver, ramp, record

COUNT = 80


def langchain() -> LangChainStore:
    return LangChainStore(Recipe("memory", InMemoryVectorStore, {}), exact=True)


def qdrant() -> QdrantStore:
    return QdrantStore("docs")


@pytest.mark.parametrize("first", ["near", "far"])
@pytest.mark.parametrize(
    ("make", "few"),
    [(MemoryStore, 256), (qdrant, 256), (langchain, 256), (langchain, 0)],
    ids=["memory", "qdrant", "langchain: few", "langchain: many"],
)
def test_what_passes(
    make: Callable[[], VectorStore], few: int, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest that pass are found, be they few or many, nearest of all or farthest."""
    monkeypatch.setattr(view, "_FEW", few)
    ids = [f"{number:03}" for number in range(COUNT)]
    with closing(Catalog()) as catalog, closing(make()) as store:
        to = Driver(store, catalog)
        to.open()
        to.add(
            *(
                replace(record(name, values), metadata={"n": number})
                for number, (name, values) in enumerate(zip(ids, ramp(COUNT), strict=True))
            )
        )
        for passing in (1, 9, 30, 75, COUNT):
            start = 0 if first == "near" else COUNT - passing
            for k in (1, 7, COUNT):
                hits = to.hits(k=k, where={"n": {"$gte": start, "$lt": start + passing}})
                assert hits == ids[start : start + passing][:k]
        assert to.hits(where={"n": {"$gt": COUNT}}) == []
        to.let_go()
