"""Routes outside the API that need no token: the page `/playground`, and metadata (RFC 9728)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lorebind.server.middleware.guard import PLAYGROUND
from lorebind.server.middleware.jwts import METADATA, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind.server.middleware.jwts import Jwts

_FILES = Path(__file__).parents[2] / "playground"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


class _Files(StaticFiles):
    """The files of the page; a browser asks each time whether they have changed."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        response = super().file_response(*args, **more)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _page(_: Request) -> FileResponse:
    return FileResponse(_FILES / "index.html", headers=_HEADERS)


def playground_routes() -> list[BaseRoute]:
    """Return the routes of the page and its files, which need no token."""
    return [Route(PLAYGROUND, _page), Mount(PLAYGROUND, _Files(directory=_FILES))]


def metadata_routes(jwts: Jwts) -> list[Route]:
    """Return the routes that tell clients where to get a token."""
    return [Route(f"{METADATA}{path}", _metadata(jwts, path)) for path in RESOURCES]


def _metadata(jwts: Jwts, path: str) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(jwts.metadata(request.headers, path))

    return metadata
