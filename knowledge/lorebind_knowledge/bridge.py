"""The one bridge between synchronous and asynchronous code.

Logic is written once. What talks to the outside is written in the colour that is native to it,
`def` or `async def`, and `call` awaits either of them; what users see is written `async def`, and
`sync` derives the blocking twin. The twin runs on one private event-loop thread per process: it
works in scripts, in notebooks, inside a running loop, from many threads, and after a fork.

A client that has methods of both colours, as those of LangChain have, is never awaited on that
loop: `call_client` calls its blocking method for callers that block.

Plain functions run in lanes, each with a few threads of its own, so that neither short reads nor
ingests wait for searches: see `lane`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import inspect
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

from lorebind_knowledge.cpu_count import usable_processors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

P = ParamSpec("P")
R = TypeVar("R")


class _LoopThread(threading.Thread):
    """A daemon thread with an event loop of its own, which runs for ever."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.loop = asyncio.new_event_loop()
        self.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue  # raised by a task: it goes to who waits for it, and the loop serves on
            return

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._wind_up(), self.loop)
        self.join(timeout=5)
        if not self.is_alive():
            self.loop.close()

    async def _wind_up(self) -> None:
        """Cancel what nobody waits for any more, such as what a second interrupt left behind."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)
        self.loop.stop()


_CALLS, _STORES = "lorebind-loop", "lorebind-stores"

Lane: TypeAlias = Literal["read", "search", "wait", "ingest", "embed"]

_THREADS: dict[Lane, int] = {
    # Short transactions; a few, because those of PostgreSQL wait for a server.
    "read": 4,
    # Python and NumPy over a local index, which hold the interpreter's lock most of the time. More
    # threads answer little faster, and each can delay an event loop by another 5 ms.
    "search": min(usable_processors(), 4),
    # Models and servers work without that lock. As many threads as asyncio would use.
    "wait": min(usable_processors() + 4, 32),
    # Each ingest runs one function that reads and chunks, and one that writes.
    "ingest": min(usable_processors() + 4, 32),
    # Embeds passages and caches the vectors. A chunker waits for them in an `ingest` thread.
    "embed": min(usable_processors() + 4, 32),
}
"""How many functions of each lane run at a time; the others wait in a queue."""

_lane: contextvars.ContextVar[tuple[Lane, int]] = contextvars.ContextVar(
    "lane", default=("read", 0)
)
"""The lane, and how many functions that `call` runs are around this code."""

_lock = threading.Lock()
_loops: dict[str, _LoopThread] = {}
_executors: dict[tuple[Lane, int], ThreadPoolExecutor] = {}


def _loop_thread(name: str = _CALLS) -> _LoopThread:
    with _lock:
        if name not in _loops:
            _loops[name] = _LoopThread(name)
        return _loops[name]


@contextmanager
def lane(name: Lane) -> Iterator[None]:
    """`call` uses the threads of this lane in the block, and in tasks that are created there.

    Args:
        name: `read` is the default, for short transactions; `search` is for work on a local index,
            `wait` for calls of models and servers, `ingest` for whatever writes an index, and
            `embed` for the embedding of passages.
    """
    former = _lane.get()
    _lane.set((name, former[1]))
    try:
        yield
    finally:
        _lane.set(former)


def _executor(name: Lane, depth: int) -> ThreadPoolExecutor:
    # A function that waits for another one needs a thread of the next depth, never of its own:
    # so threads cannot all wait for each other.
    with _lock:
        if (name, depth) not in _executors:
            threads = ThreadPoolExecutor(_THREADS[name], f"lorebind-{name}-{depth}")
            _executors[name, depth] = threads
        return _executors[name, depth]


def _forget_after_fork() -> None:
    """A child process has the parent's loops and lanes but no threads: start anew when asked."""
    global _lock
    _lock = threading.Lock()
    _loops.clear()
    _executors.clear()


