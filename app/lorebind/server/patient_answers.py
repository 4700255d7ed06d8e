"""Answers without a time limit, for clients that accept server-sent events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from lorebind.plain_data import as_data
from lorebind.server.doors.door import LATE
from lorebind.server.etags import json_response
from lorebind.server.event_streams import (
    MEDIA_TYPE,
    EventStream,
    prefers_events,
    sse,
    while_waiting_for,
)
from lorebind.server.problems import ProblemError, mistake, problem_of
from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from starlette.requests import Request

    from lorebind.server.server import Server

_LATE = (
    "the request took too long for one answer and was cancelled; "
    f"to wait for as long as it takes, send: Accept: {MEDIA_TYPE}"
)
_EVENTS: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string"}}}

PATIENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"JSON; for clients that prefer `{MEDIA_TYPE}`, an event `result` or "
        "`error`, without a time limit",
        "content": {"application/json": {"schema": {"type": "object"}}, **_EVENTS},
    }
}

PATIENT_DELETE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"For clients that prefer `{MEDIA_TYPE}`: an event `result`, whose data is "
        "empty, or `error`, without a time limit",
        "content": _EVENTS,
    }
}


async def deferred_answer(
    request: Request,
    server: Server,
    work: Coroutine[Any, Any, Any],
    show: Callable[[Any], Any] = as_data,
) -> Response:
    """Answer with the result of some work: as JSON, or as one event if the client prefers that.

    JSON must be ready within the time limit of a request; an event may take longer. A result of
    None is an answer without a body.

    Args:
        request: the request to answer.
        server: the server that received it.
        work: the work, which is cancelled if the client disconnects.
        show: converts the result to plain data.
    """
    if prefers_events(request):
        return patient_events(request, server, work, show)
    setattr(request.state, LATE, ProblemError("timeout", _LATE))
    shown = show(await work)
    headers = {"Vary": "Accept"}
    return Response(None, 204, headers) if shown is None else json_response(shown, headers=headers)


def patient_events(
    request: Request,
    server: Server,
    work: Coroutine[Any, Any, Any],
    show: Callable[[Any], Any] = as_data,
    stopped: ProblemError | None = None,
) -> EventStream:
    """Answer with one event, `result` or `error`, however long the work takes.

    Args:
        request: as for `deferred_answer`.
        server: as for `deferred_answer`.
        work: as for `deferred_answer`.
        show: as for `deferred_answer`.
        stopped: the error if the server stops first; None uses a general one.
    """
    return EventStream(server, _told(request, server, work, show, stopped))


async def _told(
    request: Request,
    server: Server,
    work: Coroutine[Any, Any, Any],
    show: Callable[[Any], Any],
    stopped: ProblemError | None,
) -> AsyncGenerator[bytes, None]:
    task = asyncio.create_task(work)
    problem: ProblemError | None = None
    try:
        async for comment in while_waiting_for(task):
            yield comment
        yield sse("result", show(task.result()) or {})
    except LorebindError as error:
        problem = problem_of(error)
    except asyncio.CancelledError:  # the server stops, or the caller has disconnected
        problem = stopped or ProblemError("draining", "the server is about to stop")
    except Exception as error:  # a bug in Lorebind or in the project's code
        server.log_failure("a request failed", error)
        problem = mistake()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if problem is not None:
        yield sse("error", problem.document(request.url.path))
