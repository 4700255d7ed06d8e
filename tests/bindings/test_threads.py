"""Threads in a file, in memory and in PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command, Interrupt

from lorebind_bindings.workflow.answers import answered, passed_key
from lorebind_bindings.workflow.threads.threads import Thread, ThreadStore
from lorebind_config.errors import NotFoundError, StoreError, ThreadRefusedError, UsageError

from .thread_graph import GRAPH, THREAD, WAITS, Triage, opened


@pytest.fixture(params=["sqlite", "memory", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ThreadStore]:
    if request.param == "postgres":
        store = await opened(tmp_path, request.getfixturevalue("dsn"))
    else:
        store = await opened(tmp_path, type=request.param)
    yield store
    await store.close()


async def status(store: ThreadStore, thread: Thread = THREAD) -> str | None:
    info = await store.find(thread)
    return info and info.status


async def test_a_thread_goes_through_failure_question_answer_and_another_turn(
    store: ThreadStore,
) -> None:
    """A thread that fails, waits and completes repeats no finished task; its status is correct."""
    triage = Triage(store)
    assert await store.find(THREAD) is None
    triage.failure = RuntimeError("boom")
    with pytest.raises(RuntimeError, match="boom"):
        await triage.turn("first")
    failed = await store.find(THREAD)
    assert failed is not None
    assert (failed.status, failed.error) == ("failed", "RuntimeError: boom")
    assert (failed.thread_id, failed.workflow, failed.graph) == ("ticket 7", "triage", GRAPH)

    triage.failure = None
    await triage.run(None)
    assert triage.ran == ["a", "b", "c"]
    waiting = await store.find(THREAD)
    assert waiting is not None
    assert (waiting.status, waiting.waiting, waiting.error) == ("waiting", [WAITS], "")
    assert waiting.updated > failed.updated

    done = await triage.run(Command(resume={"approve": True}))
    assert done["output"]["approve"] is True
    assert triage.ran == ["a", "b", "c"]
    assert await status(store) == "completed"

    await triage.turn("second")
    assert triage.ran == ["a", "b", "c"] * 2
    await triage.run(Command(resume={"approve": False}))
    first, second = await store.turns(THREAD)
    assert (first.state["input"], second.state["input"]) == ("first", "second")
    assert (first.state.get("messages"), second.state["messages"]) == (None, ["answered"])
    assert [first.records["approve"]["output"], second.records["approve"]["output"]] == [
        True,
        False,
    ]
    assert list(first.records) == ["a", "b", "c", "approve"]


async def test_a_run_reuses_the_threads_of_its_database(
    store: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call of the checkpointer has a thread of its own; threads in memory need none at all."""
    started: list[str] = []
    start = threading.Thread.start

    def count(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", count)
    await Triage(store).turn("first")
    journal = await store.journal(THREAD)
    for number in range(30):
        await journal.put({"key": f"t{number}", "output": number})
    in_memory = store.saver.name == "threads in memory"
    # At most four that read, one that writes and one that waits, for over 30 calls.
    assert 0 < len(started) <= 6 or (in_memory and not started)


async def test_a_thread_that_fails_after_it_was_answered_has_failed(store: ThreadStore) -> None:
    triage = Triage(store)
    await triage.turn("first")
    triage.failure = RuntimeError("later")
    with pytest.raises(RuntimeError):
        await triage.run(Command(resume={"approve": True}))
    assert await status(store) == "failed"


async def test_a_task_that_waited_and_has_a_record_waits_no_more(store: ThreadStore) -> None:
    await Triage(store).turn("first")
    journal = await store.journal(THREAD)
    await journal.put(answered("approve", True))
    info = await store.find(THREAD)
    assert info is not None
    assert (info.status, info.waiting) == ("interrupted", [])


async def test_an_input_that_was_cut_off_is_not_the_turn_before(
    store: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between LangGraph's write of the input and of the turn is shown as interrupted."""
    triage = Triage(store)
    triage.asks = False
    await triage.turn("first")
    put, calls = store.saver.put, []

    def put_once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise StoreError("cut off")
        return put(*args)

    with monkeypatch.context() as patch:
        patch.setattr(store.saver, "put", put_once)
        with pytest.raises(StoreError, match="cut off"):
            await triage.turn("second")
    assert await status(store) == "interrupted"
    await triage.run(None)
    assert await status(store) == "completed"
    assert [turn.state["input"] for turn in await store.turns(THREAD)] == ["first", "second"]


async def test_a_thread_is_paused_before_a_task(store: ThreadStore) -> None:
    triage = Triage(store)
    await triage.turn("first")
    newest = await store.saver.aget_tuple(THREAD.config)
    assert newest is not None
    paused = Interrupt(value={"waiting": [], "paused": ["c2"]}, id="1")
    await store.saver.aput_writes(newest.config, [("__interrupt__", (paused,))], "other")
    await (await store.journal(THREAD)).put(answered("approve", True))
    info = await store.find(THREAD)
    assert info is not None
    assert (info.status, info.paused) == ("paused", ["c2"])
    await (await store.journal(THREAD)).put({"key": passed_key("c2")})
    assert await status(store) == "interrupted"


async def test_a_claimed_thread_is_refused_and_seen_to_run(store: ThreadStore) -> None:
    triage = Triage(store)
    async with store.claimed(THREAD) as before:
        assert before is None
        with pytest.raises(ThreadRefusedError, match="'ticket 7' of workflow 'triage' is running"):
            await triage.turn("first")
        async with store.claimed(THREAD._replace(id="8")):
            pass
    await triage.turn("first")
    async with store.claimed(THREAD) as before:
        assert before is not None
        assert before.status == "waiting"
        assert await status(store) == "running"
        assert [info.status for info in await store.list(*THREAD[:3])] == ["running"]
    assert await status(store) == "waiting"


async def test_a_claim_that_is_cancelled_is_free(store: ThreadStore) -> None:
    async def claim() -> None:
        async with store.claimed(THREAD):
            await asyncio.sleep(60)

    for seconds in (0, 0.001, 0.01, 0.1):
        task = asyncio.create_task(claim())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with store.claimed(THREAD):
        pass


def test_threads_are_used_from_several_event_loops(tmp_path: Path, dsn: str) -> None:
    async def both() -> list[ThreadStore]:
        return [await opened(tmp_path), await opened(tmp_path, dsn)]

    for store in asyncio.run(both()):
        asyncio.run(Triage(store).turn("first"))
        assert asyncio.run(status(store)) == "waiting"
        asyncio.run(Triage(store).run(Command(resume={"approve": True})))
        assert asyncio.run(status(store)) == "completed"
        asyncio.run(store.close())


async def test_nobody_finds_a_thread_of_others(store: ThreadStore) -> None:
    """Threads of other tenants, projects and workflows are not found, even with the same id."""
    await Triage(store).turn("first")
    others = [
        THREAD._replace(tenant="other"),
        THREAD._replace(project="other"),
        THREAD._replace(workflow="other"),
        THREAD._replace(id="ticket-7"),
        Thread("default", "shoptriage", "", "ticket 7"),
        Thread("default", "shop", "triageticket", " 7"),
    ]
    assert len({thread.key for thread in [THREAD, *others]}) == 7
    for other in others:
        assert await store.find(other) is None
        with pytest.raises(NotFoundError, match=r"has no thread .*lorebind workflow threads"):
            await store.turns(other)
    assert await store.list("other", "shop", "triage") == []
    assert await status(store) == "waiting"


async def test_threads_are_listed_newest_first(store: ThreadStore) -> None:
    threads = [THREAD._replace(id=f"t{number}") for number in range(4)]
    for thread in threads:
        await Triage(store, thread).turn(thread.id)
    listed = await store.list("default", "shop", "triage", limit=3)
    assert [info.thread_id for info in listed] == ["t3", "t2", "t1"]


async def test_threads_are_listed_from_a_turn_on_in_both_directions(store: ThreadStore) -> None:
    threads = [THREAD._replace(id=f"t{number}") for number in range(5)]
    for thread in [*threads, threads[1]]:  # the last turn of threads[1] starts last
        await Triage(store, thread).turn(thread.id)

    async def listed(**where: Any) -> list[str]:
        return [info.thread_id for info in await store.list("default", "shop", "triage", **where)]

    assert await listed() == ["t1", "t4", "t3", "t2", "t0"]
    turns = {info.thread_id: info.turn for info in await store.list("default", "shop", "triage")}
    assert await listed(limit=2, before=turns["t4"]) == ["t3", "t2"]
    assert await listed(limit=2, after=turns["t2"]) == ["t4", "t3"]
    assert await listed(before=turns["t0"]) == await listed(after=turns["t1"]) == []


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0", "\ud800", "x" * 201])
async def test_an_id_that_cannot_be_shown_is_refused(store: ThreadStore, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the id of a thread"):
        async with store.claimed(THREAD._replace(id=name)):
            pass


async def test_any_json_is_kept_as_it_is(store: ThreadStore) -> None:
    """Any JSON is stored unchanged, including values that PostgreSQL's jsonb rejects or changes."""
    for value in ("a\0b\x01\ud800é", 1e22, 10**30, -0.0, None, True, [1, {"": []}], {"$id": "x"}):
        thread = THREAD._replace(id=f"{value!r}")
        triage = Triage(store, thread)
        triage.asks = False
        await triage.turn({"v": value})
        (turn,) = await store.turns(thread)
        assert repr(turn.state["input"]) == repr({"v": value})
        await triage.turn(value)
        turn = (await store.turns(thread))[1]
        assert repr(turn.state["input"]) == repr(value)


async def test_what_is_not_json_is_refused_alone(store: ThreadStore) -> None:
    """A value that is not JSON is rejected; values that are written at the same time are stored."""
    await Triage(store).turn("first")
    journal = await store.journal(THREAD)
    puts = [journal.put({"key": f"x{number}", "output": number}) for number in range(3)]
    puts.insert(1, journal.put({"key": "y", "output": float("nan")}))
    puts.insert(1, journal.put({"key": "z", "output": {1, 2}}))
    failures = [
        failure for failure in await asyncio.gather(*puts, return_exceptions=True) if failure
    ]
    assert [type(failure) for failure in failures] == [UsageError, UsageError]
    assert {"x0", "x1", "x2"} <= set((await store.journal(THREAD)).records)


async def test_a_put_that_is_cancelled_has_written(store: ThreadStore) -> None:
    """A cancelled put has been written when it returns, so nothing is written after the run."""
    await Triage(store).turn("first")
    journal = await store.journal(THREAD)
    puts = [asyncio.create_task(journal.put({"key": f"x{n}", "output": n})) for n in range(9)]
    await asyncio.sleep(0)
    for put in puts:
        put.cancel()
    await asyncio.wait(puts)
    assert set(journal.records) >= {f"x{n}" for n in range(9)}
    assert journal.records == (await store.journal(THREAD)).records


async def test_a_write_that_fails_fails_those_that_wait_for_it(
    store: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write fails all puts that wait for it; later puts are written."""
    await Triage(store).turn("first")
    journal = await store.journal(THREAD)
    written = store.saver.put_writes

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store.saver, "put_writes", fail)
    puts = [journal.put({"key": f"x{n}", "output": n}) for n in range(3)]
    failures = await asyncio.gather(*puts, return_exceptions=True)
    assert [str(failure) for failure in failures] == ["the disk is full"] * 3
    assert "x0" not in journal.records
    monkeypatch.setattr(store.saver, "put_writes", written)
    await journal.put({"key": "x0", "output": 0})
    assert "x0" in (await store.journal(THREAD)).records
