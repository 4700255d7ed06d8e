"""Running an action once: the caller that runs it, waiting callers, failures, cancellations."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lorebind_knowledge.plumbing.run_once import Once

SECONDS = 10
"""Seconds after which a hanging test fails."""


class Work:
    """An action that waits for `go`, and counts how often it was started."""

    def __init__(self, *failures: BaseException) -> None:
        self.begun = 0
        self.running = asyncio.Event()
        self.go = asyncio.Event()
        self._failures = list(failures)

    async def __call__(self) -> str:
        self.begun += 1
        self.running.set()
        await self.go.wait()
        if self._failures:
            raise self._failures.pop(0)
        return "what an action gives is dropped"


async def _settled(*tasks: asyncio.Task[None]) -> list[BaseException | None]:
    async with asyncio.timeout(SECONDS):
        return await asyncio.gather(*tasks, return_exceptions=True)


def _ask(once: Once, work: Work, inputs: str | None = None) -> asyncio.Task[None]:
    return asyncio.create_task(once.do("key", work, inputs))


async def test_many_tasks_run_it_once() -> None:
    """Of concurrent tasks one runs the action, and none continues before it has ended."""
    once, work = Once(), Work()
    tasks = [_ask(once, work) for _ in range(20)]
    await work.running.wait()
    assert not any(task.done() for task in tasks)
    work.go.set()
    assert await _settled(*tasks) == [None] * 20
    await once.do("key", work)
    assert work.begun == 1


async def test_keys_are_apart() -> None:
    """Another key is another run, which does not wait for the first."""
    once, slow, quick = Once(), Work(), Work()
    quick.go.set()
    waiting = _ask(once, slow)
    await slow.running.wait()
    await once.do("other", quick)
    assert (quick.begun, waiting.done()) == (1, False)
    slow.go.set()
    await _settled(waiting)


def test_threads_and_event_loops_run_it_once() -> None:
    """Threads, each with its own event loop, wait for the one that runs the action."""
    once, begun = Once(), []
    ready = threading.Barrier(8)
    ended = threading.Event()

    async def action() -> None:
        begun.append(threading.get_ident())
        await asyncio.sleep(0.02)
        ended.set()

    def ask(number: int) -> bool:
        ready.wait(SECONDS)
        asyncio.run(asyncio.wait_for(once.do("key", action), SECONDS))
        return ended.is_set()

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(8)))
    assert len(begun) == 1


async def test_a_failure_is_raised_to_all_that_wait() -> None:
    """Concurrent callers get the same failure; the next caller tries again."""
    once, work = Once(), Work(OSError("no disk"))
    tasks = [_ask(once, work) for _ in range(5)]
    await work.running.wait()
    work.go.set()
    failures = await _settled(*tasks)
    assert [str(failure) for failure in failures] == ["no disk"] * 5
    assert work.begun == 1
    await once.do("key", work)
    await once.do("key", work)
    assert work.begun == 2


async def test_when_the_runner_is_cancelled_another_runs_it() -> None:
    """One of the waiting callers takes over, and the others wait for it."""
    once, work = Once(), Work()
    first = _ask(once, work)
    await work.running.wait()
    others = [_ask(once, work) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    work.go.set()
    results = await _settled(first, *others)
    assert [type(result) for result in results] == [asyncio.CancelledError, *[type(None)] * 3]
    assert work.begun == 2


async def test_when_the_runner_is_cancelled_another_thread_runs_it() -> None:
    """Waiting callers in other event loops take over too."""
    once, work = Once(), Work()
    first = _ask(once, work)
    await work.running.wait()
    waits, begun = threading.Event(), threading.Event()

    async def action() -> None:
        begun.set()

    async def there() -> None:
        call = asyncio.create_task(once.do("key", action))
        await asyncio.sleep(0)  # until it has called
        waits.set()
        await call

    waiting = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(there())))
    await asyncio.to_thread(waits.wait, SECONDS)
    assert not begun.is_set()
    first.cancel()
    async with asyncio.timeout(SECONDS):
        await waiting
    assert begun.is_set()


async def test_who_stops_waiting_stops_alone() -> None:
    """Cancelling a waiting task cancels only that task, not the run or other waiting tasks."""
    once, work = Once(), Work()
    first = _ask(once, work)
    await work.running.wait()
    impatient, patient = _ask(once, work), _ask(once, work)
    await asyncio.sleep(0)
    impatient.cancel()
    results = await _settled(impatient)
    assert isinstance(results[0], asyncio.CancelledError)
    assert (first.done(), patient.done()) == (False, False)
    work.go.set()
    assert await _settled(first, patient) == [None, None]
    assert work.begun == 1


async def test_a_timeout_while_waiting_is_one() -> None:
    """A waiting caller with a timeout gets it; a later call finds the action completed."""
    once, work = Once(), Work()
    first = _ask(once, work)
    await work.running.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(once.do("key", work), 0.01)
    work.go.set()
    await _settled(first)
    await asyncio.wait_for(once.do("key", work), SECONDS)
    assert work.begun == 1


async def test_other_words_for_what_it_is_given_run_it_again() -> None:
    """A different value of `given` runs it again; a call without one accepts any run."""
    once, work = Once(), Work()
    work.go.set()
    for inputs in ("north", "north", None, "south", "south", None, "north"):
        await once.do("key", work, inputs)
    assert work.begun == 3


async def test_what_ran_with_nothing_given_runs_again_when_something_is() -> None:
    """A run without `given` does not count for a call with a value."""
    once, work = Once(), Work()
    work.go.set()
    for inputs in (None, None, "north"):
        await once.do("key", work, inputs)
    assert work.begun == 2


async def test_a_failure_with_other_words_leaves_the_newer_run() -> None:
    """A run that fails after another one started does not remove the newer run."""
    once, old, new = Once(), Work(OSError("old")), Work()
    first = _ask(once, old, "north")
    await old.running.wait()
    new.go.set()
    await once.do("key", new, "south")
    old.go.set()
    assert [str(failure) for failure in await _settled(first)] == ["old"]
    await once.do("key", new, "south")
    assert new.begun == 1
