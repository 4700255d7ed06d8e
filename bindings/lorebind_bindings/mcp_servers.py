"""Servers of the Model Context Protocol (MCP) whose tools an agent calls, through LangChain."""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.errors import LorebindError, ToolError, did_you_mean, text_of
from lorebind_config.plugins import import_extra
from lorebind_config.redaction import HIDDEN, filled_in, without
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from langchain_core.tools import BaseTool, StructuredTool

    from lorebind_config.declarations.agents import McpServerDeclaration
    from lorebind_config.templates import Environment

_PURPOSE = "the tools of an MCP server"
_OPEN_SECONDS = 30.0
"""How long a server may take to start and to list its tools."""
_CALL_SECONDS = 300.0
"""How long a call of a tool may take."""
_CLOSE_SECONDS = 10.0
_MOST_TOOLS = 128
"""The number of tools that the APIs of chat models accept."""
_MOST_CHARACTERS = 200_000
"""The longest text of a result; more would fill the context of most models."""
_LAST_LINES = 5
_LAST_BYTES = 2000


class McpServer:
    """A declared server, which is open for the time of one answer."""

    def __init__(self, declared: McpServerDeclaration, environment: Environment) -> None:
        """
        Args:
            declared: the command or the URL.
            environment: fills in templates; the command runs in its folder.
        """
        self._declared, self._environment = declared, environment
        self._written = declared.model_dump(include=set(declared.templated))
        self._settings: dict[str, Any] = {}
        self._errors: TextIO | None = None
        """The standard error of the command."""
        self._refusal = ""
        """The status of the last answer over HTTP that was an error."""
        self._running: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def title(self) -> str:
        """The server in messages, as it is written: values of variables are not shown."""
        at, declared = self._declared.position(), self._declared
        where = f"{at}: " if at.line else ""
        return f"{where}the MCP server {declared.command or declared.url}"

    async def open(self) -> list[BaseTool]:
        """Start the server or connect to it, and return its tools.

        Raises:
            ToolError: it does not start, does not answer, or lacks a tool.
            MissingDependencyError: the extra `mcp` is not installed.
            MissingVariableError: a variable that the declaration uses is not set.
        """
        refuse_unset(self._declared, self._environment, "tool")
        self._settings = self._environment.fill(self._written)
        await call(_imported)  # in a thread, because it takes seconds
        opened: asyncio.Future[list[StructuredTool]] = asyncio.get_running_loop().create_future()
        # One task opens and closes the connection, as AnyIO's scopes demand.
        self._running = asyncio.create_task(self._run(opened))
        try:
            return self._chosen(await opened)
        except BaseException:
            if opened.cancelled():  # by the caller, who does not wait for the server
                self._running.cancel()
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the command."""
        self._closing.set()
        if self._running is None:
            return
        _, pending = await asyncio.wait({self._running}, timeout=_CLOSE_SECONDS)
        for task in pending:
            task.cancel()
        self._running = None

    async def _run(self, opened: asyncio.Future[list[StructuredTool]]) -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as self._errors:
            try:
                async with asyncio.timeout(_OPEN_SECONDS) as limit, self._adapter() as adapter:
                    tools = await adapter.list_tools()
                    # Only opening has a limit; the connection stays for as long as the answer
                    # takes.
                    limit.reschedule(None)
                    if not opened.done():
                        opened.set_result(tools)
                    await self._closing.wait()
            except asyncio.CancelledError:
                opened.cancel()
                raise
            except Exception as error:  # whatever the server and its client do
                if not opened.done():
                    opened.set_exception(self._failure(error))

    def _adapter(self) -> Any:
        adapters, clients, transports = _imported()
        declared = self._settings
        if declared["url"] is not None:
            transport = transports.StreamableHttpTransport(
                declared["url"],
                headers=declared["headers"],
                httpx_client_factory=self._http_client,
            )
        else:
            root = self._environment.root.resolve()
            program = root / declared["command"]
            is_path = os.sep in declared["command"] and program.is_file()
            transport = transports.StdioTransport(
                str(program) if is_path else declared["command"],
                declared["args"],
                env=declared["env"],
                cwd=str(root),
                # By default, FastMCP leaves the process running for a next client, which never
                # comes.
                keep_alive=False,
                log_file=self._errors,
            )
        client = clients.Client(
            transport,
            timeout=_CALL_SECONDS,
            init_timeout=_OPEN_SECONDS,
            elicitation_handler=_declines,
        )
        return adapters.MCPAdapter(client)

    def _http_client(self, *, follow_redirects: bool, **settings: Any) -> Any:
        """Return a client that remembers refusals, which the errors of the SDK do not name.

        It follows redirects within the server only, as the SDK does by default, so that no other
        host receives the headers.
        """
        httpx2 = import_extra("httpx2", extra="mcp", purpose=_PURPOSE)

        async def note(response: Any) -> None:
            if response.is_error:
                self._refusal = f"{response.status_code} {response.reason_phrase}".strip()

        return httpx2.AsyncClient(**settings, event_hooks={"response": [note]})

    def _chosen(self, tools: list[StructuredTool]) -> list[BaseTool]:
        by_name = {tool.name: tool for tool in tools}
        for name in self._declared.tools:
            if name not in by_name:
                hint = did_you_mean(name, by_name)
                raise ToolError(f"{self.title} has no tool {name!r}; {hint}")
        chosen = [by_name[name] for name in self._declared.tools] or tools
        if len(chosen) > _MOST_TOOLS:
            raise ToolError(
                f"{self.title} has {len(chosen)} tools, and chat models accept {_MOST_TOOLS}; name "
                "those that the agent needs in 'tools'"
            )
        prefix = self._declared.prefix
        return [
            tool.model_copy(
                update={"name": f"{prefix}{tool.name}", "coroutine": self._bounded(tool)}
            )
            for tool in chosen
        ]

    def _bounded(self, tool: StructuredTool) -> Callable[..., Awaitable[Any]]:
        """Return the function of a tool, whose result is not too long for a model."""
        from langchain_core.tools import ToolException

        async def call_tool(**arguments: Any) -> Any:
            assert tool.coroutine is not None
            try:
                blocks, artifact = await tool.coroutine(**arguments)
            except ToolException:  # the tool's own error, which the model may correct
                raise
            except Exception as error:  # the connection, about which the model can do nothing
                raise self._failure(error) from error
            return [_shortened(block) for block in blocks], artifact

        return call_tool

    def _failure(self, error: Exception) -> LorebindError:
        if isinstance(error, LorebindError):
            return error
        reason = f"{type(error).__name__}: {text_of(error)}"
        if self._refusal:
            reason = f"it answered {self._refusal}; check its 'url' and 'headers'"
        if isinstance(error, TimeoutError):
            reason = f"no answer within {_OPEN_SECONDS:g} s"
        if self._errors is not None and (last := _last_lines(self._errors)):
            reason += f"; its last lines: {last}"
        hidden = dict.fromkeys(filled_in(self._written, self._settings), HIDDEN)
        return ToolError(f"{self.title} cannot be used: {without(reason, hidden)}")


def _shortened(block: Any) -> Any:
    omitted = len(block.get("text", "")) - _MOST_CHARACTERS
    if omitted <= 0:
        return block
    text = f"{block['text'][:_MOST_CHARACTERS]}… [{omitted} characters omitted]"
    return {**block, "text": text}


async def _declines(*_: object) -> Any:
    """Answer a server that asks the user something: nobody is there."""
    from mcp_types import ElicitResult

    return ElicitResult(action="decline")


def _last_lines(errors: TextIO) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _LAST_BYTES))
    return " | ".join(errors.read().split("\n")[-_LAST_LINES - 1 :]).strip(" |")


def _imported() -> tuple[Any, Any, Any]:
    """Import LangChain's adapter and the client below it."""
    from langchain_core._api import LangChainBetaWarning

    with _quiet_import(), warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        names = ("fastmcp", "langchain.mcp", "fastmcp.client", "fastmcp.client.transports")
        _, *modules = (import_extra(name, extra="mcp", purpose=_PURPOSE) for name in names)
    return modules[0], modules[1], modules[2]


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Let FastMCP set up no log handler and read no `.env` when it is imported."""
    before = dict(os.environ)
    os.environ.setdefault("FASTMCP_LOG_ENABLED", "false")
    os.environ.setdefault("FASTMCP_ENV_FILE", os.devnull)
    try:
        yield
    finally:
        for name in ("FASTMCP_LOG_ENABLED", "FASTMCP_ENV_FILE"):
            if name not in before:
                os.environ.pop(name, None)
