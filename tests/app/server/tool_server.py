"""An MCP server with tools for tests, as a program that speaks it over standard input and output.

Its first argument says how it misbehaves: `hang` and `crash` before it answers.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NAMES = ["echo", "fail", "variable", "folder", "long", "exit"]


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    more = [f"tool_{number}" for number in range(200)] if "many" in sys.argv else []
    tools = [
        types.Tool(name=name, description=f"The tool {name}.", input_schema=schema)
        for name in [*NAMES, *more]
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {}).get("text", ""))
    if params.name == "exit":
        sys.stderr.write("I am leaving\n")
        os._exit(3)
    results = {
        "echo": f"{os.getpid()} {text}",
        "fail": f"there is no {text}",
        "variable": os.environ.get(text, "not set"),
        "folder": os.getcwd(),
        "long": "x" * 300_000,
    }
    content: list[Any] = [types.TextContent(text=results[params.name])]
    return types.CallToolResult(content=content, is_error=params.name == "fail")


async def main() -> None:
    server: Server[Any] = Server("tools", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    if "hang" in sys.argv:
        time.sleep(60)
    if "crash" in sys.argv:
        sys.exit(f"the key {os.environ.get('KEY')} is wrong")
    asyncio.run(main())
