"""Events: which extensions receive them, in which order, and what a failing one can break."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from lorebind_config.errors import UsageError
from lorebind_knowledge.events import HOOKS, Event, Events, Extension


class _Listener(Extension):
    def __init__(self, name: str, heard: list[str]) -> None:
        self._name = name
        self._heard = heard

    def ingest_started(self, event: Event) -> None:
        self._heard.append(f"{self._name} {event.kb_id}")


class _Broken(Extension):
    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind

    def ingest_started(self, event: Event) -> None:
        raise self._kind("a listener's own mistake")


def test_order_of_registration() -> None:
    """Extensions receive an event in the order of their registration."""
    heard: list[str] = []
    events = Events([_Listener("first", heard), _Listener("second", heard)])
    events.subscribe(_Listener("third", heard))
    events.emit("ingest_started", Event("docs"))
    assert heard == ["first docs", "second docs", "third docs"]


@pytest.mark.parametrize("kind", [ValueError, GeneratorExit, SystemExit])
def test_one_that_raises_is_logged_and_breaks_nothing(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """If an extension raises, the others are still called, and the log names it."""
    heard: list[str] = []
    Events([_Broken(kind), _Listener("after", heard)]).emit("ingest_started", Event("docs"))
    assert heard == ["after docs"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "_Broken failed in ingest_started" in caplog.text
    assert "a listener's own mistake" in caplog.text


def test_hooks_are_optional() -> None:
    """An extension without methods receives every event and does nothing."""
    assert len(HOOKS) == 22
    for hook in HOOKS:
        Events([Extension()]).emit(hook, Event("docs"))


def test_leaving_while_being_called() -> None:
    """An extension can unsubscribe during an event; the others are called, and it is not."""
    heard: list[str] = []
    events = Events()

    class Once(Extension):
        def ingest_started(self, event: Event) -> None:
            heard.append("once")
            events.unsubscribe(self)

    events.subscribe(Once())
    events.subscribe(_Listener("other", heard))
    events.emit("ingest_started", Event("docs"))
    events.emit("ingest_started", Event("docs"))
    assert heard == ["once", "other docs", "other docs"]


def test_data_is_a_copy() -> None:
    """An extension that changes the data of an event changes only its own copy."""
    heard: list[Any] = []

    class Meddling(Extension):
        def ingest_completed(self, event: Event) -> None:
            heard.append(deepcopy(event.data))
            event.data["counts"]["added"] = 0
            event.data["own"] = True  # type: ignore[index]  # against the annotation

    data = {"counts": {"added": 1}}
    Events([Meddling(), Meddling()]).emit("ingest_completed", Event("docs", data=data))
    assert heard == [{"counts": {"added": 1}}] * 2
    assert data == {"counts": {"added": 1}}


def test_async_methods_are_refused() -> None:
    """An extension with an async method, which a call would not run, cannot be registered."""

    class Later(Extension):
        async def ingest_started(self, event: Event) -> None:  # type: ignore[override]
            raise AssertionError

    expected = r"Later: its method 'ingest_started' is async.*`def ingest_started\(self, event\)`"
    with pytest.raises(UsageError, match=expected):
        Events([Later()])
    with pytest.raises(UsageError, match=expected):
        Events().subscribe(Later())
