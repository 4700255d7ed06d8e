"""MCP over HTTP: a route at exactly `/mcp`, without sessions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from lorebind.server.problems import MCP, ProblemError
from lorebind_config.errors import MissingDependencyError
from lorebind_config.namespace import tenant
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import call_daemon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Scope, Send

    from lorebind.mcp.list_changes import ListChanges
    from lorebind.mcp.server import LogFailure
    from lorebind.project import Project


class McpEndpoint:
    """The ASGI application of the route.

    Each request is answered by itself: no session outlives it that another token could use. The
    guard has checked host, token, tenant and rate before.
    """

    def __init__(
        self,
        project: Project,
        of_tenant: Callable[[str], Awaitable[Project]],
        log_failure: LogFailure,
    ) -> None:
        """
        Args:
            project: the project that the files declare.
            of_tenant: returns the project as a tenant sees it.
            log_failure: logs unexpected errors.
        """
        self._project, self._of_tenant, self._log_failure = project, of_tenant, log_failure
        self._starting = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._manager: StreamableHTTPSessionManager | None = None
        self._stopped = asyncio.Event()
        self._changes: ListChanges | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["caller"].require("read")
        if scope["method"] != "POST":
            detail = "send messages by POST; this server has no sessions and no stream of its own"
            raise ProblemError("method_not_allowed", detail, headers={"Allow": "POST"})
        manager = await self._started()
        await manager.handle_request(scope, receive, send)

    async def prepare(self) -> None:
        """Import ahead what the first request needs, unless the extra is not installed."""
        with suppress(MissingDependencyError):
            await self._started()

    def changed(self, tenant: str) -> None:
        """Tell the clients of a tenant that listen that its knowledge bases have changed."""
        if self._changes is not None:
            self._changes.changed(tenant)

    def drain(self) -> None:
        """End the streams of clients that listen, which would last long."""
        if self._changes is not None:
            self._changes.close()

    async def stop(self) -> None:
        """End the task that runs the sessions."""
        self._stopped.set()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                # In a thread, because the first import takes a second. No stop waits for it.
                manager, self._changes = await call_daemon(self._make)
                self._manager = manager
                running = asyncio.Event()
                # One task enters and leaves it, in a context without the tenant of this request.
                self._running = asyncio.create_task(
                    _run(self._manager, running, self._stopped), context=Context()
                )
                await running.wait()
        return self._manager

    def _make(self) -> tuple[StreamableHTTPSessionManager, ListChanges]:
        import_extra("mcp", extra="mcp", purpose=MCP)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from lorebind.mcp.list_changes import ListChanges
        from lorebind.mcp.server import make_server

        served = make_server(self._project, self._of_caller, self._log_failure, self._listen)
        manager = StreamableHTTPSessionManager(served, json_response=True, stateless=True)
        return manager, ListChanges()

    @asynccontextmanager
    async def _of_caller(self, context: Any) -> AsyncIterator[Project]:
        with self._as_caller(context) as name:
            yield await self._of_tenant(name)

    async def _listen(self, context: Any, params: Any) -> Any:
        assert self._changes is not None
        with self._as_caller(context) as name:
            return await self._changes.listen(name, context, params)

    @contextmanager
    def _as_caller(self, context: Any) -> Iterator[str]:
        """Enter the tenant of the caller, and return its name."""
        caller = context.request.scope["state"]["caller"]
        with nullcontext() if caller.tenant is None else tenant(caller.tenant):
            yield self._project.config.tenant


async def _run(
    manager: StreamableHTTPSessionManager, running: asyncio.Event, stopped: asyncio.Event
) -> None:
    async with manager.run():
        running.set()
        await stopped.wait()
