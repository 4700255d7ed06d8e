"""Lists in pages: opaque cursors that lead both ways, and the `Link` header (RFC 8288)."""

from __future__ import annotations

import base64
import json
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

LimitParameter = Annotated[int, Query(ge=1, le=MOST, description="The most items of a page.")]
CursorParameter = Annotated[
    str | None,
    Query(max_length=2000, description="`next` or `previous` of another page of the same list."),
]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: after the item with this key, or before it."""

    key: str | None = None
    """None is the beginning of the list."""
    backwards: bool = False

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """
        Raises:
            ProblemError: no page had this cursor.
        """
        if text is None:
            return cls()
        try:
            padded = text + "=" * (-len(text) % 4)
            key, backwards = json.loads(base64.b64decode(padded, b"-_", validate=True))
            if not isinstance(key, str) or not isinstance(backwards, bool):
                raise ValueError
            key.encode()  # a lone surrogate is no text
            if "\0" in key:  # which PostgreSQL has not
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            detail = "no page of this list has this cursor; begin without one"
            raise ProblemError("invalid_cursor", detail) from None
        return cls(key, backwards)

    def __str__(self) -> str:
        text = json.dumps([self.key, self.backwards], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a list, and the cursors of the pages beside it."""

    items: list[Any]
    next: str | None
    previous: str | None

    def response(self, request: Request, show: Callable[[Any], Any] = as_data) -> Response:
        """The page as JSON, with its ETag and the links to the pages beside it."""
        items = [show(item) for item in self.items]
        data = {"items": items, "next": self.next, "previous": self.previous}
        return conditional(request, data, self._link(request))

    def _link(self, request: Request) -> dict[str, str]:
        """Paths without a host, so that nobody can choose where they lead."""
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
        cursor: where the page begins; backwards, the one too many is the first.
        limit: how many items a page has.
        key: what tells an item from the others, and gives their order.
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
    """Make a page of a complete list, which is sorted by key."""
    if cursor.key is None:
        found = items[: limit + 1]
    elif cursor.backwards:
        found = [one for one in items if key(one) < cursor.key][-limit - 1 :]
    else:
        found = [one for one in items if key(one) > cursor.key][: limit + 1]
    return page_of(found, cursor, limit, key)
