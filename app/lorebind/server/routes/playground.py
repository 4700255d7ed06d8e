"""`/playground`: a page that shows the knowledge, made of static files and calls of this API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lorebind.server.middleware.guard import PLAYGROUND

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


def routes() -> list[BaseRoute]:
    """Return the routes of the page and its files, which need no token."""
    return [Route(PLAYGROUND, _page), Mount(PLAYGROUND, _Files(directory=_FILES))]
