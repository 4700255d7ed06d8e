"""Strong ETags (RFC 9110): unchanged answers are not sent again, and no update is lost."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

_TAGS = re.compile(r'\s*(?:(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*)?(?:,|$)')
"""A tag and the comma after it; lists may have empty elements (RFC 9110, 5.6.1)."""


def etag_of(value: Any) -> str:
    """Return the ETag of plain data: a digest that does not depend on the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def conditional(request: Request, value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with data and its ETag, or with 304 if `If-None-Match` contains the ETag."""
    tag = etag_of(value)
    more = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache", **(headers or {})}
    named = _tags(request, "if-none-match")
    if named is not None and (named == "*" or tag in named):
        return Response(status_code=304, headers=more)
    return json_response(value, headers=more)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Models and functions may return lone surrogates, which stay escaped as JSON does it.
    body = text.encode(errors="backslashreplace")
    return Response(body, status, dict(headers or {}), "application/json")


def check_update(request: Request, tag: str | None) -> None:
    """Refuse an update if the caller has not seen the current state.

    Args:
        request: the request, whose `If-Match` names the ETags that the client has seen.
        tag: the current ETag; None if the resource does not exist.

    Raises:
        ProblemError: 428 if the resource exists and the header is missing, 412 if it is stale.
    """
    named = _tags(request, "if-match")
    unseen = _tags(request, "if-none-match")
    if unseen is not None and tag is not None and (unseen == "*" or tag in unseen):
        raise ProblemError("precondition_failed", "it already exists; omit If-None-Match")
    if named is None:
        if tag is not None:
            detail = "it already exists; send its ETag as If-Match to replace it"
            raise ProblemError("precondition_required", detail)
    elif tag is None or (named != "*" and tag not in named):
        raise ProblemError("precondition_failed", _STALE)


def check_delete(request: Request, tag: str) -> None:
    """Refuse a deletion if the caller has not seen the current state; the header is optional.

    Raises:
        ProblemError: 412 if the header is stale.
    """
    named = _tags(request, "if-match")
    if named is not None and named != "*" and tag not in named:
        raise ProblemError("precondition_failed", _STALE)


_STALE = "it was changed or deleted in the meantime; read it again and send its new ETag"


def _tags(request: Request, header: str) -> str | list[str] | None:
    """Return the ETags in a header; `*` for any, None if the header is missing.

    Proxies that compress make tags weak. `If-None-Match` ignores that, and `If-Match`, which
    protects updates, omits weak tags (RFC 9110, 13.1).

    Raises:
        ProblemError: the header is not a list of ETags.
    """
    lines = request.headers.getlist(header)
    if not lines:
        return None
    text = ", ".join(lines).strip()
    if text == "*":
        return "*"
    tags, at = [], 0
    while at < len(text):
        match = _TAGS.match(text, at)
        if match is None:
            detail = f'{header} must be tags in quotes, as "abc", or *; got {text[:80]!r}'
            raise ProblemError("invalid_header", detail)
        if match[2] is not None and (not match[1] or header == "if-none-match"):
            tags.append(match[2])
        at = match.end()
    return tags
