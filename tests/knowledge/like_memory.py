"""Whether a store answers as the one in memory does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import strategies as st

from lorebind_knowledge.records import SearchOptions
from lorebind_knowledge.stores import MemoryStore
from lorebind_knowledge.testing.store_driver import INDEX, ids, record

if TYPE_CHECKING:
    from lorebind_knowledge.records import Record


def publish(store: Any, *records: Record) -> None:
    """Put records in, and let them be found."""
    store.upsert(records)
    for one in records:
        store.publish(one.index, one.uri, one.generation)


def check_like_memory(other: Any, data: st.DataObject, *, most: int) -> None:
    """Order, scores, ties, filters and cuts of up to `most` vectors that Hypothesis makes agree."""
    vectors = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=3, max_size=3)
    chunks = data.draw(st.lists(st.tuples(vectors, st.integers(0, 2)), max_size=most))
    stores: list[Any] = [MemoryStore(), other]
    for store in stores:
        store.open(INDEX, 3)
        publish(store, *(record(f"{at * 7 % 61:02}", v, n=n) for at, (v, n) in enumerate(chunks)))
    for _ in range(4):
        options = SearchOptions(
            INDEX,
            data.draw(st.integers(1, 9)),
            data.draw(st.sampled_from([None, 0.0, 0.5, 1.0])),
            data.draw(st.sampled_from([{}, {"n": 1}, {"n": {"$gt": 0}}])),
        )
        query = np.array(data.draw(vectors), np.float32)
        expected, got = (store.similarity_search(query, options) for store in stores)
        assert ids(got) == ids(expected)
        assert [m.score for m in got] == pytest.approx([m.score for m in expected], abs=1e-5)
    for store in stores:
        store.close()
