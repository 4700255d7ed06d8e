"""The descriptions of run answers in the OpenAPI document."""

from __future__ import annotations

from typing import Any, get_args

from lorebind.server.event_streams import MEDIA_TYPE
from lorebind_bindings.workflow.events.events import EventType

_RESULT = {
    "type": "object",
    "required": ["status", "thread_id", "output", "tasks", "citations", "waiting", "paused"],
    "properties": {
        "status": {"enum": ["completed", "waiting", "paused"]},
        "thread_id": {"type": "string"},
        "output": {"description": "The declared outputs by name, or the output of the last task."},
        "tasks": {"type": "object", "description": "The result of each task, by its id."},
        "citations": {"type": "array", "items": {"type": "object"}},
        "usage": {"type": "object", "description": "The token usage of each task, by its id."},
        "waiting": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["task", "path", "prompt", "schema"],
                "properties": {
                    "task": {"type": "string"},
                    "path": {"type": "string"},
                    "prompt": {"type": "string"},
                    "schema": {"description": "JSON Schema of the answer; null accepts any."},
                },
            },
        },
        "paused": {"type": "array", "items": {"type": "string"}},
    },
}

_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": [*get_args(EventType), "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}

RUN_JSON: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The run has completed",
        "content": {"application/json": {"schema": _RESULT}},
    },
    202: {
        "description": "The run waits for answers, or is paused: see `waiting` and `paused`",
        "content": {"application/json": {"schema": _RESULT}},
        "headers": {"Location": {"description": "The thread", "schema": {"type": "string"}}},
    },
}

RUN: dict[int | str, dict[str, Any]] = {
    **RUN_JSON,
    200: {
        "description": "The run has completed; or, if `Accept` prefers them, its events. The last "
        "is `run_end`, whose data has the `result`. If the run fails, an `error` follows: a "
        "problem document",
        "content": {**RUN_JSON[200]["content"], MEDIA_TYPE: {"itemSchema": _EVENT}},
    },
}

REPLAY: dict[int | str, dict[str, Any]] = {
    **RUN_JSON,
    200: {
        "description": "The run has completed; or, if `Accept` prefers events, an event `result` "
        "or `error`, without a time limit",
        "content": {**RUN_JSON[200]["content"], MEDIA_TYPE: {"schema": {"type": "string"}}},
    },
}
