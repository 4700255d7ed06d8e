"""Doing something once, for all tasks, threads and event loops that ask for it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable


class Once:
    """Runs an action once for each key. Who asks while it runs waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[Hashable, tuple[str | None, Future[bool]]] = {}
        """What each was given, and whether it ran to its end, once that is known."""

    async def do(
        self, key: Hashable, action: Callable[[], Awaitable[object]], given: str | None = None
    ) -> None:
        """Run the action unless it ran for this key already.

        With other words for what it is `given` it runs again; None is content with any. A failure
        is raised to all that wait, and the next to ask tries again. When who runs it is cancelled,
        one of those that wait runs it.
        """
        while True:
            run, ours = self._run(key, given)
            if ours:
                await self._execute(key, action, run)
                return
            if await asyncio.wrap_future(run):
                return

    def _run(self, key: Hashable, given: str | None) -> tuple[Future[bool], bool]:
        with self._lock:
            before, run = self._runs.get(key, (None, None))
            if run is not None and given in (None, before):
                return run, False
            run = Future()
            run.set_running_or_notify_cancel()  # or who stops waiting would cancel it for all
            self._runs[key] = (given, run)
            return run, True

    async def _execute(
        self, key: Hashable, action: Callable[[], Awaitable[object]], run: Future[bool]
    ) -> None:
        try:
            await action()
        except BaseException as error:
            with self._lock:
                if self._runs.get(key, (None, None))[1] is run:
                    del self._runs[key]
            if isinstance(error, Exception):
                run.set_exception(error)
            else:  # this call was cancelled or interrupted, not the others
                run.set_result(False)
            raise
        run.set_result(True)