def _stop_at_exit() -> None:
    for private in list(_loops.values()):
        private.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_stop_at_exit)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end on the private loop and return its result.

    Context variables of the caller are seen by the coroutine. When the waiting thread is
    interrupted (Ctrl-C), the coroutine is cancelled and given the time to clean up before the
    interrupt goes on; a second interrupt does not wait.

    Raises:
        RuntimeError: when called from the private loop itself, which would wait for ever.
    """
    private = _loop_thread()
    if threading.current_thread() is private:
        coroutine.close()
        raise RuntimeError(
            "a blocking call was made from code that Lorebind itself awaits; "
            "use the asynchronous twin (a…) there"
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
        else:  # interrupted before the loop was told to start
            coroutine.close()
            outcome.set_exception(asyncio.CancelledError())

    try:
        private.loop.call_soon_threadsafe(start)
        return outcome.result()
    except KeyboardInterrupt:
        private.loop.call_soon_threadsafe(stop)
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
    """Await a function of either colour: coroutines as they are, plain functions in a thread.

    A thread cannot be cancelled: who cancels this waits until the function has returned, so that
    nothing of it happens afterwards. Cancelling once more does not wait. A function that is still
    in the queue of its `lane` never runs.
    """
    if inspect.iscoroutinefunction(function):
        result = function(*args, **kwargs)
    else:
        name, depth = _lane.get()
        context = contextvars.copy_context()
        context.run(_lane.set, (name, depth + 1))
        work = _executor(name, depth).submit(context.run, function, *args, **kwargs)
        thread = asyncio.wrap_future(work)
        try:
            result = await asyncio.shield(thread)
        except asyncio.CancelledError:
            if not work.cancel():
                await asyncio.wait([thread])
            raise
    if inspect.isawaitable(result):
        result = await result
    return result


async def call_client(
    blocking: Callable[P, R], awaited: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a client that has a method of each colour: `call_client(m.invoke, m.ainvoke, "hello")`.

    An asynchronous client keeps connections that belong to the event loop which opened them, and
    clients often share them. So the asynchronous method is called on the caller's own loop only.
    For a caller that blocks it is the other one, in a thread of its own.

    For that thread see `call_daemon`.
    """
    if not isinstance(threading.current_thread(), _LoopThread):
        return await awaited(*args, **kwargs)
    return await call_daemon(blocking, *args, **kwargs)


def callers_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs here, if it is the caller's own; None on a loop of ours."""
    if isinstance(threading.current_thread(), _LoopThread):
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def call_daemon(blocking: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a plain function that may take for ever, in a thread of its own.

    Cancelling this does not wait for the thread, which nobody could interrupt, and drops what it
    returns. The thread is a daemon, so that the process can end before it.
    """
    answer: Future[R] = Future()
    answer.set_running_or_notify_cancel()  # or it could be cancelled, and then not be set
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer.set_result(context.run(blocking, *args, **kwargs))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="lorebind-client", daemon=True).start()
    return await asyncio.wrap_future(answer)


def finish(result: R | Awaitable[R]) -> R:
    """What a function of either colour gives, for code that runs in a thread: `finish(f(x))`.

    Coroutines run on a loop of their own, the same one for all. What they `call` runs in threads
    of the next depth, so that functions which wait here never keep each other from going on.
    """
    if not inspect.isawaitable(result):
        return result

    async def awaited(given: Awaitable[R]) -> R:
        return await given

    loop = _loop_thread(_STORES).loop
    return asyncio.run_coroutine_threadsafe(awaited(result), loop).result()


def sync(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """The blocking twin of a coroutine function, to be bound beside it: `query = sync(aquery)`."""

    @functools.wraps(method)
    def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return run(method(*args, **kwargs))

    # `wraps` copies what marks a coroutine function; a twin is none, and has a name of its own.
    del twin.__wrapped__
    twin.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]  # `inspect` reads it
    twin.__name__ = method.__name__.removeprefix("a")
    twin.__qualname__ = method.__qualname__.replace(method.__name__, twin.__name__)
    return twin
