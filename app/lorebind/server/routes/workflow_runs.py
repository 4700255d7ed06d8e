"""`/workflows/{id}/runs/…`: runs in the background: begin, watch and cancel them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from lorebind.server.answers import PageOf, WorkflowRun
from lorebind.server.bodies import Body
from lorebind.server.etags import conditional, etag_of, json_response
from lorebind.server.paging import Paging
from lorebind.server.preferences import RESPOND_ASYNC, Background, key_taken
from lorebind.server.server import WORKFLOWS, Server, TheServer, Writer
from lorebind.server.state.runs import KeyTakenError, RequestedRun, RequestedRuns
from lorebind.server.workflow_runs import WorkflowRequest
from lorebind_bindings.workflow.events import VERSION, EventType
from lorebind_config.errors import NotFoundError
from lorebind_knowledge.plumbing.bridge import call

router = APIRouter(prefix="/workflows/{workflow_id}/runs", tags=["workflows"])


async def begin_in_background(
    request: Request,
    server: Server,
    run_request: WorkflowRequest,
    body: Body,
    background: Background,
) -> Response:
    """Begin a run, and answer with it when it has begun, or as the client prefers.

    Args:
        request: the request.
        server: the server that received it.
        run_request: what to run.
        body: the body; requests with the same key must have equal ones.
        background: the preferences of the client.

    Raises:
        ProblemError: the key was used with another request.
        LorebindError: the run could not begin.
    """
    digest = etag_of([request.url.path, body.model_dump()])
    runs = server.workflow_runs
    try:
        run = await runs.begin(run_request, background.key, digest)
    except KeyTakenError as error:
        raise key_taken(error) from None
    applied = RESPOND_ASYNC
    if seconds := background.seconds:
        run = await runs.ended(run, seconds)
        applied += f", wait={seconds:g}"
    place = f"{WORKFLOWS}/{quote(run_request.workflow)}/runs/{run.run_id}"
    headers = {"Location": place, "Preference-Applied": applied}
    return json_response(_run_data(run), 202 if run.finished_at is None else 200, headers)


@router.get("", response_model=PageOf[WorkflowRun])
async def list_background_runs(
    request: Request, server: TheServer, workflow_id: str, paging: Paging
) -> Any:
    """List the runs in the background of a workflow, newest first."""
    runs, start = server.workflow_runs, paging.start(RequestedRuns.KEY)
    namespace = runs.namespace(workflow_id)
    rows = await call(runs.runs.page, namespace, *start.bounds, paging.limit + 1)
    return paging.page_of(rows, start, RequestedRuns.key, _run_data)


async def _run(server: TheServer, workflow_id: str, run_id: str) -> RequestedRun:
    runs = server.workflow_runs
    namespace = runs.namespace(workflow_id)
    run: RequestedRun | None = await call(lambda: runs.runs.find(namespace, run_id))
    if run is None:
        raise NotFoundError(f"workflow {workflow_id!r} has no run {run_id!r}")
    return run


TheRun = Annotated[RequestedRun, Depends(_run)]
"""The run that the path names."""


@router.get("/{run_id}", response_model=WorkflowRun)
async def get_background_run(request: Request, run: TheRun) -> Any:
    """Return the status of a run in the background, and after its end the result or the error."""
    return conditional(request, _run_data(run))


@router.delete("/{run_id}", response_model=WorkflowRun)
async def cancel_background_run(server: TheServer, _: Writer, workflow_id: str, run: TheRun) -> Any:
    """Cancel a run. Finished tasks are kept, and the thread can be resumed.

    A function that cannot be interrupted may continue for a while; its thread stays `running`.
    """
    if run.finished_at is None:
        await server.workflow_runs.cancel(run)
        run = await _run(server, workflow_id, run.run_id)
    return json_response(_run_data(run))


@router.get("/{run_id}/events", response_class=EventSourceResponse)
async def follow_background_run(
    server: TheServer,
    run: TheRun,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of a run from the first one; the last is `run_end`, with the `result`.

    If the run fails, an `error` follows: a problem document. A client that reconnects sends the id
    of its last event, and gets all events since then. A `diagnostic` says how many are no longer
    stored.
    """
    number = last_event_id or 0
    async for item in server.workflow_runs.follow(run, number):
        if isinstance(item, RequestedRun):
            last = await server.workflow_runs.last_number(item)
            for event in _end_of(item, last + 1):
                if int(event.id or 0) > number:
                    yield event
            return
        if (lost := item.number - number - 1) > 0:
            notice = {"message": f"{lost} events are no longer stored", "dropped": lost}
            yield _event(run, "diagnostic", item.number - 1, notice)
        number = item.number
        yield ServerSentEvent(id=str(number), event=item.kind, raw_data=item.text)


def _end_of(run: RequestedRun, number: int) -> list[ServerSentEvent]:
    """Return the last events of a run that has ended."""
    seconds = round((run.finished_at or run.requested_at) - run.requested_at, 4)
    data = {"status": run.status, "seconds": seconds}
    error, result = run.outcome.get("error"), run.outcome.get("result")
    if result is not None:
        data |= {"status": result["status"], "result": result}
    if error is not None:
        data["error"] = {"type": error["code"], "message": error["detail"]}
    data |= run.outcome.get("run_end", {})  # of a run whose server was killed, there is none
    if error is None:
        return [_event(run, "run_end", number, data)]
    document = json.dumps({"thread_id": run.request["thread_id"], **error})
    failure = ServerSentEvent(id=str(number + 1), event="error", raw_data=document)
    return [_event(run, "run_end", number, data), failure]


def _event(
    run: RequestedRun, kind: EventType, number: int, data: Mapping[str, Any]
) -> ServerSentEvent:
    event = {
        "type": kind,
        "version": VERSION,
        "seq": number,
        "thread_id": run.request["thread_id"],
        "task": "",
        "path": "",
        "data": data,
    }
    return ServerSentEvent(id=str(number), event=kind, raw_data=json.dumps(event))


def _run_data(run: RequestedRun) -> dict[str, Any]:
    """Convert a run to data: its id, status and thread, then its result or error."""
    result = run.outcome.get("result")
    return {
        "run_id": run.run_id,
        "workflow": run.namespace.kb,
        "thread_id": run.request["thread_id"],
        "action": run.request["action"],
        # Between two servers, it is about to be continued.
        "status": "running" if run.status == "interrupted" else run.status,
        "requested_at": run.requested_at,
        "finished_at": run.finished_at,
        "output": None if result is None else result["output"],
        "result": result,
        "error": run.outcome.get("error"),
    }
