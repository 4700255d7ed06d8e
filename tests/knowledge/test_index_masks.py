"""Metadata filters over a whole index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.filters import compile_filter, resolved
from lorebind_knowledge.index.masks import Masks
from tests.density import examples

DAYS = ["2026-01-01", "2026-01-01T10:00:00Z", "2026-01-02"]
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["1", "a", 1, 1.0, 0, 2.5, True, False, None, "", *DAYS]
)
FIELDS = st.sampled_from(["a", "b", "$c"])
METADATA = st.dictionaries(FIELDS, VALUES | st.lists(VALUES, max_size=3), max_size=3)
CONDITIONS = (
    VALUES
    | st.lists(VALUES, max_size=3)
    | st.fixed_dictionaries({"$ne": VALUES})
    | st.fixed_dictionaries({"$nin": st.lists(VALUES, max_size=3)})
    | st.fixed_dictionaries({"$exists": st.booleans()})
    | st.fixed_dictionaries({"$gte": st.sampled_from([1, "a"]), "$lt": st.sampled_from([2, "b"])})
    | st.dictionaries(
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.sampled_from(DAYS), min_size=1
    )
)
FILTERS = st.recursive(
    st.dictionaries(st.sampled_from(["a", "b"]), CONDITIONS, max_size=2),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "$and": st.lists(inner, min_size=1, max_size=2),
            "$or": st.lists(inner, min_size=1, max_size=2),
            "$not": inner,
            "a": CONDITIONS,
        },
    ),
    max_leaves=4,
)


def stored(metadata: Sequence[dict[str, Any]], rows: Sequence[int]) -> Iterable[tuple[int, str]]:
    return ((row, json.dumps(metadata[row])) for row in reversed(rows))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(METADATA, max_size=12), st.lists(FILTERS, min_size=1, max_size=4))
def test_same_as_asking_each(metadata: list[dict[str, Any]], filters: list[dict[str, Any]]) -> None:
    """The same chunks pass as when each is tested alone, even after other filters."""
    half = np.arange(0, len(metadata), 2)
    masks = Masks(half, half + 100)
    masks.allowed(resolved(filters[0]), lambda rows: stored(metadata, rows))
    rows = np.arange(len(metadata))
    masks = Masks(rows, rows + 100, masks)
    for where in filters:
        allows = compile_filter(where)
        allowed = masks.allowed(resolved(where), lambda rows: stored(metadata, rows))
        assert allowed.tolist() == [n + 100 for n, data in enumerate(metadata) if allows(data)]


def test_only_new_rows_are_fetched() -> None:
    """The metadata of a row is fetched only once, in all versions of the index."""
    metadata = [{"n": n} for n in range(6)]
    fetched: list[int] = []

    def fetch(rows: Sequence[int]) -> Iterable[tuple[int, str]]:
        fetched.extend(rows)
        return stored(metadata, rows)

    masks = Masks(np.arange(4), np.arange(4))
    for where in ({"n": 1}, {"n": {"$gt": 2}}, {"m": 1}):
        masks.allowed(resolved(where), fetch)
    Masks(np.array([5, 1, 2]), np.array([5, 1, 2]), masks).allowed(resolved({"n": 5}), fetch)
    assert sorted(fetched) == [0, 1, 2, 3, 5]
