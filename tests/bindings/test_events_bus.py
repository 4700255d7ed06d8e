"""The bus: order, lost events, and readers of every kind."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_bindings.workflow.events import RunEvent
from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_bindings.workflow.events.subscription import Subscription
from lorebind_config.errors import UsageError


def emit(bus: EventBus, count: int) -> None:
    for _ in range(count):
        bus.emit("custom", "read", "read", number=bus.seq + 1)


def checked(events: Iterable[RunEvent], first: int, last: int) -> int:
    """Check that these events are complete, received or lost, and in order; return the losses."""
    expected, lost = first, 0
    for event in events:
        if event.dropped:
            assert event.seq == expected + event.dropped - 1
            assert event.type == "diagnostic"
            lost += event.dropped
        else:
            assert event.seq == expected
            assert event.data in ({"number": expected}, {})
        expected = event.seq + 1
    assert expected == last + 1
    return lost


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 12)),
        st.tuples(st.just("read"), st.integers(1, 12)),
        st.tuples(st.just("join"), st.just(1)),
        st.tuples(st.just("leave"), st.just(1)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 9))
async def test_what_is_received_and_lost_is_what_was_emitted(
    steps: list[tuple[str, Any]], capacity: int
) -> None:
    """Events stay in order, every loss is reported, and what fits the capacity is never lost."""
    bus = EventBus("t1", capacity)
    readers: list[tuple[int, Subscription, list[RunEvent]]] = []
    for step, number in steps:
        if step == "emit":
            emit(bus, number)
        elif step == "join":
            readers.append((bus.seq + 1, bus.subscribe(), []))
        elif step == "leave" and readers:
            readers.pop(0)[1].close()
        elif step == "read" and readers:
            _, reader, got = readers[-1]
            for _ in range(number):
                if reader.has_more:
                    got.append(next(reader))
        assert bus.is_heard == bool(readers)
    await bus.close()
    for first, reader, got in readers:
        before = len([event for event in got if not event.dropped])
        got.extend(reader)
        lost = checked(got, first, bus.seq)
        received = len([event for event in got if not event.dropped])
        assert received + lost == bus.seq - first + 1
        assert reader.dropped == lost
        left = bus.seq - first + 1 - before
        assert received - before >= min(left - lost, capacity)


async def test_a_reader_that_is_too_slow_is_told() -> None:
    """A slow reader loses the oldest events, then receives one notice and the next event."""
    bus = EventBus("t1")
    reader = bus.subscribe()
    emit(bus, 1)
    assert next(reader).seq == 1
    emit(bus, 3000)
    notice = next(reader)
    assert notice.as_json() == {
        "type": "diagnostic",
        "version": 1,
        "seq": 3001 - 1024,
        "thread_id": "t1",
        "task": "",
        "path": "",
        "data": {
            "message": "1976 events were lost: the subscriber reads too slowly",
            "dropped": 1976,
        },
    }
    emit(bus, 3000)  # the event after a notice is never lost: a slow reader would see only notices
    assert next(reader).seq == 3001 - 1024 + 1
    await bus.close()
    assert len([event for event in reader if not event.dropped]) == 1024


async def test_nobody_listens() -> None:
    """Without readers, events are counted but not stored."""

    class Big(dict[str, Any]):
        pass

    def alive() -> int:
        gc.collect()
        return len([item for item in gc.get_objects() if type(item) is Big])

    bus = EventBus("t1")
    assert not bus.is_heard
    for _ in range(5):
        bus.publish("custom", "", "", Big())
    assert alive() <= 1
    with bus.subscribe():
        for _ in range(5):
            bus.publish("custom", "", "", Big())
        assert alive() >= 5
    assert alive() <= 1
    reader = bus.subscribe()
    assert bus.is_heard
    emit(bus, 1)
    await bus.close()
    assert [event.seq for event in reader] == [11]


async def test_after_the_end() -> None:
    """After the bus is closed, events are ignored, and new readers are at the end immediately."""
    bus = EventBus("t1")
    emit(bus, 2)
    await bus.close()
    await bus.close()
    emit(bus, 1)
    assert bus.seq == 2
    assert not bus.is_heard
    assert list(bus.subscribe()) == []
    assert [event async for event in bus.subscribe()] == []


def test_a_capacity_that_cannot_be() -> None:
    """An invalid capacity is rejected."""
    with pytest.raises(UsageError, match="event_buffer must be at least 1, got 0"):
        EventBus("t1", 0)


async def test_data_with_keys_of_ours() -> None:
    """The data that a task emits may have any keys."""
    bus = EventBus("t1")
    with bus.subscribe() as reader:
        bus.publish("custom", "read", "read", {"task": 1, "type": 2, "self": 3})
        bus.emit("custom", "read", "read", type=2, kind=3, self=4)
        assert dict(next(reader).data) == {"task": 1, "type": 2, "self": 3}
        assert dict(next(reader).data) == {"type": 2, "kind": 3, "self": 4}


@pytest.mark.parametrize("capacity", [50, 100_000])
async def test_many_producers_and_readers_in_threads(capacity: int) -> None:
    """Readers of eight concurrent producers see the same order, which keeps that of each."""
    bus = EventBus("t1", capacity)
    readers = [bus.subscribe() for _ in range(3)]
    got: list[list[RunEvent]] = [[], [], []]

    def read(number: int) -> None:
        for event in readers[number]:
            got[number].append(event)
            if number == 2 and event.seq % 100 == 0:
                time.sleep(0.001)

    def produce(name: str) -> None:
        for number in range(1000):
            bus.emit("custom", name, name, number=number)

    async def aread() -> list[RunEvent]:
        return [event async for event in bus.subscribe()]

    threads = [threading.Thread(target=read, args=[number]) for number in range(3)]
    producers = [threading.Thread(target=produce, args=[f"p{number}"]) for number in range(8)]
    task = asyncio.create_task(aread())
    await asyncio.sleep(0)
    for thread in [*threads, *producers]:
        thread.start()
    for thread in producers:
        await asyncio.to_thread(thread.join, 60)
    await bus.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, 60)
    assert bus.seq == 8000
    for events in [*got, await asyncio.wait_for(task, 60)]:
        received = [event for event in events if not event.dropped]
        lost = sum(event.dropped for event in events)
        assert len(received) + lost == 8000
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert capacity == 50 or lost == 0
        for name in {event.task for event in received}:
            numbers = [event.data["number"] for event in received if event.task == name]
            assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("closed_by", ["bus", "reader"])
async def test_closing_wakes_who_waits(closed_by: str) -> None:
    """Closing ends readers that wait in a thread or a task."""
    bus = EventBus("t1")
    blocking, awaiting = bus.subscribe(), bus.subscribe()
    got: list[RunEvent] = []
    thread = threading.Thread(target=lambda: got.extend(blocking))
    thread.start()

    async def aread() -> list[RunEvent]:
        return [event async for event in awaiting]

    task = asyncio.create_task(aread())
    emit(bus, 1)
    for _ in range(10_000):
        await asyncio.sleep(0.001)
        if blocking.wake and awaiting.wake:
            break
    if closed_by == "bus":
        await bus.close()
    else:
        blocking.close()
        awaiting.close()
    assert [event.seq for event in await asyncio.wait_for(task, 10)] == [1]
    await asyncio.to_thread(thread.join, 10)
    assert [event.seq for event in got] == [1]
    assert not bus.is_heard


async def test_closing_while_a_reader_sleeps() -> None:
    """Closing does not wait for an idle reader, which still receives all remaining events."""
    bus = EventBus("t1")
    reader = bus.subscribe()
    emit(bus, 5)
    await asyncio.wait_for(bus.close(), 1)
    assert checked(reader, 1, 5) == 0


async def test_a_reader_with_a_time_limit_loses_nothing() -> None:
    """Waiting for the next event can be cancelled and resumed without losing events."""
    bus = EventBus("t1")
    reader = bus.subscribe()
    for number in range(1, 20):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(reader), 0.001)
        emit(bus, 1)
        assert (await anext(reader)).seq == number
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(reader), 0.001)


async def test_a_reader_that_ends_early() -> None:
    """When a reader leaves, the others continue; without readers the bus is not heard."""
    bus = EventBus("t1")
    other = bus.subscribe()
    with bus.subscribe() as reader:
        emit(bus, 3)
        assert next(reader).seq == 1
    emit(bus, 3)
    assert list(reader) == []
    assert [next(other).seq for _ in range(6)] == list(range(1, 7))
    other.close()
    assert not bus.is_heard


def test_a_reader_whose_loop_is_gone() -> None:
    """Emitting never raises, even if the event loop of a waiting reader was closed."""
    bus = EventBus("t1")
    reader = bus.subscribe()
    loop = asyncio.new_event_loop()
    waits = reader.__anext__()
    with pytest.raises(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(waits, 0.01))
    waits = reader.__anext__()
    loop.call_soon(lambda: waits.send(None))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    emit(bus, 2)
    assert [next(reader).seq, next(reader).seq] == [1, 2]
    waits.close()
