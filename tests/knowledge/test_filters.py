"""Metadata filters: the table in the module's docstring holds; malformed filters are refused."""

from __future__ import annotations

from functools import reduce
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import UsageError
from lorebind_config.filters import compile_filter, required_fields, without_fields

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b", 0.5, 1.0])
STORED = st.dictionaries(st.sampled_from("xyz"), SCALARS | st.lists(SCALARS, max_size=3))


@pytest.mark.parametrize(
    ("where", "metadata", "expected"),
    [
        ({}, {}, True),
        ({"x": 1}, {"x": 1.0}, True),
        ({"x": 1}, {"x": True}, False),
        ({"x": True}, {"x": 1}, False),
        ({"x": 0}, {"x": False}, False),
        ({"x": "1"}, {"x": 1}, False),
        ({"x": None}, {"x": None}, True),
        ({"x": None}, {}, False),
        ({"x": "a"}, {"x": ["b", "a"]}, True),
        ({"x": 1}, {"x": [True]}, False),
        ({"x": "a"}, {"x": [["a"]]}, False),
        ({"x": "a"}, {"x": {"a": 1}}, False),
        ({"x": ("a", "b")}, {"x": "b"}, True),
        ({"x": {"a"}}, {"x": "a"}, True),
        ({"x": ["a", "b"]}, {"x": ["c", "b"]}, True),
        ({"x": []}, {"x": []}, False),
        ({"x": {"$ne": "a"}}, {}, True),
        ({"x": {"$ne": "a"}}, {"x": ["a"]}, False),
        ({"x": {"$ne": None}}, {}, True),
        ({"x": {"$nin": ["a"]}}, {}, True),
        ({"x": {"$in": [None]}}, {}, False),
        ({"x": {"$gt": 1}}, {"x": 1}, False),
        ({"x": {"$gte": 1}}, {"x": 1.0}, True),
        ({"x": {"$lt": "b"}}, {"x": "a"}, True),
        ({"x": {"$lt": "a"}}, {"x": "B"}, True),
        ({"x": {"$lt": 5}}, {"x": "a"}, False),
        ({"x": {"$lt": 5}}, {"x": True}, False),
        ({"x": {"$lt": 5}}, {"x": None}, False),
        ({"x": {"$lt": 5}}, {"x": [1]}, False),
        ({"x": {"$gte": 2, "$lt": 4}}, {"x": 3}, True),
        ({"x": {"$gte": 2, "$lt": 4}}, {"x": 4}, False),
        ({"x": {"$exists": True}}, {"x": None}, True),
        ({"x": {"$exists": False}}, {}, True),
        ({"x.y": 1}, {"x": {"y": 1}}, False),
        ({"x.y": 1}, {"x.y": 1}, True),
        ({"$and": [{"x": 1}, {"y": 2}]}, {"x": 1, "y": 2}, True),
        ({"$or": [{"x": 1}, {"y": 2}]}, {"y": 2}, True),
        ({"$or": [{"x": 1}, {"y": 2}]}, {}, False),
        ({"$not": {"x": 1}}, {}, True),
        ({"$not": {}}, {}, False),
        ({"z": 3, "$or": [{"x": 1}, {"$and": [{"y": 2}]}]}, {"y": 2, "z": 3}, True),
        (MappingProxyType({"x": MappingProxyType({"$eq": 1})}), {"x": 1}, True),
    ],
    ids=str,
)
def test_meaning(where: Any, metadata: dict[str, Any], expected: bool) -> None:
    """Each row of the table holds, including special cases."""
    assert compile_filter(where)(metadata) is expected


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (["x"], "a filter is a mapping"),
        ({1: "x"}, "fields of a filter are strings"),
        ({"x": {"$gtee": 1}}, r"'\$gtee'; did you mean '\$gte'; known: \$and, \$eq"),
        ({"$nor": [{}]}, r"unknown operator '\$nor'"),
        ({"$gt": 1}, r"\$gt applies to a field"),
        ({"x": {"$or": [{}]}}, r"\$or combines whole filters"),
        ({"x": {}}, r"no operator; known operators: \$eq"),
        ({"x": {"y": 1}}, "looks into 'y'"),
        ({"$or": [{}] * 257}, "at most 256 conditions"),
        ({"$and": [{f"x{n}": n for n in range(129)}] * 2}, "at most 256 conditions"),
        (reduce(lambda inner, _: {"$not": inner}, range(33), {}), "nested at most 32 deep"),
        ({"x": {"$in": "abc"}}, r"\$in takes a list"),
        ({"x": {"$nin": 1}}, r"\$nin takes a list"),
        ({"x": {"$eq": [1]}}, r"\$eq takes strings, numbers"),
        ({"x": [[1]]}, r"\$in takes strings, numbers"),
        ({"x": {"$gt": None}}, r"\$gt takes a number, a string or a date"),
        ({"x": {"$lt": True}}, r"\$lt takes a number, a string or a date"),
        ({"x": {"$gte": [1]}}, r"\$gte takes"),
        ({"x": {"$exists": 1}}, r"\$exists takes true or false"),
        ({"x": float("nan")}, "not a number that can be stored"),
        ({"$and": []}, "at least one filter"),
        ({"$or": {"x": 1}}, r"\$or takes a list"),
        ({"$not": [{"x": 1}]}, "a filter is a mapping"),
        ({"$and": [{"x": {"$foo": 1}}]}, r"'\$foo'"),
        ({"x": ...}, "takes strings, numbers"),
    ],
    ids=str,
)
def test_malformed(where: Any, says: str) -> None:
    """A malformed filter is refused before the search, with the known alternatives."""
    with pytest.raises(UsageError, match=says):
        compile_filter(where)


