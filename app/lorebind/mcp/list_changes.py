"""Clients that listen for changes of the list of knowledge bases (`subscriptions/listen`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.server.subscriptions import ListenHandler, ResourcesListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

_MOST = 1000
"""Maximum number of streams at a time."""
_LONGEST_SECONDS = 600.0
"""After it a stream ends in order, and its client, whose token may be revoked, asks again."""


class ListChanges:
    """The open streams of all tenants. Each is told only of changes for its own tenant."""

    def __init__(self) -> None:
        self._streams: dict[ListenHandler, _Bus] = {}

    async def listen(self, tenant: str, context: Any, params: Any) -> Any:
        """Answer a client with the stream of changes, until it disconnects.

        Raises:
            MCPError: there are too many streams.
        """
        if len(self._streams) >= _MOST:
            raise MCPError(INTERNAL_ERROR, "too many clients listen; try again later")
        bus = _Bus(tenant)
        stream = ListenHandler(bus)
        self._streams[stream] = bus
        ending = asyncio.get_running_loop().call_later(_LONGEST_SECONDS, stream.close)
        try:
            return await stream(context, params)
        finally:
            ending.cancel()
            del self._streams[stream]

    def changed(self, tenant: str) -> None:
        """Tell the clients of a tenant that its knowledge bases, which tools describe, changed."""
        for bus in self._streams.values():
            if bus.tenant == tenant:
                bus.notify()

    def close(self) -> None:
        """End all streams in order."""
        for stream in self._streams:
            stream.close()


class _Bus:
    """Delivers the changes of one tenant to one stream."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._deliver: Callable[[Any], None] | None = None

    def notify(self) -> None:
        if self._deliver is not None:
            self._deliver(ResourcesListChanged())
            self._deliver(ToolsListChanged())

    async def publish(self, event: Any) -> None:
        if self._deliver is not None:
            self._deliver(event)

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        self._deliver = listener

        def unsubscribe() -> None:
            self._deliver = None

        return unsubscribe
