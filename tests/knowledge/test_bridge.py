"""The bridge between sync and async code, called from every kind of context."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lorebind_config.namespace import current_tenant, tenant
from lorebind_knowledge.plumbing import bridge


async def _double(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


async def test_call_awaits_either_colour() -> None:
    """A coroutine function is awaited directly; a plain function runs in another thread."""

    async def native() -> int:
        return threading.get_ident()

    here = threading.get_ident()
    assert await bridge.call(native) == here
    assert await bridge.call(threading.get_ident) != here
    assert await bridge.call(max, [3, 1], key=lambda number: -number) == 1


async def test_call_awaits_what_a_plain_function_returns() -> None:
    """A plain function that returns an awaitable, as a wrapper does, is awaited too."""
    assert await bridge.call(lambda: _double(4)) == 8


async def test_call_sees_the_context() -> None:
    """The thread sees the tenant of the caller."""
    with tenant("acme"):
        assert await bridge.call(current_tenant) == "acme"


async def test_a_cancelled_call_waits_for_its_thread() -> None:
    """A cancelled call has no effects after it ended."""
    begun, release, steps = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        release.wait(60)
        steps.append("worked")

    task = asyncio.create_task(bridge.call(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["worked"]


async def test_cancelling_again_does_not_wait() -> None:
    """A second cancellation does not wait for the thread."""
    begun, release = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(60)

    task = asyncio.create_task(bridge.call(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


def test_the_error_of_a_cancelled_call_is_not_logged() -> None:
    """An error that nobody waits for reaches no handler of the event loop."""
    begun, release, unretrieved = threading.Event(), threading.Event(), []

    def fail() -> None:
        begun.set()
        release.wait(60)
        raise ValueError("too late")

    async def cancel() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: unretrieved.append(about))
        task = asyncio.create_task(bridge.call(fail))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0.01)
        release.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        del task
        gc.collect()

    asyncio.run(cancel())
    assert unretrieved == []


class _Client:
    """Records the thread in which each of its methods was called, and for which tenant."""

    def ask(self, question: str) -> tuple[str, int, str]:
        return question, threading.get_ident(), current_tenant()

    async def aask(self, question: str) -> tuple[str, int, str]:
        return f"a{question}", threading.get_ident(), current_tenant()


async def test_a_client_is_awaited_on_the_callers_loop() -> None:
    """An async caller's own loop runs the async method."""
    client = _Client()
    with tenant("acme"):
        reply = await bridge.call_client(client.ask, client.aask, question="why")
    assert reply == ("awhy", threading.get_ident(), "acme")


def test_a_client_is_never_awaited_on_a_loop_of_ours() -> None:
    """For a blocking caller, the sync method runs in a thread without an event loop."""

    async def ask() -> tuple[tuple[str, int, str], int]:
        client = _Client()
        reply = await bridge.call_client(client.ask, client.aask, "why")
        return reply, threading.get_ident()

    def outcomes() -> list[tuple[tuple[str, int, str], int]]:
        return [bridge.run(ask()), bridge.finish(ask())]

    with tenant("acme"):
        for (reply, thread, name), loop in outcomes():
            assert (reply, name) == ("why", "acme")
            assert thread != loop


def test_a_clients_error_is_raised() -> None:
    """An exception from a client's thread reaches the caller unchanged."""
    error = ValueError("as it is")

    def fail() -> None:
        raise error

    async def afail() -> None:
        raise AssertionError

    with pytest.raises(ValueError, match="as it is") as caught:
        bridge.run(bridge.call_client(fail, afail))
    assert caught.value is error


def test_a_client_does_not_hold_up_a_cancelled_caller() -> None:
    """A timeout ends a call even if the client hangs; its later result is dropped."""
    release, ended = threading.Event(), threading.Event()

    def hang() -> None:
        release.wait(60)
        ended.set()

    async def ahang() -> None:
        raise AssertionError

    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await bridge.call_client(hang, ahang)

    with pytest.raises(TimeoutError):
        bridge.run(limited())
    assert not ended.is_set()
    release.set()
    assert ended.wait(60)
    assert bridge.run(_double(2)) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupt_does_not_wait_for_a_client() -> None:
    """Ctrl-C ends a program immediately, even if a client hangs."""
    with _program("""
import time
from lorebind_knowledge.plumbing.bridge import call_client, run
def ask():
    print("begun")
    time.sleep(60)
async def aask():
    pass
try:
    run(call_client(ask, aask))
except KeyboardInterrupt:
    print("interrupted")
""") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGINT)
        out, errors = program.communicate(timeout=30)
    assert (out.split(), errors) == (["interrupted"], "")


def test_run_from_many_threads() -> None:
    """Threads share the private loop, and each gets its own result."""
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda number: bridge.run(_double(number)), range(200)))
    assert results == [number * 2 for number in range(200)]


