"""Properties that formats have under names of their own: author, dates and language.

They become metadata only where a source declares them, see `SourceMetadata.from_document`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from lorebind_config.dates import date_text, parsed_date

NAMES: Mapping[str, tuple[str, ...]] = {
    "author": ("author", "authors", "creator", "by"),
    "created": ("created", "date", "published", "created_at", "published_at", "pubdate"),
    "modified": ("modified", "updated", "lastmod", "last_modified", "last_updated", "updated_at"),
    "language": ("language", "lang", "locale"),
}
"""The names of properties in front matter, by the key of the metadata."""

_LONGEST = 1_000
_DEFAULTS = ("python-docx", "openpyxl", "Microsoft Office User", "Unknown", "Administrator")
"""Authors that programs write if they know none."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")
_PDF_DATE = re.compile(
    r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?)?.*", re.ASCII
)


def properties_of(
    author: Any = None, created: Any = None, modified: Any = None, language: Any = None
) -> dict[str, Any]:
    """Return the properties that have a value which can be read, as JSON values.

    Args:
        author: a text, or a list of texts.
        created, modified: a date, or a text in ISO 8601, of a mail or of PDF.
        language: a language code, such as `de` or `en-GB`.
    """
    values = {
        "author": _author(author),
        "created": as_date(created),
        "modified": as_date(modified),
        "language": _language(language),
    }
    return {name: value for name, value in values.items() if value}


def from_front_matter(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties in the metadata of a document."""
    lowered = {name.lower(): value for name, value in values.items()}
    return properties_of(
        **{
            key: next((lowered[name] for name in names if lowered.get(name)), None)
            for key, names in NAMES.items()
        }
    )


def as_date(value: Any) -> str:
    """Return a date as metadata stores it, from any of the forms in documents; empty if it is none.

    Texts are dates in ISO 8601, of mails (`Mon, 23 Nov 2026 10:00:00 +0100`) or of PDF
    (`D:20261123100000+01'00'`).
    """
    try:
        if isinstance(value, datetime.date):
            return date_text(value)
        if not isinstance(value, str) or len(value) > _LONGEST:
            return ""
        text = value.strip()
        if date := parsed_date(text):
            return date
        if match := _PDF_DATE.fullmatch(text):
            return _pdf_date(*match.groups()) if text.startswith("D:") or match[3] else ""
        return date_text(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError, IndexError):
        return ""


def _pdf_date(*parts: str | None) -> str:
    *numbers, sign, hours, minutes = parts
    year, month, day, *times = numbers
    if sign is None and not any(times):
        return datetime.date(int(year or 0), int(month or 1), int(day or 1)).isoformat()
    offset = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    zone = datetime.timezone(-offset if sign == "-" else offset)
    hour, minute, second = (int(time or 0) for time in times)
    day_ = int(year or 0), int(month or 1), int(day or 1)
    return date_text(datetime.datetime(*day_, hour, minute, second, tzinfo=zone))


def _author(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return _name(value)
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        return ""
    texts = (item for item in value if isinstance(item, str))
    names = list(dict.fromkeys(filter(None, map(_name, texts))))
    return names[0] if len(names) == 1 else names


def _name(text: str) -> str:
    name = " ".join(text.split())
    return "" if name in _DEFAULTS or len(name) > _LONGEST else name


def _language(value: Any) -> str:
    text = value.strip().replace("_", "-") if isinstance(value, str) else ""
    return text if len(text) <= _LONGEST and _LANGUAGE.fullmatch(text) else ""
