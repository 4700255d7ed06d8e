"""The ASGI application of a project."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.routing import Route

from lorebind.server.failures import answer_failures
from lorebind.server.middleware.callers import Callers, Rates
from lorebind.server.middleware.guard import REQUEST_SECONDS, RequestGuard
from lorebind.server.middleware.hosts import Hosts
from lorebind.server.openapi import PROBLEM, describe, operation_id
from lorebind.server.problems import MCP
from lorebind.server.routes import (
    answers,
    chat_completions,
    documents,
    knowledge_bases,
    overview,
    queries,
    reading,
    resources,
    runs,
    whole_index,
    workflow_runs,
    workflows,
)
from lorebind.server.server import PREFIX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Scope

    from lorebind.server.server import Server


def make_api(server: Server) -> FastAPI:
    """Create the routes of a server, without the guard that checks callers."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await server.start()
        try:
            yield
        finally:
            await server.stop()

    app = FastAPI(
        title=f"Lorebind: {server.project.name}",
        version=version("lorebind"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        routes=[*api_routes()],
    )
    describe(app)
    app.state.server = server
    answer_failures(app)
    return app


@cache
def api_routes() -> Sequence[BaseRoute]:
    """Build the routes, which are the same for all projects; it takes a sixth of a second."""
    router = APIRouter(
        responses={"4XX": PROBLEM, "5XX": PROBLEM}, generate_unique_id_function=operation_id
    )
    for routes in (  # the most frequent ones first, because FastAPI tries them in order
        answers,
        queries,
        knowledge_bases,
        whole_index,
        runs,
        documents,
        reading,
        resources,
        workflows,
        workflow_runs,
    ):
        router.include_router(routes.router, prefix=PREFIX)
    router.include_router(resources.bindings, prefix=PREFIX)
    router.include_router(overview.callers, prefix=PREFIX)
    router.include_router(chat_completions.router)
    router.include_router(overview.health)
    router.include_router(overview.router)
    # FastAPI would build more of them in the first request, which would block all others.
    scope: Scope = {"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []}
    for route in router.routes:
        route.matches(dict(scope))
    return router.routes


def make_app(
    server: Server,
    hosts: Sequence[str] = (),
    *,
    open_without_tokens: bool = True,
    seconds: float = REQUEST_SECONDS,
) -> ASGIApp:
    """Create the application that serves a project.

    Args:
        server: the project and its state.
        hosts: host names in addition to the declared ones.
        open_without_tokens: whether all callers have all rights while there is no token.
        seconds: the time limit for an answer to begin.
    """
    app = make_api(server)
    declared = server.project.config.project.server
    app.router.routes.append(Route(MCP, server.mcp))
    public = overview.metadata_routes(server.jwts) if server.jwts else []
    app.router.routes.extend(public)
    if declared.playground:
        app.router.routes.extend(overview.playground_routes())
    limit = declared.rate_limit
    return RequestGuard(
        app,
        hosts=Hosts([*declared.hosts, *hosts]),
        callers=Callers(
            server.tokens,
            server.jwts,
            open_without_tokens=open_without_tokens,
            prepare=server.prepare,
        ),
        rates=None if limit is None else Rates(limit),
        is_draining=lambda: server.is_draining,
        seconds=seconds,
        longer=dict.fromkeys(
            (f"{PREFIX}{answers.PATH}", chat_completions.COMPLETIONS), declared.answer_seconds
        ),
        most_upload_bytes=declared.max_pack_mb * 1024**2,
        log_failure=server.log_failure,
        public=[route.path for route in public],
    )
