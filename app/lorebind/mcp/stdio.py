"""MCP over standard input and output, for programs that start the server themselves."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from lorebind.mcp.server import make_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lorebind.project import Project

log = logging.getLogger("lorebind.mcp")


async def serve_stdio(project: Project) -> None:
    """Answer one client until it closes standard input. Only the protocol is on standard output.

    Args:
        project: the project, which is closed at the end.
    """

    @asynccontextmanager
    async def of_caller(_: Any) -> AsyncIterator[Project]:
        yield project

    def log_failure(failure: str, error: BaseException) -> None:
        log.error("%s", failure, exc_info=error)

    server = make_server(project, of_caller, log_failure)
    async with project, stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
