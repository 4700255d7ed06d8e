"""Whatever is done to them, the stores give the same answers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Record, RecordFilter, SearchOptions
from lorebind_knowledge.stores import MemoryStore, SqliteStore

INDEXES = [
    IndexKey(Namespace("t", "p", "project", "kb")),
    IndexKey(Namespace("t", "p", "project", "kb"), 2),
    IndexKey(Namespace("u", "p", "project", "kb")),
]
index_keys = st.sampled_from(INDEXES)
uris = st.sampled_from(["a", "b", "c"])
generations = st.integers(1, 3)
vectors = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=3, max_size=3)
wheres = st.sampled_from([{}, {"n": 1}, {"n": {"$gt": 1}}, {"$not": {"tags": "x"}}])


class Stores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.stores = [MemoryStore(), SqliteStore(Path(self.folder, "store.db"))]
        for index in INDEXES:
            self.both("open", index, 3)

    def both(self, method: str, *args: Any) -> Any:
        first, second = (getattr(store, method)(*args) for store in self.stores)
        assert first == second
        return first

    @rule(
        index=index_keys,
        uri=uris,
        generation=generations,
        chunks=st.lists(st.tuples(st.integers(0, 4), vectors, st.integers(0, 2)), max_size=5),
    )
    def upsert(
        self, index: IndexKey, uri: str, generation: int, chunks: list[tuple[int, Any, int]]
    ) -> None:
        records = [
            Record(
                f"{uri}{number}",
                index,
                uri,
                generation,
                f"text {values}",
                np.array(values, np.float32),
                {"n": n, "tags": ["x"] * n},
            )
            for number, values, n in chunks
        ]
        self.both("upsert", records)

    @rule(index=index_keys, uri=uris, generation=generations)
    def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        self.both("publish", index, uri, generation)

    @rule(
        index=index_keys,
        uri=st.none() | uris,
        generation=st.none() | generations,
        except_generation=st.none() | generations,
    )
    def delete(self, index: IndexKey, **conditions: Any) -> None:
        self.both("delete_by_filter", RecordFilter(index, **conditions))

    @rule(index=index_keys)
    def drop_and_open(self, index: IndexKey) -> None:
        self.both("drop", index)
        self.both("open", index, 3)

    @rule()
    def reopen(self) -> None:
        self.stores[1].close()
        self.stores[1] = SqliteStore(Path(self.folder, "store.db"))

    @rule(
        index=index_keys,
        values=vectors,
        top_k=st.integers(1, 9),
        min_score=st.sampled_from([None, 0.0, 0.5, 1.0]),
        where=wheres,
    )
    def search(
        self, index: IndexKey, values: list[float], top_k: int, min_score: Any, where: Any
    ) -> None:
        options = SearchOptions(index, top_k, min_score, where)
        query = np.array(values, np.float32)
        first, second = (store.similarity_search(query, options) for store in self.stores)
        assert [(m.id, m.text, m.metadata) for m in first] == [
            (m.id, m.text, m.metadata) for m in second
        ]
        assert [m.score for m in first] == [m.score for m in second]
        assert [m.scores["dense"] for m in first] == pytest.approx(
            [m.scores["dense"] for m in second], abs=1e-6
        )

    @invariant()
    def counts_agree(self) -> None:
        for index in INDEXES:
            self.both("count", index)

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
