"""Convert a response's ETag and date to a version, and a version to conditions (RFC 9110, 13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lorebind_config.identity import digest
from lorebind_knowledge.resilience.failures import http_date

if TYPE_CHECKING:
    import httpx


def version_of(url: httpx.URL, headers: httpx.Headers) -> str:
    """Return a version from ETag and Last-Modified, bound to the address.

    Empty if the response has neither.
    """
    etag, modified = headers.get("etag", ""), headers.get("last-modified", "")
    changed, answered = http_date(modified), http_date(headers.get("date", ""))
    # A document can change again within the second of its date and keep that date.
    if changed is None or answered is None or changed >= answered:
        modified = ""
    kept = [text if text.isascii() else "" for text in (etag, modified)]
    return json.dumps([digest(str(url)), *kept]) if any(kept) else ""


def conditions(version: str, url: httpx.URL) -> dict[str, str]:
    """Return the headers of a request for a document only if it changed.

    Returns no headers if the version belongs to a different address, for example after a redirect
    changed, or to another type of source.
    """
    try:
        place, etag, modified = json.loads(version)
    except (ValueError, TypeError):
        return {}
    if place != digest(str(url)):
        return {}
    asked = {"If-None-Match": etag, "If-Modified-Since": modified}
    return {header: value for header, value in asked.items() if value}
