"""Stream the runs of workflows as server-sent events."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from lorebind.plain_data import as_data
from lorebind.server.problems import ProblemError, mistake, problem_of
from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from lorebind.server.server import Server
    from lorebind_bindings.workflow.events.events import RunEvent
    from lorebind_bindings.workflow.run_stream import RunStream

MEDIA_TYPE = "text/event-stream"

_PING_SECONDS = 15.0
"""Seconds without an event before a comment is sent, so that no proxy closes the connection."""


def prefers_events(request: Request) -> bool:
    """Check whether `Accept` prefers `text/event-stream` to JSON by weight or order."""
    places: dict[str, tuple[float, int]] = {}
    for number, part in enumerate(",".join(request.headers.getlist("accept")).split(",")):
        kind, *parameters = (one.strip().lower() for one in part.split(";"))
        places.setdefault(kind, (_weight(parameters), -number))
    events = places.get(MEDIA_TYPE, (0.0, 0))
    json_ = places.get("application/json")
    if json_ is None:
        rest = places.get("application/*") or places.get("*/*") or (0.0, 0)
        return events[0] > 0 and events[0] >= rest[0]
    return events[0] > 0 and events > json_


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            with suppress(ValueError):
                return float(parameter.removeprefix("q="))
    return 1.0


async def answer_with_events(request: Request, server: Server, run: RunStream) -> EventStream:
    """Answer with the events of a run after it has begun.

    Raises:
        LorebindError: the run could not begin.
    """
    events = run.__aiter__()
    first = await anext(events)
    return EventStream(server, _told(request, server, run, first, events))


class EventStream(StreamingResponse):
    """A stream of events until they end or the caller disconnects."""

    media_type = MEDIA_TYPE

    def __init__(self, server: Server, content: AsyncGenerator[bytes, None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Vary": "Accept"}
        super().__init__(content, headers=headers)
        self._server, self._content = server, content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await self._server.connected.do(receive, self.stream_response(send))

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        finally:
            await self._content.aclose()


async def _told(
    request: Request,
    server: Server,
    run: RunStream,
    first: RunEvent,
    events: AsyncGenerator[RunEvent, None],
) -> AsyncGenerator[bytes, None]:
    """Yield the events, then `run_end` with the result, or `run_end` and an `error`.

    `run_end` is sent when the thread is free, so that the caller can resume it immediately. Closing
    the generator cancels the run.
    """
    event: RunEvent | None = first
    following: asyncio.Task[RunEvent | None] | None = None
    end: dict[str, Any] = {}
    problem: ProblemError | None = None
    try:
        while event is not None:
            if event.type == "run_end":
                end = event.as_json()
            else:
                yield sse(event.type, event.as_json())
            following = asyncio.create_task(_next(events))
            async for comment in while_waiting_for(following):
                yield comment
            event = following.result()
        end["data"]["result"] = as_data(run.result)
    except LorebindError as error:
        problem = problem_of(error)
    except asyncio.CancelledError:  # the server stops, or the caller has disconnected
        problem = stopped(run.thread_id)
    except Exception as error:  # a bug in Lorebind or in the project's code
        server.log_failure("a run failed", error)
        problem = mistake()
    finally:
        if following is not None and not following.done():
            following.cancel()
            await asyncio.wait({following})
        await events.aclose()
    if end:
        yield sse("run_end", end)
    if problem is not None:
        document = problem.document(request.url.path)
        yield sse("error", {"thread_id": run.thread_id, **document})


def stopped(thread_id: str) -> ProblemError:
    """Return the problem of a run that was cancelled because the server stops."""
    detail = "the server stops and cancelled the run; finished tasks are kept: resume the thread"
    return ProblemError("draining", detail, {"thread_id": thread_id}, {"Retry-After": "5"})


async def _next(events: AsyncGenerator[RunEvent, None]) -> RunEvent | None:
    return await anext(events, None)


async def while_waiting_for(task: asyncio.Task[Any]) -> AsyncGenerator[bytes, None]:
    """Yield comments to send until a task has ended."""
    while not (await asyncio.wait({task}, timeout=_PING_SECONDS))[0]:
        yield KEEPALIVE_COMMENT


def sse(kind: str, data: Mapping[str, Any]) -> bytes:
    """Encode a server-sent event; its id is the `seq` of the data."""
    number = data.get("seq")
    return format_sse_event(
        data_str=json.dumps(data), event=kind, id=None if number is None else str(number)
    )
