"""Work for callers that are still there: it is cancelled as soon as its caller has gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Receive

T = TypeVar("T")

_STOP_SECONDS = 5
"""How long `stop` waits for work that it has cancelled."""


class StoppedError(Exception):
    """The server stops, and has cancelled the work."""


class Connected:
    """The work that is under way."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def do(self, receive: Receive, work: Coroutine[Any, Any, T]) -> T:
        """Await work while its caller is there. Cancelling this cancels it, and waits for it.

        Args:
            receive: of the request, whose body has been read.
            work: what is done.

        Raises:
            ClientDisconnect: the caller has gone, and the work was cancelled.
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
                task.exception()  # else the event loop logs an error that nobody took

    async def stop(self) -> None:
        """Cancel everything that is under way, and wait for its end.

        What was cancelled before is left alone: its last steps are not to be cancelled too, and
        code of others in which it hangs is not waited for again.
        """
        stopping = {task for task in self._under_way if not task.cancelling()}
        for task in stopping:
            task.cancel()
        if stopping:
            await asyncio.wait(stopping, timeout=_STOP_SECONDS)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
