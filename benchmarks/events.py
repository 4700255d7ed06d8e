"""The cost of sleeping subscribers for the producer of a run's events.

    python benchmarks/events.py [--rounds N] [--events N]

The baseline is the same producer without subscribers. `in a graph` is a node of a LangGraph
`StateGraph` that encodes small records and emits them; the reader of its `RunStream` takes one
event and then sleeps, which may cost 20 % more. Times are processor times, and ratios medians over
the rounds.

`emit alone` is the worst case: loops that only emit. They take turns every 100 events, so that
other load on the machine affects them equally. Each sleeping subscriber holds 1024 events, which do
not stay in the processor's cache; without one, events are only counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_bindings.workflow.results import RunResult
from lorebind_bindings.workflow.run_stream import RunStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_bindings.workflow.events import RunEvent

LIMIT = 1.2
TURN = 100
NOBODY = "nobody listens"
HOSTED = "in a graph"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--events", type=int, default=20_000)
    arguments = parser.parse_args()
    rounds, events = range(arguments.rounds + 1), arguments.events
    print(f"{'':36} us an event   ratio   ({events} events, {arguments.rounds} rounds)")
    for name, readers, callbacks in (
        ("1 subscriber", 1, 0),
        ("10 subscribers", 10, 0),
        ("1 callback", 0, 1),
    ):
        taken = [asyncio.run(alone(name, readers, callbacks, events)) for _ in rounds][1:]
        report("emit alone", taken, events)
    report(HOSTED, [hosted(events, first=number % 2) for number in rounds][1:], events)


def report(label: str, rounds: Sequence[Mapping[str, float]], events: int) -> None:
    for name in rounds[0]:
        each = statistics.median(round_[name] for round_ in rounds) * 1e6 / events
        ratio = statistics.median(round_[name] / round_[NOBODY] for round_ in rounds)
        late = "   above the limit" if ratio > LIMIT and label == HOSTED else ""
        print(f"{f'{label}, {name}':36} {each:11.2f} {ratio:7.2f}{late}")


async def alone(name: str, readers: int, callbacks: int, events: int) -> dict[str, float]:
    """Return the seconds of two loops that only emit, one of them to sleeping subscribers."""
    buses = {NOBODY: EventBus("bench"), name: EventBus("bench")}
    wake = threading.Event()
    for _ in range(readers):
        buses[name].subscribe()
    buses[name].attach([lambda event: wake.wait()] * callbacks)
    buses[name].emit("custom")
    await asyncio.sleep(0.01)  # a callback takes this event and sleeps
    taken = dict.fromkeys(buses, 0.0)
    for turn in range(events // TURN):
        for bus in list(buses)[:: 1 if turn % 2 else -1]:
            taken[bus] += emit(buses[bus])
    wake.set()
    await buses[name].close()
    return taken


def emit(bus: EventBus) -> float:
    started = time.thread_time()
    for number in range(TURN):
        bus.emit("custom", "read", "read", done=number, of=TURN)
    return time.thread_time() - started


class State(TypedDict):
    done: int


def hosted(events: int, *, first: int) -> dict[str, float]:
    """Return the seconds of whole runs whose only task emits all the events."""
    taken = dict.fromkeys([NOBODY, "1 subscriber"], 0.0)
    for name in list(taken)[:: 1 if first else -1]:
        over = threading.Event()

        async def start(bus: EventBus, over: threading.Event = over) -> RunResult:
            bus.emit("run_start")
            await asyncio.sleep(0.01)  # the reader takes this event and sleeps
            seconds = await run(bus, events)
            over.set()
            return RunResult(seconds, {}, [], bus.thread_id, {})

        if name == NOBODY:
            taken[name] = asyncio.run(start(EventBus("bench"))).output
        else:
            stream = RunStream(start)
            for event in stream:
                sleep(event, over)
            taken[name] = stream.result.output
    return taken


def sleep(event: RunEvent, over: threading.Event) -> None:
    if event.type == "run_start":
        over.wait()


async def run(bus: EventBus, events: int) -> float:
    def task(state: State) -> dict[str, Any]:
        for number in range(events):
            record = {"done": number, "of": events, "text": "a passage was read"}
            bus.publish("custom", "read", "read", {"record": json.dumps(record)})
        return {"done": events}

    started = time.process_time()
    graph = StateGraph(State)
    graph.add_node("task", task)
    graph.add_edge(START, "task")
    graph.add_edge("task", END)
    await graph.compile().ainvoke({"done": 0})
    return time.process_time() - started


if __name__ == "__main__":
    main()
