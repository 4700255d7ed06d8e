"""Tasks of requests: cancelled if the caller disconnects, or continued after an answer with 202."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import Receive

    from lorebind.server.problems import ProblemError

T = TypeVar("T")

log = logging.getLogger("lorebind.server")

_GONE = 499
"""The status in the log if the caller has disconnected, as in nginx."""
_STOP_SECONDS = 5
"""Maximum seconds that `stop` waits for cancelled work."""
_CHANGE_SECONDS = 20.0
"""Maximum seconds that an answer waits for the requested change."""


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


async def while_connected(
    request: Request,
    connected: Connected,
    work: Coroutine[Any, Any, T],
    stopped: ProblemError,
    answer: Callable[[T], Response],
) -> Response:
    """Answer with the result of some work, which is cancelled if the client disconnects.

    Args:
        request: the request to answer.
        connected: the running work of the server.
        work: the work.
        stopped: the problem if the server stops first.
        answer: makes the answer from the result.
    """
    try:
        result = await connected.do(request.receive, work)
    except ClientDisconnect:
        return Response(status_code=_GONE)
    except StoppedError:
        raise stopped from None
    return answer(result)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Changes:
    """Changes that continue after their request was answered with 202."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def in_time(self, change: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a change; None if it takes longer and continues in the
        background."""
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        await asyncio.wait({task}, timeout=_CHANGE_SECONDS)
        return task.result() if task.done() else None

    async def stop(self, seconds: float) -> None:
        """Cancel running changes, and wait at most `seconds` for their end.

        The next ingest completes them.
        """
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            words = str(error) if isinstance(error, LorebindError) else type(error).__name__
            log.warning("a change failed: %s", words)