@given(STORED, SCALARS, st.lists(SCALARS, max_size=3))
def test_operators_are_each_others_words(
    metadata: dict[str, Any], value: Any, values: list[Any]
) -> None:
    """Operators that can be expressed by other operators give the same result."""

    def holds(where: dict[str, Any]) -> bool:
        return compile_filter(where)(metadata)

    assert holds({"x": value}) == holds({"x": {"$eq": value}})
    assert holds({"x": {"$ne": value}}) != holds({"x": value})
    assert holds({"x": values}) == any(holds({"x": value}) for value in values)
    assert holds({"x": {"$nin": values}}) != holds({"x": {"$in": values}})
    assert holds({"$not": {"x": value}}) != holds({"x": value})
    assert holds({"$or": [{"x": value}, {"y": value}]}) == (
        holds({"x": value}) or holds({"y": value})
    )
    assert holds({"x": value, "y": value}) == holds({"$and": [{"x": value}, {"y": value}]})
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        below, above = holds({"x": {"$lt": value}}), holds({"x": {"$gt": value}})
        assert not (below and above)
        assert holds({"x": {"$lte": value, "$gte": value}}) == (
            holds({"x": value}) and not isinstance(metadata.get("x"), list)
        )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, {}),
        ({"page": 1, "lang": "en"}, {"lang": "en"}),
        ({"$and": [{"lang": "en"}, {"page": 1}], "year": 1}, {"year": 1}),
        ({"$or": [{"lang": "en"}, {"$not": {"page": 1}}]}, {}),
        ({"$not": {"lang": "en", "page": 1}}, {}),
        ({"$not": {"$or": [{"lang": "en"}]}}, {"$not": {"$or": [{"lang": "en"}]}}),
    ],
    ids=str,
)
def test_without_fields(where: dict[str, Any], expected: dict[str, Any]) -> None:
    """Entries that mention a field are removed whole, so that the filter matches no less."""
    assert without_fields(where, ["page"]) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, {}),
        ({"a": 1, "b": {"$gt": 1, "$ne": 2}}, {"a": True, "b": True}),
        ({"a": {"$ne": 1}, "b": {"$exists": False}}, {"a": False, "b": False}),
        ({"a": {"$exists": True}, "b": {"$nin": [1]}}, {"a": True, "b": False}),
        ({"$not": {"a": 1, "b": {"$ne": 1}}}, {"a": False, "b": True}),
        ({"$not": {"$not": {"a": 1}}}, {"a": True}),
        ({"$or": [{"a": {"$ne": 1}}, {"$and": [{"a": 1}]}]}, {"a": True}),
    ],
    ids=str,
)
def test_required_fields(where: dict[str, Any], expected: dict[str, bool]) -> None:
    """A filter requires a field unless its conditions on it hold for a missing field."""
    assert required_fields(where) == expected
