"""Serve a project with uvicorn until the process is told to stop."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import uvicorn

from lorebind.server.app import make_app
from lorebind.server.ending import LAST_SECONDS, Ending, Signals
from lorebind.server.listening import close, is_loopback, listen, listening_at
from lorebind.server.server import DRAIN_SECONDS, Server
from lorebind_config.errors import UsageError
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from lorebind.project import Project


def serve(
    project: Project,
    *,
    host: str,
    port: int,
    uds: str | None,
    tell: Callable[[str], None],
) -> None:
    """Serve a project until SIGTERM or SIGINT. Blocks, and completes running requests first.

    It must be called in the main thread, which gets the signals. A second SIGINT ends the process
    immediately, with exit code 130. The process must end when this returns: if third-party code
    hangs in a thread, the process is ended some seconds later.

    Args:
        project: the project, which is closed at the end.
        host: the name or address to listen on.
        port: the port; 0 chooses a free one.
        uds: a Unix socket to listen on instead. Only this user can connect to it.
        tell: called with the address of the server.

    Raises:
        UsageError: others could call it and there are no tokens, or it cannot listen there.
        LorebindError: a knowledge base with `ingest: on_start` could not be ingested.
    """
    with Signals().watched() as signals, asyncio.Runner() as runner:
        loop = runner.get_loop()
        serving = loop.create_task(_serve(project, signals, host, port, uds, tell))
        while not serving.done():
            with suppress(RuntimeError):  # code of the project has stopped the loop
                loop.run_until_complete(serving)
        serving.result()


async def _serve(
    project: Project,
    signals: Signals,
    host: str,
    port: int,
    uds: str | None,
    tell: Callable[[str], None],
) -> None:
    server = Server(project)
    try:
        with ExitStack() as stack:
            if uds is None:
                sockets = listen(host, port)
                stack.callback(close, sockets)
            else:
                sockets = [stack.enter_context(listening_at(uds))]
            is_local = is_loopback(sockets)
            if not is_local and server.jwts is None and not await call(server.tokens.all):
                raise UsageError(
                    f"other machines could call the server at {host}, and there are no tokens; "
                    "create one with: lorebind token create NAME --rights read"
                )
            app = make_app(server, [host], open_without_tokens=is_local)
            config = uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",  # the project is started and stopped here
                log_config=None,
                log_level="critical",  # the guard logs all requests and errors
                access_log=False,
                proxy_headers=False,
                server_header=False,
            )
            where = f"unix:{uds}" if uds else _url(sockets[0])
            ending = Ending()
            running = _Uvicorn(config, server, signals, ending, lambda: tell(where))
            await server.start()
            assert server.starting is not None
            server.starting.add_done_callback(running.stop_if_failed)
            await running.serve(sockets)
            if server.starting.done() and not server.starting.cancelled():
                server.starting.result()
    finally:
        await server.stop()
    ending.code = 0
    ending.within(LAST_SECONDS)


class _Uvicorn(uvicorn.Server):
    """Reports when it serves, and stops if the project cannot start.

    When it is told to stop, it refuses new requests immediately.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server: Server,
        signals: Signals,
        ending: Ending,
        tell: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._served, self._signals, self._ending, self._tell = server, signals, ending, tell

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # `Signals` handles them, and for longer than uvicorn would

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._signals.came

    def stop_if_failed(self, starting: asyncio.Task[None]) -> None:
        if not starting.cancelled() and starting.exception() is not None:
            self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # After the ingests, four waits may take their whole time: for the start, for connections,
        # for cancelled requests, and for closing the project.
        self._ending.within(DRAIN_SECONDS + 4 * LAST_SECONDS)
        drained = time.monotonic() + DRAIN_SECONDS
        await self._served.drain(DRAIN_SECONDS)
        left = max(drained - time.monotonic(), 0)
        self.config.timeout_graceful_shutdown = math.ceil(left) + LAST_SECONDS
        ending = asyncio.create_task(self._end_runs(left))
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_runs(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._served.connected.stop()


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
