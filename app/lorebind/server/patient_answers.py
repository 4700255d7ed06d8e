"""Answers without a time limit, for clients that accept server-sent events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lorebind.plain_data import as_data
from lorebind.server.etags import json_response
from lorebind.server.event_streams import (
    MEDIA_TYPE,
    EventStream,
    prefers_events,
    sse,
    while_waiting_for,
)
from lorebind.server.problems import ProblemError, mistake, problem_of
from lorebind_knowledge.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

    from lorebind.server.server import Server

PATIENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"JSON; for clients that prefer `{MEDIA_TYPE}`, an event `result` or "
        "`error`, without a time limit",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            MEDIA_TYPE: {"schema": {"type": "string"}},
        },
    }
}


async def patient_answer(
    request: Request,
    server: Server,
    work: Coroutine[Any, Any, Any],
    show: Callable[[Any], Any] = as_data,
) -> Response:
    """Answer with the result of some work: as JSON, or as one event if the client prefers that.

    JSON must be ready within the time limit of a request; an event may take longer.

    Args:
        request: the request to answer.
        server: the server that received it.
        work: the work, which is cancelled if the client disconnects.
        show: converts the result to plain data.
    """
    if prefers_events(request):
        return EventStream(server, _told(request, server, work, show))
    return json_response(show(await work), headers={"Vary": "Accept"})


async def _told(
    request: Request,
    server: Server,
    work: Coroutine[Any, Any, Any],
    show: Callable[[Any], Any],
) -> AsyncGenerator[bytes, None]:
    task = asyncio.create_task(work)
    problem: ProblemError | None = None
    try:
        async for comment in while_waiting_for(task):
            yield comment
        yield sse("result", show(task.result()))
    except LorebindError as error:
        problem = problem_of(error)
    except asyncio.CancelledError:  # the server stops, or the caller has disconnected
        problem = ProblemError("draining", "the server is about to stop")
    except Exception as error:  # a bug in Lorebind or in the project's code
        server.log_failure("a request failed", error)
        problem = mistake()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if problem is not None:
        yield sse("error", problem.document(request.url.path))
