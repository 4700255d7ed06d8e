"""Dates in metadata and filters: the forms that are read, and that stored ones sort by time."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.dates import (
    age_in_seconds,
    date_before,
    date_of,
    date_text,
    is_date,
    next_day,
    parsed_date,
    seconds_of,
)
from lorebind_config.errors import UsageError
from lorebind_config.filters import MOST_CONDITIONS, compile_filter, resolved
from lorebind_knowledge.loaders.properties import as_date
from lorebind_knowledge.testing.store_driver import CALENDAR, FILTERS, RANGES, SHELF

DATES = st.dates() | st.datetimes(
    datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1), timezones=st.timezones() | st.none()
)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-11-23", "2026-11-23"),
        ("2026-11-23T10:00Z", "2026-11-23T10:00:00Z"),
        ("2026-11-23t10:00:00.999z", "2026-11-23T10:00:00Z"),
        ("2026-11-23 10:00", "2026-11-23T10:00:00Z"),
        ("2026-11-23 10:00:00 +0200", "2026-11-23T08:00:00Z"),
        ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
        ("2026-11-31", None),
        ("2026-11-23T25:00", None),
        ("0001-01-01T00:00+01:00", None),
        ("2026-11", None),
        ("2026-11-23 or so", None),
        ("20261123", None),
        ("２026-11-23", None),
        ("2026-11-23\n", None),
    ],
)
def test_iso(text: str, stored: str | None) -> None:
    assert parsed_date(text) == stored
    assert is_date(text) is (text == stored or text == "2026-11-31")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("Mon, 23 Nov 2026 10:00:00 +0100", "2026-11-23T09:00:00Z"),
        ("D:20261123100000+01'30'", "2026-11-23T08:30:00Z"),
        ("D:20261123100000-05", "2026-11-23T15:00:00Z"),
        ("D:20261123100000Z00'00'", "2026-11-23T10:00:00Z"),
        ("D:2026", "2026-01-01"),
        ("20261123", "2026-11-23"),
        ("D:20261399", ""),
        ("D:00000000", ""),
        ("2026", ""),
        ("soon", ""),
        ("9" * 2000, ""),
        ("Mon, 99 Nov 2026 10:00:00 +9999", ""),
        (20261123, ""),
        (None, ""),
        (datetime.datetime(2026, 11, 23, 10), "2026-11-23T10:00:00Z"),
    ],
)
def test_forms_in_documents(text: object, stored: str) -> None:
    assert as_date(text) == stored


@given(first=DATES, second=DATES)
def test_stored_dates_sort_by_time(first: datetime.date, second: datetime.date) -> None:
    """As texts, they compare as the times do, and are read back as they are."""
    earlier, later = sorted([date_text(first), date_text(second)])
    assert parsed_date(earlier) == earlier
    assert seconds_of(earlier) <= seconds_of(later)


@given(day=st.dates(), date=DATES, sign=st.sampled_from(["$gt", "$gte", "$lt", "$lte"]))
def test_a_day_is_compared_with_days(day: datetime.date, date: datetime.date, sign: str) -> None:
    """`$gt` and `$lte` mean the end of the day."""
    stored = date_text(date)
    expected = {"$gt": stored[:10] > day.isoformat(), "$lt": stored[:10] < day.isoformat()}
    expected |= {"$gte": not expected["$lt"], "$lte": not expected["$gt"]}
    passes = compile_filter({"on": {sign: day}})({"on": stored})
    if day != datetime.date.max:
        assert passes is expected[sign]


@pytest.mark.parametrize(("shelf", "filters"), [(SHELF, FILTERS), (CALENDAR, RANGES)])
def test_resolved_means_the_same(
    shelf: dict[str, dict[str, Any]], filters: list[tuple[dict[str, Any], str]]
) -> None:
    """A resolved filter has the expected results, and resolving it again changes nothing."""
    for where, expected in filters:
        plain = resolved(where)
        for passes in map(compile_filter, (where, plain, resolved(plain))):
            assert "".join(name for name, fields in shelf.items() if passes(fields)) == expected


def test_a_resolved_filter_is_no_larger() -> None:
    """Conditions on dates are joined, so a filter at its limit stays within it."""
    where: dict[str, object] = {f"f{number}": number for number in range(MOST_CONDITIONS - 2)}
    where["on"] = {"$newer_than": "90d", "$gte": "2026-01-01"}
    for bound, more in (
        ("2026-01-01", {"$gt": "0999-01-01"}),
        ("9000-01-02", {"$gt": "9000-01-01"}),
    ):
        on = resolved({"on": {"$newer_than": "999999y", "$gte": "2026-01-01", **more}})["on"]
        assert on == {"$gte": bound}
    assert resolved({"on": {"$lt": "2026-01-01", "$lte": "2025-01-01"}}) == {
        "on": {"$lt": "2025-01-02"}
    }
    others = {"$ne": "2026-01-01 10:00", "$nin": ["x"]}
    assert resolved({"on": others}) == {
        "on": {"$nin": ["2026-01-01 10:00", "2026-01-01T10:00:00Z", "x"]}
    }
    compile_filter(resolved(where))


def test_ages() -> None:
    """An age counts from the search; too long ones mean the first of all dates."""
    assert (age_in_seconds("2w"), age_in_seconds("1 y")) == (14 * 86_400, 365 * 86_400)
    assert 3 * 3600 <= time.time() - seconds_of(date_before("3h")) < 3 * 3600 + 90
    assert date_before("3h").endswith(":00Z")
    assert date_before("999999y") == "0001-01-01"
    assert (date_of(1e300), date_of(0)) == ("", "1970-01-01T00:00:00Z")
    assert (next_day("2024-02-28"), next_day("9999-12-31")) == ("2024-02-29", None)


@pytest.mark.parametrize("age", ["90", "d", "0d", "-1d", "1.5d", "90 days", "9999999d", ""])
def test_no_age(age: str) -> None:
    with pytest.raises(UsageError, match="is not an age; write a number and h, d, w or y"):
        age_in_seconds(age)
    with pytest.raises(UsageError, match=r"the filter on 'on': \$newer_than: .* is not an age"):
        compile_filter({"on": {"$newer_than": age}})


def test_an_age_is_a_text() -> None:
    with pytest.raises(UsageError, match=r"\$older_than takes an age as text"):
        compile_filter({"on": {"$older_than": 90}})
