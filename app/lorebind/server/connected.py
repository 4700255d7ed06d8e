"""Run work for connected callers: it is cancelled as soon as its caller disconnects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Receive

T = TypeVar("T")

_STOP_SECONDS = 5
"""Maximum seconds that `stop` waits for cancelled work."""


class StoppedError(Exception):
    """The server stops and has cancelled the work."""


class Connected:
    """The running work."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def do(self, receive: Receive, work: Coroutine[Any, Any, T]) -> T:
        """Await work while its caller is connected. Cancelling this cancels the work and waits.

        Args:
            receive: receives messages of the request, whose body has been read.
            work: the work.

        Raises:
            ClientDisconnect: the caller has disconnected, and the work was cancelled.
            StoppedError: see `stop`.
        """
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientDisconnect
            if task.cancelled():
                raise StoppedError
            return task.result()
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # otherwise, the event loop logs an error that was never retrieved

    async def stop(self) -> None:
        """Cancel all running work, and wait for its end.

        Work that was cancelled before is left alone: its cleanup must not be cancelled too, and
        third-party code that hangs in it is not waited for again.
        """
        stopping = {task for task in self._under_way if not task.cancelling()}
        for task in stopping:
            task.cancel()
        if stopping:
            await asyncio.wait(stopping, timeout=_STOP_SECONDS)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
