"""Events: their JSON, their schema, and their lines of text."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator, ValidationError

from lorebind_bindings.workflow.events import EventType, RunEvent, event_schema
from lorebind_bindings.workflow.events.event_line import event_line, styled

ERROR = {"type": "ModelError", "message": "the model is down", "task": "read"}

SAMPLES: dict[EventType, tuple[dict[str, Any], str]] = {
    "run_start": (
        {"workflow": "triage", "resumed": False, "inputs": ["ticket"]},
        "answers[3].answer triage starts, thread t1",
    ),
    "task_start": ({"attempt": 1}, "answers[3].answer starts"),
    "task_retry": (
        {"attempt": 1, "error": ERROR, "wait_seconds": 0.5},
        "answers[3].answer failed, next attempt in 0.5 s: ModelError: the model is down",
    ),
    "task_skipped": (
        {"reason": "route"},
        "answers[3].answer skipped: no route leads to it",
    ),
    "task_end": (
        {"status": "failed", "output": None, "seconds": 0.25, "attempts": 2, "error": ERROR},
        "answers[3].answer failed after 0.25 s: ModelError: the model is down",
    ),
    "model_chunk": ({"text": "He"}, "answers[3].answer | He"),
    "model_end": ({"text": "Hello", "usage": {}}, "answers[3].answer said: Hello"),
    "retrieval": (
        {
            "kb_id": "handbook",
            "verdict": "hit",
            "matches": [{"id": "a", "score": 0.5, "uri": "a.md"}],
            "seconds": 0.01,
        },
        "answers[3].answer found 1 passages of handbook in 0.01 s (hit)",
    ),
    "tool_call": (
        {
            "tool": "find",
            "arguments": {"pattern": "keys"},
            "status": "success",
            "text": "- [1] a.md",
            "found": [{"marker": "[1]", "id": "a", "uri": "a.md"}],
            "seconds": 0.01,
        },
        "answers[3].answer called find(pattern='keys') in 0.01 s, 1 passages",
    ),
    "custom": ({"done": [1, {"of": 2}]}, "answers[3].answer emits {'done': [1, {'of': 2}]}"),
    "waiting": (
        {
            "waiting": [
                {"task": "approve", "path": "approve", "prompt": "Pay?", "schema": {}},
                {"task": "sign", "path": "sign", "prompt": None, "schema": None},
            ],
            "paused": ["reply"],
        },
        "answers[3].answer approve waits: Pay?; sign waits: ; paused before reply",
    ),
    "diagnostic": ({"message": "3 events were lost", "dropped": 3}, "3 events were lost"),
    "run_end": ({"status": "completed", "seconds": 1}, "run completed after 1.00 s"),
}
OF_THE_RUN = "diagnostic", "run_end"


def event(kind: EventType, data: dict[str, Any]) -> RunEvent:
    path = "" if kind in OF_THE_RUN else "answers[3].answer"
    return RunEvent(kind, 1, 7, "t1", "answer" if path else "", path, data)


def validate(record: object) -> None:
    Draft202012Validator(event_schema()).validate(record)


def test_the_schema_is_one_and_names_all_types() -> None:
    """The schema is valid and has a part for each type of event."""
    schema = event_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["type"]["enum"] == list(get_args(EventType))
    assert set(schema["$defs"]) == {"error", *get_args(EventType)}
    assert set(SAMPLES) == set(get_args(EventType))


@pytest.mark.parametrize("kind", get_args(EventType))
def test_an_event_of_each_type(kind: EventType) -> None:
    """Each type of event is valid, survives a round trip through JSON, and has a line of text."""
    data, line = SAMPLES[kind]
    item = event(kind, data)
    record = json.loads(json.dumps(item.as_json()))
    assert list(record) == ["type", "version", "seq", "thread_id", "task", "path", "data"]
    assert RunEvent(**record) == item
    validate(record)
    assert event_line(item) == line
    validate({**record, "data": {**data, "more": 1}})  # a later release may add keys


@pytest.mark.parametrize("kind", [kind for kind in get_args(EventType) if kind != "custom"])
def test_an_event_that_lacks_something(kind: EventType) -> None:
    """Every key of the data of a type is required."""
    data, _ = SAMPLES[kind]
    optional = {"error", "dropped", "sink"} if kind != "task_retry" else set()
    for key in data.keys() - optional:
        rest = {name: value for name, value in data.items() if name != key}
        with pytest.raises(ValidationError):
            validate(event(kind, rest).as_json())


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "node"},
        {"version": 2},
        {"seq": 0},
        {"time": "now"},
        {"data": []},
        {"type": "task_end", "data": {**SAMPLES["task_end"][0], "status": "done"}},
        {"type": "retrieval", "data": {**SAMPLES["retrieval"][0], "matches": [{"id": "a"}]}},
        {"type": "task_retry", "data": {**SAMPLES["task_retry"][0], "error": "it failed"}},
    ],
)
def test_what_is_no_event(wrong: dict[str, Any]) -> None:
    """The schema rejects unknown types, versions, keys and values."""
    right = event("custom", {}).as_json()
    validate(right)
    with pytest.raises(ValidationError):
        validate({**right, **wrong})


def test_a_line_stays_a_line() -> None:
    """The text of a model cannot break the line, nor control a terminal."""
    chunk = event("model_chunk", {"text": "a\nb\x1b[2Jc\u2028" + "d" * 300})
    line = event_line(chunk)
    assert line.startswith("answers[3].answer | a b [2Jc d")
    assert len(line) == 200
    assert line.isprintable()


def test_colours() -> None:
    """Failures are red in a terminal."""
    failed = event("task_end", SAMPLES["task_end"][0])
    assert styled("line", failed) == "\x1b[31mline\x1b[0m"
    assert styled("line", event("model_end", SAMPLES["model_end"][0])) == "line"
