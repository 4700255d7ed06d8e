"""Metadata filters in PostgreSQL have the same meaning as everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lorebind_config.errors import UsageError
from lorebind_config.filters import compile_filter
from lorebind_knowledge.database.postgres_address import PostgresAddress, escaped, unescaped
from lorebind_knowledge.stores.pgvector.filters import as_dates, as_fields, sql_filter
from tests.density import examples

NAMES = st.sampled_from(["x", "y", "", "a.b", "quo'\"te", "%s", "n\0l"])
NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 0.5, 1.0, -0.0, 0.1, 1e-9, 2**53, 2**53 + 1, 9007199254740992.0, 1e22, 10**22]
)
NUMBERS |= st.sampled_from([1e23, 10**23, 1e300, 5e-324])
TEXTS = st.sampled_from(["", "a", "b", "ab", "A", "ä", "1", "true", "a\0", "a\0b", "a\x01", "\x01"])
TEXTS |= st.sampled_from(["\ufffd", "\ue000", "\ud7ff", "𝕏", "a%", "%(x)s", "{}"])
DATES = st.sampled_from(["2026-01-01", "2026-01-01T10:00:00Z", "2026-01-02", "2026-02-30"])
DATES |= st.sampled_from(["2026-01-01T", "2026-01-01 10:00", "2026-1-01"])  # these are texts
STORED = st.none() | st.booleans() | NUMBERS | TEXTS | DATES
# Values that a filter may have, and no record can.
ASKED = STORED | st.sampled_from(["\ud800", "a\udfff", "a\ud800b"])
METADATA = st.dictionaries(
    NAMES,
    STORED
    | st.lists(STORED | st.lists(STORED, max_size=2), max_size=3)
    | st.dictionaries(NAMES, STORED, max_size=2),
)
CONDITIONS = (
    ASKED
    | st.lists(ASKED, max_size=3)
    | st.dictionaries(st.sampled_from(["$eq", "$ne"]), ASKED, min_size=1)
    | st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(ASKED, max_size=3), min_size=1)
    | st.dictionaries(
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
        ASKED.filter(lambda value: value is not None and not isinstance(value, bool)),
        min_size=1,
    )
    | st.fixed_dictionaries({"$exists": st.booleans()})
)
FILTERS = st.recursive(
    st.dictionaries(NAMES | st.just("\ud800"), CONDITIONS, max_size=3),
    lambda inner: (
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"$not": inner})
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def db(new_dsn: Any) -> Iterator[psycopg.Connection]:
    connection = PostgresAddress(new_dsn()).connect(autocommit=True)
    yield connection
    connection.close()


def holds(db: psycopg.Connection, where: dict[str, Any], metadata: dict[str, Any]) -> bool:
    condition, values = sql_filter(where)
    rows = db.execute(
        "select from (select %(fields)s::jsonb as fields, %(dates)s::jsonb as dates) as record"
        f" where {condition}",
        values | {"fields": as_fields(metadata), "dates": as_dates(metadata)},
    )
    return rows.fetchone() is not None


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(where={"x": {"$nin": list(range(250))}}, metadata={"x": [249, "a"]})
@example(where={"$not": {"x": {"$newer_than": "1d"}}}, metadata={"x": "9999-01-01T00:00:00Z"})
@given(where=FILTERS, metadata=METADATA)
def test_agreement(db: psycopg.Connection, where: dict[str, Any], metadata: dict[str, Any]) -> None:
    """For any filter and metadata, PostgreSQL agrees with the Python predicate."""
    assert holds(db, where, metadata) is compile_filter(where)(metadata)


@settings(max_examples=examples(150), deadline=None)
@example(value=1e23, other=10**23, operator="$eq")
@example(value=10**23, other=1e23, operator="$gt")
@given(value=STORED, other=ASKED, operator=st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"]))
def test_comparisons(db: psycopg.Connection, value: Any, other: Any, operator: str) -> None:
    """Any two values compare as in Python."""
    if operator != "$eq" and (other is None or isinstance(other, bool)):
        return
    where, metadata = {"x": {operator: other}}, {"x": value}
    assert holds(db, where, metadata) is compile_filter(where)(metadata)


def test_malformed_filters_are_refused() -> None:
    """A malformed filter is a UsageError before PostgreSQL is called."""
    with pytest.raises(UsageError, match=r"\$nor"):
        sql_filter({"$nor": [{}]})


@given(st.text(st.sampled_from("\0\x01\x02a"), max_size=8), st.text("\0\x01\x02a", max_size=8))
def test_any_text_can_be_kept(first: str, other: str) -> None:
    """The escape for NUL is reversible, contains no NUL, and keeps the order of texts."""
    assert unescaped(escaped(first)) == first
    assert "\0" not in escaped(first)
    assert (escaped(first) < escaped(other)) is (first < other)
