"""Serving a project with uvicorn until it is told to stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import uvicorn

from lorebind.server.app import make_app
from lorebind.server.doors.hosts import LOOPBACK
from lorebind.server.server import Server
from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from lorebind.project import Project

DRAIN_SECONDS = 30
"""How long requests may go on when the server is told to stop."""
_LAST_SECONDS = 5
"""How long they may then take to say that they were cut off."""


async def serve(
    project: Project,
    *,
    host: str,
    port: int,
    uds: str | None,
    tell: Callable[[str], None],
) -> None:
    """Serve a project until SIGTERM or SIGINT. Requests under way end first.

    Args:
        project: it is closed at the end.
        host, port: where to listen. Port 0 is any free one.
        uds: a Unix socket to listen at instead.
        tell: told where it listens.

    Raises:
        UsageError: others could call it and there are no tokens, or it cannot listen there.
        LorebindError: a knowledge base with `ingest: on_start` could not be ingested.
    """
    server = Server(project)
    if uds is None and host not in LOOPBACK and not await call(server.tokens.any):
        raise UsageError(
            f"other machines could call the server at {host}, and there are no tokens; make one "
            "with: lorebind token create NAME --rights read"
        )
    config = uvicorn.Config(
        make_app(server, [host]),
        host=host,
        port=port,
        uds=uds,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=DRAIN_SECONDS + _LAST_SECONDS,
        lifespan="on",
    )
    running = _Uvicorn(config, server, tell)
    await running.serve()
    if server.starting is not None and not server.starting.cancelled():
        server.starting.result()


class _Uvicorn(uvicorn.Server):
    """Says where it listens, refuses new requests as soon as it is to stop, and stops where the
    project cannot start."""

    def __init__(self, config: uvicorn.Config, server: Server, tell: Callable[[str], None]) -> None:
        super().__init__(config)
        self._served, self._tell = server, tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # it has logged why, where nobody reads it
            where = self.config.uds or f"{self.config.host}:{self.config.port}"
            raise UsageError(f"cannot listen at {where}; is another server there?") from None
        if self.started:
            self._tell(self._where())
            assert self._served.starting is not None
            self._served.starting.add_done_callback(self._stop_if_failed)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._captured_signals.clear()  # they have what they ask for; the process exits with 0
        await self._served.drain()
        ending = asyncio.create_task(self._end_runs())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_runs(self) -> None:
        await asyncio.sleep(DRAIN_SECONDS)
        await self._served.connected.stop()

    def _stop_if_failed(self, starting: asyncio.Task[None]) -> None:
        if not starting.cancelled() and starting.exception() is not None:
            self.should_exit = True

    def _where(self) -> str:
        if self.config.uds:
            return f"unix:{self.config.uds}"
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
