"""The bridge between sync and async code.

All logic is written once. Code that does I/O is written in the style of its library, `def` or
`async def`, and `call` awaits either. Public methods are written as `async def`, and `sync` derives
the blocking version. Blocking calls run on one private event-loop thread per process: they work in
scripts, in notebooks, inside a running loop, from many threads, and after a fork.

Clients with sync and async methods, such as those of LangChain, are never awaited on that loop:
`call_client` calls the sync method for callers that block.

Plain functions run in threads; see `lanes`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import inspect
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast, overload

from lorebind_config.errors import text_of
from lorebind_knowledge.plumbing.lanes import DaemonPool, submit

P = ParamSpec("P")
R = TypeVar("R")


class _LoopThread(threading.Thread):
    """A daemon thread that runs its own event loop until `stop` is called."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.loop = asyncio.new_event_loop()
        self._has_ended = False
        self.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._has_ended:  # third-party code may stop the loop, on which others wait
            # Raised by a task: the waiting caller receives it.
            with suppress(KeyboardInterrupt, SystemExit):
                self.loop.run_forever()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._wind_up(), self.loop)
        # A task that ignores its cancellation must not delay the exit for longer.
        self.join(timeout=5)
        if not self.is_alive():
            self.loop.close()

    async def _wind_up(self) -> None:
        """Cancel tasks that no caller waits for, such as those left after a second interrupt."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)
        self._has_ended = True
        self.loop.stop()


_CALLS, _STORES = "lorebind-loop", "lorebind-stores"

_lock = threading.Lock()
_loops: dict[str, _LoopThread] = {}
# Without a limit: a function that never returns must not keep others waiting.
_daemons = DaemonPool(sys.maxsize, "lorebind-client")


def _loop_thread(name: str = _CALLS) -> _LoopThread:
    with _lock:
        if name not in _loops:
            _loops[name] = _LoopThread(name)
        return _loops[name]


def _forget_after_fork() -> None:
    """Forget loops and threads in a forked child, which has none of them."""
    global _lock, _daemons
    _lock, _daemons = threading.Lock(), DaemonPool(sys.maxsize, "lorebind-client")
    _loops.clear()


def _stop_at_exit() -> None:
    for private in list(_loops.values()):
        private.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_stop_at_exit)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end on the private loop and return its result.

    The coroutine sees the caller's context variables. If the waiting thread is interrupted
    (Ctrl-C), the coroutine is cancelled and can clean up before the interrupt is raised. A second
    interrupt is raised immediately.

    Raises:
        RuntimeError: called from the private loop itself, which would wait forever.
    """
    private = _loop_thread()
    if threading.current_thread() is private:
        coroutine.close()
        raise RuntimeError(
            "a blocking call was made from code that Lorebind itself awaits; "
            "use the async version (a…) there"
        )
    outcome: Future[R] = Future()
    tasks: list[asyncio.Task[R]] = []

    def start() -> None:
        task = private.loop.create_task(coroutine)
        tasks.append(task)
        task.add_done_callback(functools.partial(_hand_over, outcome))

    def stop() -> None:
        if tasks:
            tasks[0].cancel()
        else:  # interrupted before the loop was asked to start
            coroutine.close()
            outcome.set_exception(asyncio.CancelledError())

    try:
        private.loop.call_soon_threadsafe(start)
        return outcome.result()
    except KeyboardInterrupt:
        private.loop.call_soon_threadsafe(stop)
        # Waits for the task's end, so that nothing goes on behind the back of the caller.
        outcome.exception()
        raise


def _hand_over(outcome: Future[R], task: asyncio.Task[R]) -> None:
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


