"""Strong entity tags (RFC 9110): unchanged answers are not sent again, and no change is lost."""

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

_TAGS = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')


def etag_of(value: Any) -> str:
    """The tag of plain data: a digest, the same whatever the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def conditional(request: Request, value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Data with its tag; 304 where `If-None-Match` names that."""
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
    # A lone surrogate, which models and functions may give, stays as JSON escapes it.
    body = text.encode(errors="backslashreplace")
    return Response(body, status, dict(headers or {}), "application/json")


def check_update(request: Request, tag: str | None) -> None:
    """Refuse to change what the caller has not seen.

    Args:
        request: its `If-Match` names the ETags that the client has seen.
        tag: the current ETag; None if the resource does not exist.

    Raises:
        ProblemError: 428 without the header where something is there, 412 where it is stale.
    """
    named = _tags(request, "if-match")
    unseen = _tags(request, "if-none-match")
    if unseen is not None and tag is not None and (unseen == "*" or tag in unseen):
        raise ProblemError("precondition_failed", "it is there already; leave out If-None-Match")
    if named is None:
        if tag is not None:
            detail = "it is there already; send its ETag as If-Match to replace it"
            raise ProblemError("precondition_required", detail)
    elif tag is None or (named != "*" and tag not in named):
        raise ProblemError("precondition_failed", _STALE)


def check_delete(request: Request, tag: str) -> None:
    """The same for a deletion, which may go without the header.

    Raises:
        ProblemError: 412.
    """
    named = _tags(request, "if-match")
    if named is not None and named != "*" and tag not in named:
        raise ProblemError("precondition_failed", _STALE)


_STALE = "it has changed since, or is gone; read it again and send its new ETag"


def _tags(request: Request, header: str) -> str | list[str] | None:
    """The strong tags that a header names, `*` for any, None without the header.

    Raises:
        ProblemError: it is no list of tags.
    """
    lines = request.headers.getlist(header)
    if not lines:
        return None
    text = ", ".join(lines).strip()
    if text == "*":
        return "*"
    tags, at = [], 0
    while at < len(text):
        found = _TAGS.match(text, at)
        if found is None:
            detail = f'{header} must be tags in quotes, as "abc", or *; got {text[:80]!r}'
            raise ProblemError("invalid_header", detail)
        if not found[1]:  # weak ones never match here
            tags.append(found[2])
        at = found.end()
    return tags
