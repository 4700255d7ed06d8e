"""The routes outside the API: `/`, `/docs` and `/playground` for people, `/healthz`, `/readyz` and
`/metrics`, and the metadata of RFC 9728 that tell clients where to get a token."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lorebind.server.middleware.callers import Caller
from lorebind.server.middleware.guard import PLAYGROUND
from lorebind.server.middleware.jwts import METADATA, RESOURCES
from lorebind.server.problems import ProblemError
from lorebind.server.server import PREFIX, TheServer
from lorebind.server.state.tokens import Rights
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind.server.middleware.jwts import Jwts

router = APIRouter(tags=["overview"])
health = APIRouter(tags=["health"])
callers = APIRouter(tags=["overview"])

_STYLE = """
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse }
td { border-top: 1px solid #8884; padding: .2rem .8rem .2rem 0; vertical-align: top }
:root { color-scheme: light dark }
"""
_PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Lorebind REST API</title>
<style>{_STYLE}</style>
<h1>Lorebind REST API</h1>
<p>To log in, send a token with each request: <code>Authorization: Bearer TOKEN</code>. The operator
of the server creates one with <code>lorebind token create NAME --rights read</code>. A server
without tokens serves only its own machine, and needs none.</p>
<p><a href="{PREFIX}/openapi.json">{PREFIX}/openapi.json</a> describes parameters and answers, for
those who have logged in. The documentation is at
<code>github.com/lorebind/lorebind/tree/main/docs</code>, page <code>how-to/server.md</code>.</p>
<table>
ROUTES
</table>
</html>
"""
_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
}
_FILES = Path(__file__).parents[2] / "playground"
_PLAYGROUND_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


@router.get("/", response_class=HTMLResponse)
async def root(request: Request, server: TheServer) -> Any:
    """Redirect to the playground; without it, show what `/docs` shows."""
    if server.project.config.project.server.playground:
        return RedirectResponse(PLAYGROUND.lstrip("/"))
    return await overview(request)


@router.get("/docs", response_class=HTMLResponse)
async def overview(request: Request) -> Any:
    """Show the routes, how to log in and where the documentation is, without a token.

    The page contains no data of the project, and loads nothing.
    """
    rows = [
        f"<tr><td>{method.upper()}<td><code>{path}</code><td>{escape(_what(operation))}"
        for path, methods in request.app.openapi()["paths"].items()
        for method, operation in methods.items()
    ]
    return HTMLResponse(_PAGE.replace("ROUTES", "\n".join(rows)), headers=_HEADERS)


def _what(operation: dict[str, Any]) -> str:
    """Return the first paragraph of a description."""
    return str(operation["description"]).partition("\n\n")[0]


class _Files(StaticFiles):
    """The files of the page; a browser asks each time whether they have changed."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        response = super().file_response(*args, **more)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _page(_: Request) -> FileResponse:
    return FileResponse(_FILES / "index.html", headers=_PLAYGROUND_HEADERS)


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


@health.get("/healthz")
async def healthz() -> dict[str, str]:
    """Check that the process answers."""
    return {"status": "ok"}


@health.get("/readyz")
async def readyz(server: TheServer) -> dict[str, str]:
    """Check that the server is ready: knowledge bases with `ingest: on_start` are ingested, and the
    databases answer."""
    if not server.is_ready:
        what = "about to stop" if server.is_draining else "starting"
        raise ProblemError("draining", f"the server is {what}", headers={"Retry-After": "1"})
    await server.readiness.check()
    return {"status": "ready"}


@health.get("/metrics", response_class=Response)
async def metrics(server: TheServer) -> Any:
    """Return metrics for Prometheus, summed over all tenants.

    Knowledge bases that were created over the API are counted together, as `api`.
    """
    client = import_extra("prometheus_client", extra="telemetry", purpose="/metrics")
    assert server.prometheus is not None
    # In a thread, because it reads the state of the databases.
    text = await call(client.generate_latest, server.prometheus.registry)
    return Response(text, media_type=client.CONTENT_TYPE_LATEST)


class CallerInfo(BaseModel):
    """The sender of a request, with its rights and tenants."""

    name: str
    """The id of the token; `local` on a server without tokens."""
    rights: Rights
    tenant: str | None
    """The tenant that requests are for; null if the token has several and the request names none,
    or if there are no tenants."""
    tenants: list[str]
    """The tenants of the token."""
    open: bool
    """Whether the server has no tokens and serves only this machine."""
    project: str
    version: str
    """The version of Lorebind."""


@callers.get("/caller", response_model=CallerInfo)
async def caller(request: Request, server: TheServer) -> Any:
    """Return the sender of the request, with its rights and tenants."""
    sender: Caller = request.scope["state"]["caller"]
    token = sender.token
    return CallerInfo(
        name=sender.name,
        rights="admin" if token is None else token.rights,
        tenant=sender.tenant,
        tenants=[] if token is None else list(token.tenants),
        open=token is None,
        project=server.project.name,
        version=version("lorebind"),
    )
