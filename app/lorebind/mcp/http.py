"""MCP over HTTP: a route at exactly `/mcp`, without sessions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from contextvars import Context
from typing import TYPE_CHECKING, Any

from lorebind.server.problems import ProblemError
from lorebind_config.namespace import tenant
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Scope, Send

    from lorebind.project import Project
    from lorebind.server.server import Server

PATH = "/mcp"


class McpEndpoint:
    """The ASGI application of the route.

    Each request is answered by itself: no session outlives it that another token could use. The
    guard has checked host, token, tenant and rate before.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._starting = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._manager: StreamableHTTPSessionManager | None = None
        self._stopped = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["caller"].require("read")
        if scope["method"] != "POST":
            detail = "send messages by POST; this server has no sessions and no stream of its own"
            raise ProblemError("method_not_allowed", detail, headers={"Allow": "POST"})
        manager = await self._started()
        await manager.handle_request(scope, receive, send)

    async def stop(self) -> None:
        """End the task that runs the sessions."""
        self._stopped.set()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                # In a thread, because the first import takes a second.
                self._manager = await call(self._made)
                running = asyncio.Event()
                # One task enters and leaves it, in a context without the tenant of this request.
                self._running = asyncio.create_task(
                    _run(self._manager, running, self._stopped), context=Context()
                )
                await running.wait()
        return self._manager

    def _made(self) -> StreamableHTTPSessionManager:
        import_extra("mcp", extra="mcp", purpose=PATH)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from lorebind.mcp.server import make_server

        server = self._server
        served = make_server(server.project, self._of_caller, server.log_failure)
        return StreamableHTTPSessionManager(served, json_response=True, stateless=True)

    @asynccontextmanager
    async def _of_caller(self, context: Any) -> AsyncIterator[Project]:
        caller = context.request.scope["state"]["caller"]
        with nullcontext() if caller.tenant is None else tenant(caller.tenant):
            yield await self._server.project_for(self._server.project.config.tenant)


async def _run(
    manager: StreamableHTTPSessionManager, running: asyncio.Event, stopped: asyncio.Event
) -> None:
    async with manager.run():
        running.set()
        await stopped.wait()
