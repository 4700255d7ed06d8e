"""MCP over standard input and output, for programs that start the server themselves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from lorebind.mcp.server import make_server
from lorebind.server.failure_log import FailureLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lorebind.project import Project


async def serve_stdio(project: Project) -> None:
    """Answer one client until it closes standard input. Only the protocol is on standard output.

    Args:
        project: the project, which is closed at the end.
    """

    @asynccontextmanager
    async def of_caller(_: Any) -> AsyncIterator[Project]:
        yield project

    server = make_server(project, of_caller, FailureLog(project.config))
    async with project, stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