@overload
async def call(function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
async def call(function: Callable[P, R | Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Await a sync or async function: coroutines directly, plain functions in a thread.

    A thread cannot be cancelled. If the caller is cancelled, it waits until the function has
    returned, so that the function has no effect later. A second cancellation does not wait. A
    function that is still in the queue of its `lane` never runs.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    work = submit(functools.partial(_called, function), *args, **kwargs)
    try:
        await _end_of(work)
    except asyncio.CancelledError:
        # A thread cannot be interrupted, and callers may close next what it still uses.
        if not work.cancel():
            await _end_of(work)
        raise
    result = work.result()
    return await result if inspect.isawaitable(result) else result


async def in_steps(items: Iterator[R]) -> AsyncIterator[R]:
    """Yield the items of an iterator that blocks; it can be cancelled between two items."""
    end = object()
    while (item := await call(next, items, end)) is not end:
        yield cast("R", item)


def _end_of(work: Future[Any]) -> asyncio.Future[None]:
    """Return a future of the end of a thread's work. Cancelling it does not cancel the work."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():  # the caller was cancelled
            ended.set_result(None)

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed, after a second cancellation
            loop.call_soon_threadsafe(end)

    work.add_done_callback(wake)
    return ended


async def call_client(
    blocking: Callable[P, R], awaited: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a client with sync and async methods: `call_client(m.invoke, m.ainvoke, "hello")`.

    An async client keeps connections that belong to the event loop that opened them, and clients
    often share these connections. Therefore, the async method is called only on the caller's own
    loop. For a caller that blocks, the sync method is called in its own thread, see `call_daemon`.
    """
    if not isinstance(threading.current_thread(), _LoopThread):
        return await awaited(*args, **kwargs)
    return await call_daemon(blocking, *args, **kwargs)


def callers_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop if it is the caller's own; None on a private loop."""
    if isinstance(threading.current_thread(), _LoopThread):
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def call_daemon(blocking: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a plain function that may never return, in a thread that runs nothing else meanwhile.

    Cancelling this call does not wait for the thread, which cannot be interrupted, and drops its
    result. The thread is a daemon, so that the process can end before it.
    """
    context = contextvars.copy_context()
    return await asyncio.wrap_future(
        _daemons.submit(context.run, _called, blocking, *args, **kwargs)
    )


class only_errors:  # noqa: N801  # used like a function
    """Turn whatever third-party code raises in the block into an `Exception`, a RuntimeError.

    Otherwise `GeneratorExit` and other subclasses of BaseException would pass all handlers,
    SystemExit would end the event loop, and a future cannot hold StopIteration. KeyboardInterrupt
    keeps its meaning in the main thread, the only one where Ctrl-C raises it, and so does the
    cancellation of the task that runs the block.
    """

    def __enter__(self) -> None:
        self._task = _current_task()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or self._is_meant(error):
            return
        what = "tried to end the process:" if isinstance(error, SystemExit) else "raised"
        message = ": ".join(filter(None, (type(error).__name__, text_of(error))))
        raise RuntimeError(f"it {what} {message}") from error

    def _is_meant(self, error: BaseException) -> bool:
        if isinstance(error, asyncio.CancelledError):  # a thread leaves it to the waiting task
            return self._task is None or self._task.cancelling() > 0
        if isinstance(error, GeneratorExit):  # it closes a coroutine whose event loop has ended
            return self._task is not _current_task()
        if isinstance(error, KeyboardInterrupt):
            return threading.current_thread() is threading.main_thread()
        return isinstance(error, Exception) and not isinstance(error, StopIteration)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None


def _called(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    with only_errors():
        return function(*args, **kwargs)


def finish(result: R | Awaitable[R]) -> R:
    """Return the result of a sync or async function to code that runs in a thread: `finish(f(x))`.

    All coroutines run on the same private loop. Functions that they `call` run in threads of the
    next depth, so that functions that wait here never block each other.
    """
    if not inspect.isawaitable(result):
        return result

    async def awaited(awaitable: Awaitable[R]) -> R:
        return await awaitable

    loop = _loop_thread(_STORES).loop
    return asyncio.run_coroutine_threadsafe(awaited(result), loop).result()


def sync(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Return the blocking version of a coroutine function: `query = sync(aquery)`."""

    @functools.wraps(method)
    def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            coroutine = method(*args, **kwargs)
        except TypeError as error:  # wrong arguments; the message names the other version
            raise TypeError(str(error).replace(method.__qualname__, twin.__name__)) from None
        return run(coroutine)

    # `wraps` copies the marks of a coroutine function; the blocking version is not one.
    del twin.__wrapped__
    twin.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]  # `inspect` reads it
    twin.__name__ = method.__name__.removeprefix("a")
    twin.__qualname__ = method.__qualname__.replace(method.__name__, twin.__name__)
    return twin
