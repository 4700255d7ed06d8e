"""Actions that run once for all tasks, threads and event loops that request them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future


class Once:
    """Runs an action once per key. Concurrent callers wait for the running action."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[Hashable, tuple[str | None, Future[bool]]] = {}
        """The value that each run was called with, and whether the run completed, when known."""

    async def do(
        self, key: Hashable, action: Callable[[], Awaitable[object]], value: str | None = None
    ) -> None:
        """Run the action unless it has already run for this key.

        With a different `value` it runs again; None accepts any earlier value. If the
        action fails, all waiting callers receive the error, and the next call runs it again. If
        the caller that runs it is cancelled, one of the waiting callers runs it.
        """
        while True:
            run, ours = self._run(key, value)
            if ours:
                await self._execute(key, action, run)
                return
            if await asyncio.wrap_future(run):
                return

    def _run(self, key: Hashable, value: str | None) -> tuple[Future[bool], bool]:
        with self._lock:
            before, run = self._runs.get(key, (None, None))
            if run is not None and value in (None, before):
                return run, False
            run = Future()
            run.set_running_or_notify_cancel()  # or one cancelled caller would cancel it for all
            self._runs[key] = (value, run)
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
            else:  # only this call was cancelled or interrupted
                run.set_result(False)
            raise
        run.set_result(True)
