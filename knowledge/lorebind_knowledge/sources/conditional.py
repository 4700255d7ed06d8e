"""Conditional requests: a document's ETag and date as one version text, and back (RFC 9110, 13)."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    import httpx


def version_of(url: httpx.URL, headers: httpx.Headers) -> str:
    """ETag and Last-Modified of an answer, bound to its address; empty when it has neither."""
    etag, modified = headers.get("etag", ""), headers.get("last-modified", "")
    changed, answered = seconds(modified), seconds(headers.get("date", ""))
    # Within the second of its date a document may change once more and keep the date.
    if changed is None or answered is None or changed >= answered:
        modified = ""
    kept = [text if text.isascii() else "" for text in (etag, modified)]
    return json.dumps([digest(str(url)), *kept]) if any(kept) else ""


def conditions(version: str, url: httpx.URL) -> dict[str, str]:
    """The headers that ask for a document only if it changed.

    There are none when the version is of another address, as after a redirect that now leads
    elsewhere, or of another kind of source.
    """
    try:
        place, etag, modified = json.loads(version)
    except (ValueError, TypeError):
        return {}
    if place != digest(str(url)):
        return {}
    asked = {"If-None-Match": etag, "If-Modified-Since": modified}
    return {header: value for header, value in asked.items() if value}


def seconds(date: str) -> float | None:
    """An HTTP date as seconds since 1970; None for what is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
