"""An event as a line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_bindings.workflow.events import RunEvent

_LONGEST = 200
_RED, _YELLOW, _GREEN, _FAINT = 31, 33, 32, 2


def event_line(event: RunEvent) -> str:
    """Return an event as one line, without control characters that could affect a terminal."""
    where = event.path or event.task
    text = f"{where} {_text(event)}" if where else _text(event)
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def styled(line: str, event: RunEvent) -> str:
    """Return the line with the color of the event, for a terminal."""
    code = _colour(event)
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


def _colour(event: RunEvent) -> int:
    match event.type, event.data.get("status"):
        case (_, "failed"):
            return _RED
        case ("task_retry" | "waiting" | "diagnostic", _) | (_, "waiting" | "paused" | "cancelled"):
            return _YELLOW
        case ("run_end", _):
            return _GREEN
        case ("model_chunk" | "retrieval" | "tool_call" | "task_skipped" | "task_start", _):
            return _FAINT
    return 0


def _text(event: RunEvent) -> str:
    data = event.data
    match event.type:
        case "run_start":
            verb = "resumes" if data["resumed"] else "starts"
            return f"{data['workflow']} {verb}, thread {event.thread_id}"
        case "task_start":
            return "starts" if data["attempt"] == 1 else f"starts again, attempt {data['attempt']}"
        case "task_retry":
            return f"failed, next attempt in {data['wait_seconds']:.1f} s: {_error(data)}"
        case "task_skipped":
            because = {"condition": "its condition is false", "route": "no route leads to it"}
            return f"skipped: {because[data['reason']]}"
        case "task_end":
            return _ended(data)
        case "model_chunk":
            return f"| {data['text']}"
        case "model_end":
            return f"said: {data['text']}"
        case "retrieval":
            passages = f"{len(data['matches'])} passages of {data['kb_id']}"
            return f"found {passages} in {data['seconds']:.2f} s ({data['verdict']})"
        case "tool_call":
            arguments = ", ".join(f"{name}={value!r}" for name, value in data["arguments"].items())
            passages = f", {len(data['found'])} passages" if data["found"] else ""
            status = "failed" if data["status"] == "error" else "called"
            return f"{status} {data['tool']}({arguments}) in {data['seconds']:.2f} s{passages}"
        case "custom":
            return f"emits {dict(data)}"
        case "waiting":
            questions = [
                f"{question['path']} waits: {question['prompt'] or ''}"
                for question in data["waiting"]
            ]
            return "; ".join([*questions, *(f"paused before {task}" for task in data["paused"])])
        case "diagnostic":
            return str(data["message"])
        case "run_end":
            return f"run {_ended(data)}"


def _ended(data: Mapping[str, Any]) -> str:
    status = data["status"]
    text = f"{status} after {data['seconds']:.2f} s"
    return f"{text}: {_error(data)}" if "error" in data else text


def _error(data: Mapping[str, Any]) -> str:
    return f"{data['error']['type']}: {data['error']['message']}"
