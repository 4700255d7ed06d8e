"""Lists in pages: opaque cursors for both directions, and the `Link` header (RFC 8288)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Query, Request

from lorebind.plain_data import as_data
from lorebind.server.etags import conditional
from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from starlette.responses import Response


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

    @property
    def bounds(self) -> tuple[str | None, str | None]:
        """The key after which the page starts, and the key before which it ends."""
        return (None, self.key) if self.backwards else (self.key, None)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page of a list."""

    request: Request
    limit: int
    """The number of items of the page. One more tells whether another page follows."""
    cursor: str | None

    def start(self, keys: str = ".*") -> Cursor:
        """Return the start of the page, see `Cursor.read`."""
        return Cursor.read(self.cursor, keys)

    def page_of(
        self,
        rows: Sequence[Any],
        start: Cursor,
        key: Callable[[Any], str],
        show: Callable[[Any], Any] = as_data,
    ) -> Response:
        """Answer with the items that were found.

        Args:
            rows: up to `limit` + 1 items from the start on, in the order of the list.
            start: the start of the page; if it is backwards, the surplus item comes first.
            key: returns the unique key of an item, by which the list is sorted.
            show: converts an item to plain data.
        """
        more = len(rows) > self.limit
        if start.backwards:
            items = rows[1:] if more else rows
            before, after = more, True
        else:
            items = rows[: self.limit]
            before, after = start.key is not None, more
        return self.response(
            [show(item) for item in items],
            str(Cursor(key(items[-1]))) if items and after else None,
            str(Cursor(key(items[0]), backwards=True)) if items and before else None,
        )

    def slice_of(self, items: Mapping[str, Any]) -> Response:
        """Answer with a part of a complete list of plain data, which is sorted by its keys."""
        start, keys = self.start(), list(items)
        if start.key is None:
            page = keys[: self.limit + 1]
        elif start.backwards:
            page = [key for key in keys if key < start.key][-self.limit - 1 :]
        else:
            page = [key for key in keys if key > start.key][: self.limit + 1]
        return self.page_of(page, start, str, items.__getitem__)

    def response(
        self, items: Sequence[Any], following: str | None, previous: str | None
    ) -> Response:
        """Answer with plain data as JSON, its ETag and links to the adjacent pages."""
        links = []
        for rel, cursor in (("next", following), ("prev", previous)):
            if cursor is not None:
                # Without a host, because callers could forge the host.
                url = self.request.url.include_query_params(cursor=cursor)
                links.append(f'<{url.path}?{url.query}>; rel="{rel}"')
        data = {"items": items, "next": following, "previous": previous}
        return conditional(self.request, data, {"Link": ", ".join(links)} if links else {})


async def _page_request(
    request: Request,
    limit: Annotated[
        int, Query(ge=1, le=100, description="The maximum number of items of a page.")
    ] = 20,
    cursor: Annotated[
        str | None,
        Query(
            max_length=2000, description="`next` or `previous` of another page of the same list."
        ),
    ] = None,
) -> PageRequest:
    return PageRequest(request, limit, cursor)


Paging = Annotated[PageRequest, Depends(_page_request)]
