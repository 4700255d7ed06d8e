"""Lanes: the threads of plain functions, so that no function waits for unrelated ones.

Each database has threads of its own: a database that hangs occupies no other's. They are divided
into lanes, so that neither short reads nor ingests wait for searches.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar
from weakref import WeakSet

R = TypeVar("R")

Lane: TypeAlias = Literal["read", "search", "wait", "ingest", "embed"]


def usable_processors() -> int:
    """Return the number of usable processors; more threads than that wait for each other."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SIZES: dict[Lane, int] = {
    # Short transactions. Several threads, because transactions in PostgreSQL wait for a server.
    "read": 4,
    # Python and NumPy on a local index, which hold the GIL most of the time. More threads hardly
    # make searches faster, and each can delay an event loop by another 5 ms.
    "search": min(usable_processors(), 4),
    # Models and servers release the GIL. The same number of threads as asyncio uses by default.
    "wait": min(usable_processors() + 4, 32),
    # Each ingest runs one function that reads and chunks, and one that writes.
    "ingest": min(usable_processors() + 4, 32),
    # Embeds passages and caches the vectors. A chunker in an `ingest` thread waits for them. The
    # embedder limits its calls, to 64 at most; fewer threads would limit a blocking one further.
    "embed": 64,
}
"""Maximum number of functions per lane that run at the same time; others wait in a queue."""

_IDLE_SECONDS = 5.0
"""Seconds after which an idle daemon thread ends."""


class Threads:
    """The threads of one database. They start when they are needed, and end with this object."""

    def __init__(self, *, daemon: bool = False) -> None:
        """
        Args:
            daemon: whether the process may exit while a function runs, because it may hang.
        """
        self._executor: Callable[[int, str], Executor] = (
            DaemonPool if daemon else ThreadPoolExecutor
        )
        self.forget()
        _all.add(self)

    def lane(self, name: Lane) -> AbstractContextManager[None]:
        """Make `call` use a lane of these threads in this block, and in tasks created there."""
        return _At(_Place(self, name, _place.get().depth))

    def submit(self, lane: Lane, depth: int, function: Callable[[], R]) -> Future[R]:
        # A function that waits for another one needs a thread of the next depth, not of its own
        # depth. Otherwise all threads could wait for each other.
        with self._lock:
            if (lane, depth) not in self._executors:
                threads = self._executor(SIZES[lane], f"lorebind-{lane}-{depth}")
                self._executors[lane, depth] = threads
            return self._executors[lane, depth].submit(function)

    def forget(self) -> None:
        """Forget all threads, as in a forked child, which has none of them."""
        self._lock = threading.Lock()
        self._executors: dict[tuple[Lane, int], Executor] = {}


class DaemonPool(Executor):
    """A thread pool that never delays the exit of the process, even if a function hangs.

    The exit waits for all threads of a `ThreadPoolExecutor`, which has no option for it.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size, self._name = size, name
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._started = self._free = 0
        """The number of threads, and of those that run no function."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        future: Future[R] = Future()
        with self._changed:
            self._queue.append((future, partial(fn, *args, **kwargs)))
            if self._free < len(self._queue) and self._started < self._size:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
                self._started += 1
                # It counts as free before it runs, or the next function would start another thread
                # needlessly.
                self._free += 1
            self._changed.notify()
        return future

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._queue, _IDLE_SECONDS):
                    self._started -= 1
                    self._free -= 1
                    return
                future, function = self._queue.popleft()
                self._free -= 1
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            del future, function  # an idle thread must not keep them
            with self._changed:
                self._free += 1


class _Place(NamedTuple):
    """Where `call` runs plain functions."""

    threads: Threads
    lane: Lane
    depth: int
    """The number of nested functions run by `call` that surround this code."""


_all: WeakSet[Threads] = WeakSet()
_NO_DATABASE = _Place(Threads(), "read", 0)
_place = contextvars.ContextVar("place", default=_NO_DATABASE)


def lane(name: Lane) -> AbstractContextManager[None]:
    """Make `call` use a lane of the current threads in this block, and in tasks created there.

    Args:
        name: `read`, the default, for short transactions; `search` for work on a local index;
            `wait` for calls of models and servers; `ingest` for functions that write an index;
            `embed` for embedding passages.
    """
    return _place.get().threads.lane(name)


def threads_of(databases: Iterable[Threads]) -> Threads:
    """Return the threads of functions that use one database, or several together."""
    first, *others = dict.fromkeys(databases)
    return _of_several(frozenset([first, *others])) if others else first


@lru_cache(maxsize=16)
def _of_several(databases: frozenset[Threads]) -> Threads:
    return Threads()


def submit(function: Callable[..., R], *args: Any, **kwargs: Any) -> Future[R]:
    """Run a plain function in the current lane, with a copy of the current context."""
    threads, name, depth = place = _place.get()
    context = contextvars.copy_context()
    context.run(_place.set, place._replace(depth=depth + 1))
    return threads.submit(name, depth, partial(context.run, function, *args, **kwargs))


class _At:
    """Runs a block at a place. A class, because every search enters several of them."""

    def __init__(self, place: _Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._former = _place.get()
        _place.set(self._place)

    def __exit__(self, *_: object) -> None:
        _place.set(self._former)


def _forget_after_fork() -> None:
    for threads in list(_all):
        threads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


@contextmanager
def repeated(seconds: float, work: Callable[[], object], name: str) -> Iterator[None]:
    """Call a function at regular intervals within the block, in a thread of its own.

    Args:
        seconds: the time between two calls, and before the first.
        work: the function; its errors end the repetition.
        name: the name of the thread.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            work()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
