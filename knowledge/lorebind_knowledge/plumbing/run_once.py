"""Objects that are loaded once per process, and actions that run once for all callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar


class Once:
    """Runs an action once per key. Concurrent callers wait for the running action."""

    def __init__(self) -> None:
        # Not asyncio's: callers come from several event loops.
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


T = TypeVar("T")

_inherited: list[Any] = []
"""Objects loaded before a fork. Deleting them in the child would wait for threads it lacks."""


def cpu_session(model: bytes | str, threads: int) -> Any:
    """Return an inference session for a serialized model or its path; errors are ONNX Runtime's."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # The nodes of a graph run one after the other, so more threads would have nothing to do.
    options.inter_op_num_threads = 1
    # The arena would keep the largest batch's memory forever, and it is not faster here.
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class PerProcess(Generic[T]):
    """An object that is loaded at its first use, and again in a forked process.

    A forked child inherits its parent's session, but not the threads that the session waits for.
    Safe to share among threads.
    """

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._loading = threading.Lock()
        self._loaded: tuple[int, T] | None = None

    def get(self) -> T:
        """Return the loaded object. If loading fails, raise its error; the next call retries."""
        with self._loading:
            if self._loaded is None or self._loaded[0] != os.getpid():
                _inherited.append(self._loaded)
                self._loaded = os.getpid(), self._load()
            return self._loaded[1]