async def test_run_inside_a_running_loop() -> None:
    """A blocking call works in a notebook, whose cells run inside a loop."""
    assert bridge.run(_double(21)) == 42


def test_run_sees_the_context_of_its_caller() -> None:
    """Concurrent callers do not see each other's tenants."""

    async def look() -> str:
        await asyncio.sleep(0.01)
        return current_tenant()

    def ask(name: str) -> str:
        with tenant(name):
            return bridge.run(look())

    names = [f"tenant-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, names)) == names
    assert bridge.run(look()) == "default"


@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError, TimeoutError])
def test_exceptions_pass_unchanged(kind: type[BaseException]) -> None:
    """The caller gets the same exception object that the coroutine raised."""
    error = kind("as it is")

    async def fail() -> None:
        raise error

    with pytest.raises(kind) as caught:
        bridge.run(fail())
    if kind is not asyncio.CancelledError:
        assert caught.value is error


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_the_loop_outlives_an_exit(kind: type[BaseException]) -> None:
    """An exit that a task raises reaches the caller, which would otherwise wait forever."""

    async def leave() -> None:
        raise kind

    async def leave_from_a_child() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(leave())

    for coroutine in (leave(), leave_from_a_child()):
        with pytest.raises(kind):
            bridge.run(coroutine)
        assert bridge.run(_double(2)) == 4


def test_run_refuses_the_private_loop() -> None:
    """A blocking call on the private loop itself is refused, because it would wait forever."""

    async def inner() -> int:
        return bridge.run(_double(1))

    with pytest.raises(RuntimeError, match="async version"):
        bridge.run(inner())


def _program(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupt_waits_for_the_cleanup() -> None:
    """Ctrl-C cancels the coroutine, lets it clean up, and is then raised in the caller."""
    with _program("""
import asyncio
from lorebind_knowledge.plumbing.bridge import run
async def work():
    print("begun")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)
        print("cleaned")
        raise
try:
    run(work())
except KeyboardInterrupt:
    print("interrupted")
""") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGINT)
        out, errors = program.communicate(timeout=60)
    assert out.split() == ["cleaned", "interrupted"], errors


def test_a_loop_that_is_left_ends_quietly() -> None:
    """A call that no caller waits for is cancelled silently when the interpreter ends."""
    with _program("""
import asyncio, threading
from contextlib import suppress
from lorebind_knowledge.plumbing.bridge import run
begun = threading.Event()
async def work():
    try:
        begun.set()
        await asyncio.sleep(60)
    finally:
        print("closed")
def call():
    with suppress(asyncio.CancelledError):
        run(work())
threading.Thread(target=call, daemon=True).start()
begun.wait()
""") as program:
        out, errors = program.communicate(timeout=60)
    assert (out.split(), errors) == (["closed"], "")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no fork here")
def test_run_after_a_fork() -> None:
    """A child process that has the parent's loop but not its thread starts its own."""
    with _program("""
import asyncio, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking where there are threads
from lorebind_knowledge.plumbing.bridge import run
async def pid():
    await asyncio.sleep(0)
    return os.getpid()
assert run(pid()) == os.getpid()
child = os.fork()
if child == 0:
    os._exit(7 if run(pid()) == os.getpid() else 1)
_, status = os.waitpid(child, 0)
assert run(pid()) == os.getpid()
print(os.waitstatus_to_exitcode(status))
""") as program:
        out, errors = program.communicate(timeout=60)
    assert out.strip() == "7", errors


class _Desk:
    async def aquery(self, question: str, *, top_k: int = 5) -> str:
        """Ask something."""
        return f"{question} {top_k}"

    query = bridge.sync(aquery)


def test_sync_twins_look_like_their_originals() -> None:
    """The blocking version has the original's signature and docstring, and its own name."""
    assert _Desk().query("why", top_k=2) == "why 2"
    assert inspect.signature(_Desk.query) == inspect.signature(_Desk.aquery)
    assert _Desk.query.__doc__ == "Ask something."
    assert (_Desk.query.__name__, _Desk.query.__qualname__) == ("query", "_Desk.query")
    assert not inspect.iscoroutinefunction(_Desk.query)
    with pytest.raises(TypeError, match=r"^query\(\) takes 2 positional arguments"):
        _Desk().query("why", 2)  # type: ignore[misc]


async def test_whose_loop_it_is() -> None:
    """The caller's own loop is distinguished from private loops and from no loop."""

    async def here() -> asyncio.AbstractEventLoop | None:
        return bridge.callers_loop()

    assert await here() is asyncio.get_running_loop()
    assert await asyncio.to_thread(bridge.run, here()) is None
    assert await asyncio.to_thread(bridge.callers_loop) is None
