"""A Qdrant server is asked to exclude what does not pass a filter, and nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from qdrant_client import models
from qdrant_client.local.payload_filters import check_filter

from lorebind_config.filters import compile_filter, resolved
from lorebind_knowledge.stores.qdrant.filters import facts, narrow
from tests.density import examples

DAYS = ["2026-01-31", "2026-02-01T00:00:00Z"]
scalars = (
    st.none() | st.booleans() | st.sampled_from([-1, 0, 1, 2, 0.5, 1.0, 2**53 + 1, "", "a", *DAYS])
)
names = st.sampled_from(["x", "a.b", ""])
metadatas = st.dictionaries(names, scalars | st.lists(scalars, max_size=2), max_size=3)
memberships = (
    scalars
    | st.lists(scalars, max_size=2)
    | st.fixed_dictionaries({"$ne": scalars})
    | st.fixed_dictionaries({"$nin": st.lists(scalars, max_size=2), "$eq": scalars})
    | st.fixed_dictionaries({"$exists": st.booleans()})
)
orderings = st.dictionaries(
    st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
    st.sampled_from([0, 1, 0.5, 2**53 + 1, "a", *DAYS]),
    min_size=1,
)


def filters(conditions: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    """Generate filters of these conditions, with at least `least` fields each."""
    return st.recursive(
        st.dictionaries(names, conditions, min_size=least, max_size=2),
        lambda inner: st.one_of(
            st.fixed_dictionaries({"$not": inner}),
            st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=2)}),
            st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=2)}),
        ),
        max_leaves=4,
    )


def meets(where: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Return whether a point with this metadata meets the condition sent to Qdrant."""
    condition = narrow(resolved(where))
    payload = {"facts": facts(metadata)}
    return condition is None or check_filter(models.Filter(must=[condition]), payload, 1, {})


@given(metadatas, filters(memberships | orderings))
@settings(max_examples=examples(300))
def test_filters_only_narrow(metadata: dict[str, Any], where: dict[str, Any]) -> None:
    """No point that passes a filter is excluded."""
    assert meets(where, metadata) or not compile_filter(where)(metadata)


@given(metadatas, filters(memberships, least=1))
@example({}, {"x": []})
@settings(max_examples=examples(300))
def test_equality_is_decided_by_the_server(metadata: dict[str, Any], where: dict[str, Any]) -> None:
    """Equality, membership and existence exclude all points that do not pass, for any name."""
    assert meets(where, metadata) == compile_filter(where)(metadata)
