"""Lists in pages: opaque cursors for both directions, and the `Link` header (RFC 8288)."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query

from lorebind.plain_data import as_data
from lorebind.server.etags import conditional
from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

LIMIT, MOST = 20, 100

LimitParameter = Annotated[
    int, Query(ge=1, le=MOST, description="The maximum number of items of a page.")
]
CursorParameter = Annotated[
    str | None,
    Query(max_length=2000, description="`next` or `previous` of another page of the same list."),
]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The start of a page: after the item with this key, or before it."""

    key: str | None = None
    """None for the beginning of the list."""
    backwards: bool = False

    @classmethod
    def read(cls, text: str | None, keys: str = ".*") -> Cursor:
        """Decode a cursor.

        Args:
            text: the cursor; None means the beginning of the list.
            keys: the regular expression of the list's keys.

        Raises:
            ProblemError: the cursor is not valid.
        """
        if text is None:
            return cls()
        try:
            padded = text + "=" * (-len(text) % 4)
            key, backwards = json.loads(base64.b64decode(padded, b"-_", validate=True))
            if not isinstance(backwards, bool) or not re.fullmatch(keys, key, re.DOTALL):
                raise ValueError
            key.encode()  # refuses lone surrogates
            if "\0" in key:  # PostgreSQL cannot store it
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            detail = "the cursor is not valid for this list; start without a cursor"
            raise ProblemError("invalid_cursor", detail) from None
        return cls(key, backwards)

    def __str__(self) -> str:
        text = json.dumps([self.key, self.backwards], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a list, and the cursors of the adjacent pages."""

    items: list[Any]
    next: str | None
    previous: str | None

    def response(self, request: Request, show: Callable[[Any], Any] = as_data) -> Response:
        """Answer with the page as JSON, its ETag and links to the adjacent pages."""
        items = [show(item) for item in self.items]
        data = {"items": items, "next": self.next, "previous": self.previous}
        return conditional(request, data, self._link(request))

    def _link(self, request: Request) -> dict[str, str]:
        """Return links without a host, because callers could forge the host."""
        links = []
        for rel, cursor in (("next", self.next), ("prev", self.previous)):
            if cursor is not None:
                url = request.url.include_query_params(cursor=cursor)
                links.append(f'<{url.path}?{url.query}>; rel="{rel}"')
        return {"Link": ", ".join(links)} if links else {}


def page_of(found: Sequence[Any], cursor: Cursor, limit: int, key: Callable[[Any], str]) -> Page:
    """Make a page from the items that were found.

    Args:
        found: up to `limit` + 1 items from the cursor on, in the order of the list.
        cursor: the start of the page; if it is backwards, the surplus item comes first.
        limit: the number of items of a page.
        key: returns the unique key of an item, by which the list is sorted.
    """
    items = list(found)
    more = len(items) > limit
    if cursor.backwards:
        items = items[1:] if more else items
        before, after = more, True
    else:
        items = items[:limit]
        before, after = cursor.key is not None, more
    if not items:
        return Page([], None, None)
    first, last = key(items[0]), key(items[-1])
    return Page(
        items,
        str(Cursor(last)) if after else None,
        str(Cursor(first, backwards=True)) if before else None,
    )


def slice_of(items: Sequence[Any], cursor: Cursor, limit: int, key: Callable[[Any], str]) -> Page:
    """Make a page of a complete list that is sorted by key."""
    if cursor.key is None:
        found = items[: limit + 1]
    elif cursor.backwards:
        found = [item for item in items if key(item) < cursor.key][-limit - 1 :]
    else:
        found = [item for item in items if key(item) > cursor.key][: limit + 1]
    return page_of(found, cursor, limit, key)
