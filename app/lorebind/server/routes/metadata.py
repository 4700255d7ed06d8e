"""Metadata of the server as a protected resource (RFC 9728), which needs no token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from lorebind.server.middleware.jwts import METADATA, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from lorebind.server.middleware.jwts import Jwts


def metadata_routes(jwts: Jwts) -> list[Route]:
    """Return the routes that tell clients where to get a token."""
    return [Route(f"{METADATA}{path}", _metadata(jwts, path)) for path in RESOURCES]


def _metadata(jwts: Jwts, path: str) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(jwts.metadata(request.headers, path))

    return metadata
