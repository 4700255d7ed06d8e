"""Answers that take as long as they take, for callers that wait for events."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from lorebind.plain_data import as_data
from lorebind.server.etags import json_response
from lorebind.server.event_streams import MEDIA_TYPE, EventStream, prefers_events
from lorebind.server.problems import ProblemError, mistake, problem_of
from lorebind_knowledge.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

    from lorebind.server.server import Server

log = logging.getLogger("lorebind.server")

_PING_SECONDS = 15.0

PATIENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"As JSON; to one who prefers `{MEDIA_TYPE}`, as an event `result`, or "
        "`error`, for as long as it takes",
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
    """What work gives, as JSON or, if the caller prefers that, as one event.

    JSON has to come before the time of a request is over; events may take longer.

    Args:
        request, server: who asks.
        work: it is cancelled if the caller goes away.
        show: makes plain data of what it gives.
    """
    if prefers_events(request):
        return EventStream(server, _told(request, work, show))
    return json_response(show(await work), headers={"Vary": "Accept"})


async def _told(
    request: Request, work: Coroutine[Any, Any, Any], show: Callable[[Any], Any]
) -> AsyncGenerator[bytes, None]:
    task = asyncio.create_task(work)
    problem: ProblemError | None = None
    try:
        while not (await asyncio.wait({task}, timeout=_PING_SECONDS))[0]:
            yield KEEPALIVE_COMMENT
        yield _event("result", show(task.result()))
    except LorebindError as error:
        problem = problem_of(error)
    except asyncio.CancelledError:  # the server stops, or nobody reads this any more
        problem = ProblemError("draining", "the server is about to stop")
    except Exception as error:
        log.error("a request failed", exc_info=error)
        problem = mistake()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if problem is not None:
        yield _event("error", problem.document(request.url.path))


def _event(kind: str, data: Any) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=kind)
