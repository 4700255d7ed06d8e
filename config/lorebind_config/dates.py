"""Dates and times in metadata and filters: texts in UTC that sort, and ages such as `90d`.

A day is `2026-11-23`, and a time is `2026-11-23T10:00:00Z`, to the second. As texts, a day sorts
before the times of that day, and all sort by time.
"""

from __future__ import annotations

import datetime
import re
import time
from typing import Any

from lorebind_config.errors import UsageError

AGE = r"^([1-9][0-9]{0,5}) ?(h|d|w|y)$"
"""The pattern of ages."""
AGE_FORM = "write a number and h, d, w or y, as in '90d'"

_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_LENGTH_OF_DAY = len("2026-11-23")
_STORED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")
_WRITTEN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
    r" ?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_LONGEST_WRITTEN = 36


def date_text(value: datetime.date) -> str:
    """Return a day or a time as metadata stores it. A time without a zone is taken for UTC.

    Raises:
        OverflowError: in UTC, the time is outside of the years 1 to 9999.
    """
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def parsed_date(text: str) -> str | None:
    """Return a date in ISO 8601 as metadata stores it; None if the text is not a date.

    A day is `2026-11-23`. A time follows `T` or a space, with minutes, perhaps seconds and
    fractions of them, which are dropped, and perhaps a zone: `2026-11-23 10:00+01:00`.
    """
    if len(text) > _LONGEST_WRITTEN or text[4:5] != "-" or not _WRITTEN.fullmatch(text):
        return None
    try:
        if len(text) == _LENGTH_OF_DAY:
            return datetime.date.fromisoformat(text).isoformat()
        return date_text(
            datetime.datetime.fromisoformat(text.upper().replace(" ", "T", 1).replace(" ", ""))
        )
    except (ValueError, OverflowError):
        return None


def date_of(seconds: float) -> str:
    """Return the stored form of a time in seconds since 1970; empty if no date is so far away."""
    try:
        return date_text(datetime.datetime.fromtimestamp(seconds, datetime.UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def is_day(text: str) -> bool:
    """Return whether a stored date is a day, without a time."""
    return len(text) == _LENGTH_OF_DAY


def is_date(value: Any) -> bool:
    """Return whether a value has the form in which metadata stores dates, also February 30."""
    return isinstance(value, str) and bool(_STORED.fullmatch(value))


def next_day(day: str) -> str | None:
    """Return the day after a stored day; None after the last one that there is."""
    try:
        return (datetime.date.fromisoformat(day) + datetime.timedelta(days=1)).isoformat()
    except OverflowError:
        return None


def seconds_of(date: str) -> float:
    """Return the start of a stored date in seconds since 1970."""
    moment = datetime.datetime.fromisoformat(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def age_in_seconds(age: str) -> int:
    """Return an age in seconds: hours, days, weeks, or years of 365 days, as in `90d`.

    Raises:
        UsageError: the text is not an age.
    """
    match = re.fullmatch(AGE, age)
    if not match:
        raise UsageError(f"{age!r} is not an age; {AGE_FORM}")
    return int(match[1]) * _SECONDS[match[2]]


def date_before(age: str) -> str:
    """Return the minute that is this age before now; the first of all dates if it is too long ago.

    Raises:
        UsageError: the text is not an age.
    """
    # To the minute, so that searches that follow each other have the same filter, which is cached.
    return date_of((time.time() - age_in_seconds(age)) // 60 * 60) or "0001-01-01"
