"""`lorebind mcp`: the project over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import redirect_stdout

from lorebind.cli.interrupts import INTERRUPTED
from lorebind.cli.opening import open_project
from lorebind.cli.options import ProjectOption
from lorebind_config.plugins import import_extra


def mcp(project: ProjectOption = ".") -> None:
    """Serve the project to one MCP client over standard input and output.

    Programs such as Claude and Cursor start this command themselves. It can only read. For several
    clients, `lorebind serve` has the same tools at `/mcp`.
    """
    import_extra("mcp", extra="mcp", purpose="lorebind mcp")
    from lorebind.mcp.stdio import serve_stdio  # its import fails without the package

    loaded = open_project(project)
    # A thread waits for standard input, and only the end of the process can end that.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    with redirect_stdout(sys.__stdout__):  # commands print through an object without a descriptor
        asyncio.run(serve_stdio(loaded))
