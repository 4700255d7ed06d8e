"""Answers as server-sent events: runs of workflows, and results without a time limit."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from lorebind.plain_data import as_data
from lorebind.server.etags import json_response
from lorebind.server.middleware.guard import LATE
from lorebind.server.problems import ProblemError, problem_of
from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Coroutine,
        Iterator,
        Mapping,
    )

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from lorebind.server.server import Server
    from lorebind_bindings.workflow.events import RunEvent
    from lorebind_bindings.workflow.run_stream import RunStream

T = TypeVar("T")

MEDIA_TYPE = "text/event-stream"

_PING_SECONDS = 15.0
"""Seconds without an event before a comment is sent, so that no proxy closes the connection."""

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


def prefers_events(request: Request) -> bool:
    """Check whether `Accept` prefers `text/event-stream` to JSON by weight or order."""
    places: dict[str, tuple[float, int]] = {}
    for number, part in enumerate(",".join(request.headers.getlist("accept")).split(",")):
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
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
        stopped = ProblemError("draining", "the server is about to stop")
        return patient_events(request, server, work, stopped, show)
    setattr(request.state, LATE, ProblemError("timeout", _LATE))
    data = show(await work)
    headers = {"Vary": "Accept"}
    return Response(None, 204, headers) if data is None else json_response(data, headers=headers)


def patient_events(
    request: Request,
    server: Server,
    work: Coroutine[Any, Any, Any],
    stopped: ProblemError,
    show: Callable[[Any], Any] = as_data,
) -> EventStream:
    """Answer with one event, `result` or `error`, however long the work takes.

    Args:
        request: as for `deferred_answer`.
        server: as for `deferred_answer`.
        work: as for `deferred_answer`.
        stopped: the error if the server stops first.
        show: as for `deferred_answer`.
    """

    async def result() -> AsyncGenerator[bytes, None]:
        yield encode("result", show(await work) or {})

    return events_of(request, server, result(), "a request failed", stopped)


def events_of(
    request: Request,
    server: Server,
    events: AsyncGenerator[bytes, None],
    failure: str,
    stopped: ProblemError,
    show: Callable[[ProblemError], bytes] | None = None,
    close: Callable[[], Awaitable[None]] | None = None,
) -> EventStream:
    """Answer with events, and with an event `error` if one of them cannot be made.

    Args:
        request: the request to answer.
        server: the server that received it.
        events: the encoded events; closed if the client disconnects.
        failure: what failed then, for the log of unexpected errors.
        stopped: the error if the server stops first.
        show: encodes the error; None means an event `error` with the problem document.
        close: awaited at the end, even if the client disconnects before the first event.
    """

    async def content() -> AsyncGenerator[bytes, None]:
        with _problems(server, failure, stopped) as problems:
            following: asyncio.Task[bytes | None] | None = None
            try:
                while True:
                    # A task, because waiting for it until a comment is due must not cancel it.
                    following = asyncio.create_task(_next(events))
                    async for comment in _while_waiting_for(following):
                        yield comment
                    if (event := following.result()) is None:
                        break
                    yield event
            finally:
                await _end(following)
                await events.aclose()
        for problem in problems:
            document = problem.document(request.url.path)
            yield encode("error", document) if show is None else show(problem)

    return EventStream(server, content(), close)


class Ahead(Generic[T]):
    """Items of a generator that produces the first one before it is asked for.

    For example, the model is called while the headers of the answer are sent. `aclose` must be
    called, even if nothing was read.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._first = asyncio.create_task(_next(items))

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        item = await self._first
        while item is not None:
            yield item
            item = await _next(self._items)

    async def aclose(self) -> None:
        await _end(self._first)
        self._first.cancelled() or self._first.exception()  # otherwise, the event loop logs it
        await self._items.aclose()


async def answer_with_events(request: Request, server: Server, run: RunStream) -> EventStream:
    """Answer with the events of a run after it has begun, then `run_end` with the result.

    `run_end` is sent when the thread is free, so that the caller can resume it immediately. If the
    run fails, an event `error` follows. If the caller disconnects, the run is cancelled.

    Raises:
        LorebindError: the run could not begin.
    """
    run_events = run.__aiter__()
    first = await anext(run_events)

    async def events() -> AsyncGenerator[bytes, None]:
        end: dict[str, Any] = {}
        failure: Exception | None = None
        try:
            async with aclosing(run_events):
                event: RunEvent | None = first
                while event is not None:
                    if event.type == "run_end":
                        end = event.as_json()
                    else:
                        yield encode(event.type, event.as_json())
                    event = await anext(run_events, None)
            end["data"]["result"] = as_data(run.result)
        except Exception as error:  # `run_end` comes first
            failure = error
        if end:
            yield encode("run_end", end)
        if failure is not None:
            raise failure

    def show(problem: ProblemError) -> bytes:
        document = problem.document(request.url.path)
        return encode("error", {"thread_id": run.thread_id, **document})

    return events_of(request, server, events(), "a run failed", stopped(run.thread_id), show)


@contextmanager
def _problems(server: Server, failure: str, stopped: ProblemError) -> Iterator[list[ProblemError]]:
    """Catch the error of a block, as its only problem.

    Args:
        server: logs an unexpected error.
        failure: what failed then, for the log.
        stopped: the problem if the block is cancelled: the server stops, or the caller has
            disconnected.
    """
    problems: list[ProblemError] = []
    try:
        yield problems
    except asyncio.CancelledError:
        problems.append(stopped)
    except Exception as error:  # a bug in Lorebind or in the project's code
        if not isinstance(error, LorebindError | ProblemError):
            server.log_failure(failure, error)
        problems.append(problem_of(error))


class Stream(StreamingResponse):
    """An answer in parts, until they end or the caller disconnects."""

    def __init__(
        self,
        server: Server,
        content: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str],
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._server, self._content, self._close = server, content, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientDisconnect):
                await self._server.connected.do(receive, self.stream_response(send))
        finally:
            if self._close is not None:
                await self._close()

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        finally:
            await self._content.aclose()


class EventStream(Stream):
    """A stream of events."""

    def __init__(
        self,
        server: Server,
        content: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        # Without `X-Accel-Buffering`, nginx would hold events back until it has many.
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Vary": "Accept"}
        super().__init__(server, content, MEDIA_TYPE, headers, close)


def stopped(thread_id: str) -> ProblemError:
    """Return the problem of a run that was cancelled because the server stops."""
    detail = "the server stops and cancelled the run; finished tasks are kept: resume the thread"
    return ProblemError("draining", detail, {"thread_id": thread_id}, {"Retry-After": "5"})


async def _next(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)


async def _end(task: asyncio.Task[Any] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait({task})


async def _while_waiting_for(task: asyncio.Task[Any]) -> AsyncGenerator[bytes, None]:
    """Yield comments to send until a task has ended."""
    while not (await asyncio.wait({task}, timeout=_PING_SECONDS))[0]:
        yield KEEPALIVE_COMMENT


def encode(kind: str, data: Mapping[str, Any]) -> bytes:
    """Encode a server-sent event; its id is the `seq` of the data."""
    number = data.get("seq")
    return format_sse_event(
        data_str=json.dumps(data), event=kind, id=None if number is None else str(number)
    )
