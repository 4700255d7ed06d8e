"""The conformance tests of `Engine`."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import pytest

from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.scale.engine import Engine

_SOON = 30.0
"""Maximum number of seconds until an engine has done what it must do."""
_OFTEN = 0.02
"""Seconds between two looks at the work of engines."""


class EngineConformance:
    """The tests of `Engine`. Inherit it and define a fixture `make_engine`.

    The fixture returns a function that makes another engine for the same catalog, as another
    process does. Tests may share the catalog: each uses keys of its own, and closes its engines.
    """

    @pytest.fixture
    def make_engine(self) -> Callable[[], Engine]:
        raise NotImplementedError("define a fixture named `make_engine` that returns a function")

    def test_is_an_engine(self, make_engine: Callable[[], Engine]) -> None:
        """The engine has the methods of the protocol, and can be closed before and after use."""
        engine = make_engine()
        assert isinstance(engine, Engine)
        finish(engine.close())
        assert finish(engine.look_after("unused")) == 0
        finish(engine.close())

    def test_ids_reach_the_workers_of_their_key(self, make_engine: Callable[[], Engine]) -> None:
        """Each id is delivered with its key, once or more often, to a worker that serves the key.

        It does not matter whether the worker, or the id, was there first.
        """
        a, b, c = _ids(3)
        ingest, before, after = make_engine(), _ids(30), _ids(30)
        submit(ingest, a, before[:20])
        submit(ingest, b, before[20:])
        submit(ingest, c, ["alone"])
        submit(ingest, a, [])
        with Workers(make_engine) as workers:
            first, second = workers.start({a: 2, b: 2}), workers.start({a: 1})
            until(lambda: workers.done >= set(before))
            submit(ingest, a, after)
            until(lambda: workers.done >= {*before, *after})
            assert {key for key, _ in first.calls} <= {a, b}
            assert {key for key, _ in second.calls} <= {a}
            keys = {batch: key for key, batch in [*first.calls, *second.calls]}
            assert keys == dict.fromkeys([*before[:20], *after], a) | dict.fromkeys(before[20:], b)
            third = workers.start({c: 1})
            until(lambda: set(third.calls) == {(c, "alone")})
        finish(ingest.close())

    def test_live_slots(self, make_engine: Callable[[], Engine]) -> None:
        """The slots of all workers of a key are counted, and those of workers that have ended are
        not."""
        ingest, (a, b, c) = make_engine(), _ids(3)
        with Workers(make_engine) as workers:
            first, second = workers.start({a: 2, b: 1}), workers.start({a: 3})
            until(lambda: live(ingest, a) == 5)
            until(lambda: live(ingest, b) == 1)
            assert live(ingest, c) == 0
            if listed := getattr(ingest, "workers", None):
                slots = [(info.embedder, info.slots, info.busy) for info in listed([a, b, c])]
                assert sorted(slots) == sorted([(a, 2, 0), (a, 3, 0), (b, 1, 0)])
                assert listed([c]) == listed([]) == []
            second.stop()
            until(lambda: live(ingest, a) == 2)
            first.stop()
            until(lambda: live(ingest, a) == live(ingest, b) == 0)
        finish(ingest.close())

    def test_slots(self, make_engine: Callable[[], Engine]) -> None:
        """A worker has as many ids in hand as it has slots; other keys do not wait for theirs."""
        ingest, (slow_key, fast_key) = make_engine(), _ids(2)
        slow, fast = _ids(6), _ids(6)
        with Workers(make_engine) as workers:
            worker = workers.start({slow_key: 2, fast_key: 1}, waits=slow)
            submit(ingest, slow_key, slow)
            until(lambda: worker.in_hand[slow_key] == 2)
            submit(ingest, fast_key, fast)
            until(lambda: worker.done >= set(fast))
            assert worker.in_hand[slow_key] == 2
            worker.go_on()
            until(lambda: worker.done >= {*slow, *fast})
            assert worker.most == {slow_key: 2, fast_key: 1}
        finish(ingest.close())

    def test_once(self, make_engine: Callable[[], Engine]) -> None:
        """With `once`, a worker returns when no id is waiting, and all those are done."""
        ingest, ids, (a,) = make_engine(), _ids(5), _ids(1)
        submit(ingest, a, ids)
        with Workers(make_engine) as workers:
            worker = workers.start({a: 2}, once=True)
            until(lambda: worker.has_ended)
            assert worker.done == set(ids)
        finish(ingest.close())

    def test_a_worker_that_is_cancelled(self, make_engine: Callable[[], Engine]) -> None:
        """It ends what it has in hand, and takes nothing else, which other workers receive."""
        ingest, ids, (a,) = make_engine(), _ids(8), _ids(1)
        with Workers(make_engine) as workers:
            worker = workers.start({a: 2}, waits=ids)
            submit(ingest, a, ids)
            until(lambda: worker.in_hand[a] == 2)
            in_hand = list(worker.calls)
            worker.cancel()
            time.sleep(5 * _OFTEN)
            assert not worker.has_ended
            worker.go_on()
            until(lambda: worker.has_ended)
            assert worker.calls == in_hand
            assert len(worker.done) == 2
            workers.start({a: 1})
            until(lambda: workers.done >= set(ids), looks_after=(ingest, a))
        finish(ingest.close())

    def test_a_worker_that_hangs(self, make_engine: Callable[[], Engine]) -> None:
        """Its ids are given to others, and its slots do not count. Later, it works again."""
        ingest, ids, later, (a,) = make_engine(), _ids(3), _ids(1), _ids(1)
        with Workers(make_engine) as workers:
            worker = workers.start({a: 1}, waits=ids)
            submit(ingest, a, ids)
            until(lambda: worker.in_hand[a] == 1)
            with worker.frozen():
                until(lambda: live(ingest, a) == 0)
                other = workers.start({a: 1})
                until(lambda: other.done >= set(ids), looks_after=(ingest, a))
                other.stop()
            worker.go_on()
            submit(ingest, a, later)
            until(lambda: worker.done >= set(later), looks_after=(ingest, a))
        finish(ingest.close())

    def test_threads_submit_at_the_same_time(self, make_engine: Callable[[], Engine]) -> None:
        """Several ingests of a process submit, and none of their ids is lost."""
        ingest, keys = make_engine(), _ids(2)
        parts = [_ids(25) for _ in range(4)]
        threads = [
            threading.Thread(target=submit, args=(ingest, keys[at % 2], part))
            for at, part in enumerate(parts)
        ]
        for thread in threads:
            thread.start()
        with Workers(make_engine) as workers:
            workers.start(dict.fromkeys(keys, 4))
            until(lambda: workers.done == {batch for part in parts for batch in part})
        for thread in threads:
            thread.join()
        finish(ingest.close())


class Worker:
    """A worker in a thread with an event loop of its own, as in a process."""

    def __init__(
        self, engine: Engine, slots: Mapping[str, int], waits: Iterable[str], *, once: bool
    ) -> None:
        self.calls: list[tuple[str, str]] = []
        self.done: set[str] = set()
        self.in_hand: Counter[str] = Counter()
        self.most: defaultdict[str, int] = defaultdict(int)
        self._engine, self._slots, self._once = engine, slots, once
        self._waits, self._may_go_on = set(waits), asyncio.Event()
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._serving: asyncio.Task[None] | None = None
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def go_on(self) -> None:
        """End the calls that wait."""
        self._in_loop(self._may_go_on.set)

    def cancel(self) -> None:
        until(lambda: self._serving)
        assert self._serving is not None
        self._in_loop(self._serving.cancel)

    def stop(self) -> None:
        """Cancel it, and wait until it has ended."""
        self.cancel()
        self.go_on()
        until(lambda: self.has_ended)

    def frozen(self) -> _Frozen:
        """Stop all its code within a block, as a process that is suspended."""
        return _Frozen(self._in_loop)

    async def _work(self, key: str, batch: str) -> None:
        self.calls.append((key, batch))
        self.in_hand[key] += 1
        self.most[key] = max(self.most[key], self.in_hand[key])
        if batch in self._waits:
            await self._may_go_on.wait()
        await asyncio.sleep(0)
        self.in_hand[key] -= 1
        self.done.add(batch)

    async def _serve(self) -> None:
        self._serving = asyncio.current_task()
        try:
            await self._engine.serve(self._work, self._slots, once=self._once)
        finally:
            closing = self._engine.close()
            if closing is not None:
                await closing

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._serve())
        except Exception as error:  # shown by the thread of the test
            self._error = error
        finally:
            self._loop.close()

    def _in_loop(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(function)


class _Frozen:
    def __init__(self, in_loop: Callable[[Callable[[], object]], None]) -> None:
        self._in_loop, self._until = in_loop, threading.Event()

    def __enter__(self) -> None:
        has_begun = threading.Event()

        def freeze() -> None:
            has_begun.set()
            self._until.wait()

        self._in_loop(freeze)
        assert has_begun.wait(_SOON)

    def __exit__(self, *error: object) -> None:
        self._until.set()


class Workers:
    """The workers of a test, which end with the block."""

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        self._make_engine, self._workers = make_engine, list[Worker]()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.stop()

    def start(
        self, slots: Mapping[str, int], *, waits: Sequence[str] = (), once: bool = False
    ) -> Worker:
        """Start a worker.

        Args:
            slots: its slots by key.
            waits: the ids on which it works until it is told to go on.
            once: see `Engine.serve`.
        """
        self._workers.append(Worker(self._make_engine(), slots, waits, once=once))
        return self._workers[-1]

    @property
    def done(self) -> set[str]:
        """The ids that workers have finished."""
        return {batch for worker in self._workers for batch in worker.done}


def submit(engine: Engine, key: str, ids: Sequence[str]) -> None:
    finish(engine.submit(key, ids))


def live(engine: Engine, key: str) -> int:
    return finish(engine.look_after(key))


def until(
    condition: Callable[[], object], *, looks_after: tuple[Engine, str] | None = None
) -> None:
    """Wait until a condition holds.

    Args:
        condition: the condition.
        looks_after: an engine with the key to look after meanwhile, as ingests that wait do.
    """
    deadline = time.monotonic() + _SOON
    while not condition():
        assert time.monotonic() < deadline, "the engine has not done that in time"
        if looks_after is not None:
            live(*looks_after)
        time.sleep(_OFTEN)


def _ids(count: int) -> list[str]:
    return [uuid.uuid4().hex for _ in range(count)]
