"""Threads used by several processes, some of which are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lorebind_config.errors import ThreadRefusedError
from tests.app.forked_python import Forked, ForkedPython
from tests.processes import run_program

from .thread_graph import THREAD, listed, opened

ROOT = Path(__file__).parents[2]
DOING = """
import runpy
runpy.run_module("tests.bindings.thread_graph", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def dsn_or_none(request: pytest.FixtureRequest) -> str | None:
    """Return None for the file of a project."""
    return request.getfixturevalue("dsn") if request.param == "postgres" else None


@contextmanager
def other(
    forked: ForkedPython, what: str, root: Path, dsn: str | None
) -> Iterator[subprocess.Popen[str]]:
    """Start another process that does this, and kill it at the end of the block."""
    command = [str(forked.commands / "python"), "-c", DOING, what, str(root)]
    process = Forked(
        [*command, dsn] if dsn else command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def numbers(process: subprocess.Popen[str], count: int) -> set[int]:
    """Return this many lines that the process prints, and all later ones until it is killed."""
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(count)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.read().splitlines(keepends=True)
    return {int(line) for line in lines if line.endswith("\n")}


async def test_what_a_killed_process_has_finished_is_kept(
    tmp_path: Path, dsn_or_none: str | None, forked: ForkedPython
) -> None:
    """Each run continues after the records of the previous one, and no record is lost."""
    done: set[int] = set()
    for count in (1, 30, 200):
        with other(forked, "journal", tmp_path, dsn_or_none) as process:
            printed = numbers(process, count)
            assert not printed & done
            done |= printed
        store = await opened(tmp_path, dsn_or_none)
        async with store.claimed(THREAD) as info:
            assert info is not None
            assert info.status == "interrupted"
        outputs = [record["output"] for record in (await store.journal(THREAD)).records.values()]
        assert done <= set(outputs)
        assert len(set(outputs) - done) <= 4  # one per worker, which it had not printed yet
        done = set(outputs)
        await store.close()


async def test_of_two_processes_on_a_thread_one_is_refused(
    tmp_path: Path, dsn_or_none: str | None, forked: ForkedPython
) -> None:
    """A thread in use is refused to other processes, and a kill releases it."""
    store = await opened(tmp_path, dsn_or_none)
    with other(forked, "hold", tmp_path, dsn_or_none) as process:
        assert process.stdout
        assert process.stdout.readline() == "claimed\n"
        with pytest.raises(ThreadRefusedError, match="is running"):
            async with store.claimed(THREAD):
                pass
        second = await opened(tmp_path, dsn_or_none)
        with pytest.raises(ThreadRefusedError):
            async with second.claimed(THREAD):
                pass
        await second.close()
    async with store.claimed(THREAD):
        pass
    await store.close()
    assert not [name for name in listed(tmp_path) if name.endswith(".lock")]


def test_a_forked_child_has_claims_and_connections_of_its_own(
    tmp_path: Path, dsn_or_none: str | None
) -> None:
    """A child process neither uses nor releases its parent's claims, and can use the store."""
    arguments = [str(tmp_path), *([dsn_or_none] if dsn_or_none else [])]
    done = run_program([sys.executable, "-W", "ignore", "-c", FORKING, *arguments], cwd=ROOT)
    assert (done.stdout, done.stderr) == (
        "child: refused\nchild: waiting\nparent: 0 waiting\nparent: refused\n",
        "",
    )


FORKING = """
import asyncio, os, sys
from pathlib import Path
from lorebind_config.errors import ThreadRefusedError
from tests.bindings.thread_graph import *

OWN = THREAD._replace(id="of the child")

async def claim(store, who):
    try:
        async with store.claimed(THREAD):
            print(who, "claimed", flush=True)
    except ThreadRefusedError:
        print(who, "refused", flush=True)

async def child(store):
    await claim(store, "child:")
    await Triage(store, OWN).turn("first")
    print("child:", (await store.find(OWN)).status, flush=True)
    await store.close()

store = asyncio.run(opened(Path(sys.argv[1]), *sys.argv[2:]))
claimed = store.claimed(THREAD)
asyncio.new_event_loop().run_until_complete(claimed.__aenter__())
pid = os.fork()
if not pid:
    asyncio.run(child(store))
    os._exit(0)
_, status = os.waitpid(pid, 0)
print("parent:", status, asyncio.run(store.find(OWN)).status, flush=True)
asyncio.run(claim(asyncio.run(opened(Path(sys.argv[1]), *sys.argv[2:])), "parent:"))
os._exit(0)
"""
