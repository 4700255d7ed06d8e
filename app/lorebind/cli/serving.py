"""`lorebind serve` and `mcp`: the project over HTTP, and over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from lorebind.cli.interrupts import INTERRUPTED
from lorebind.cli.opening import open_project
from lorebind.cli.options import ProjectOption
from lorebind.cli.terminal import print_line
from lorebind_config.plugins import import_extra


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 chooses a free one.")
    ] = 8642,
    uds: Annotated[
        str | None, typer.Option(metavar="PATH", help="Listen on a Unix socket instead.")
    ] = None,
    project: ProjectOption = ".",
) -> None:
    """Serve the project as a REST API, until SIGTERM or Ctrl-C.

    Without tokens, only programs on this machine can call the server, with all rights. A Unix
    socket is only for programs of the same user.
    """
    import_extra("uvicorn", extra="server", purpose="lorebind serve")
    import_extra("fastapi", extra="server", purpose="lorebind serve")
    # Their imports fail without these packages.
    from lorebind.doctor import unshared_storage
    from lorebind.server.serve import serve as serve_project

    loaded = open_project(project)

    def tell(where: str) -> None:
        print_line(f"serving at {where}")
        for part, why in unshared_storage(loaded.config):
            print_line(f"warning: {part}: {why}", stderr=True)

    serve_project(loaded, host=host, port=port, uds=uds, tell=tell)


def mcp(project: ProjectOption = ".") -> None:
    """Serve the project to one MCP client over standard input and output.

    Programs such as Claude and Cursor start this command themselves. It can only read. For several
    clients, `lorebind serve` has the same tools at `/mcp`.
    """
    import_extra("mcp", extra="mcp", purpose="lorebind mcp")
    from lorebind.mcp.server import serve_stdio  # its import fails without the package

    loaded = open_project(project)
    # A thread waits for standard input, and only the end of the process can end that.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    with redirect_stdout(sys.__stdout__):  # commands print through an object without a descriptor
        asyncio.run(serve_stdio(loaded))
