"""`/workflows`: run, stream and resume workflows, and inspect the threads of their runs."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, get_args
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import Response

from lorebind.plain_data import as_data
from lorebind.server.bodies import Body, Whole
from lorebind.server.etags import conditional, json_response
from lorebind.server.event_streams import (
    MEDIA_TYPE,
    answer_with_events,
    prefers_events,
    stopped,
)
from lorebind.server.middleware.guard import LATE
from lorebind.server.paging import Paging
from lorebind.server.preferences import RESPOND_ASYNC, Background, InBackground
from lorebind.server.problems import ProblemError, problem_of
from lorebind.server.request_tasks import while_connected
from lorebind.server.routes.workflow_runs import begin_in_background
from lorebind.server.server import WORKFLOWS, Server, TheServer, Writer
from lorebind.server.workflow_runs import WorkflowRequest
from lorebind_bindings import RunResult, ThreadInfo
from lorebind_bindings.inputs import check_inputs
from lorebind_bindings.workflow.events import EventType
from lorebind_bindings.workflow.how_to_resume import served_at
from lorebind_config.errors import UsageError, did_you_mean


async def _say_where() -> None:
    """Let errors name the request that resumes a thread."""
    served_at.set(WORKFLOWS)


router = APIRouter(prefix="/workflows", tags=["workflows"], dependencies=[Depends(_say_where)])

ThreadId = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="Any text that names the thread; if omitted, one is generated. A replay "
        "requires a new one.",
    ),
]
_BEFORE = "Ids of tasks before which the run is paused."


class RunRequest(Body):
    """The arguments of a run."""

    input: dict[str, Any] = Field({}, description="The inputs that the workflow declares.")
    thread_id: ThreadId = None
    interrupt_before: list[str] = Field([], max_length=1000, description=_BEFORE)


class ResumeRequest(Body):
    """The arguments of resuming a thread."""

    answers: dict[str, Any] = Field(
        {},
        description="Answers for waiting tasks, by id or path. Tasks without one keep waiting.",
    )
    interrupt_before: list[str] = Field([], max_length=1000, description=_BEFORE)


class ReplayRequest(Body):
    """The arguments of a replay."""

    step: Annotated[
        int, Field(ge=0, description="Tasks that ended up to this step do not run again."), Whole
    ]
    thread_id: ThreadId = None


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

_BACKGROUND = {"$ref": "#/components/schemas/WorkflowRun"}

_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": [*get_args(EventType), "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}

_RUN_JSON: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The run has completed",
        "content": {"application/json": {"schema": {"anyOf": [_RESULT, _BACKGROUND]}}},
    },
    202: {
        "description": "The run waits for answers, or is paused: see `waiting` and `paused`; or, "
        f"with `Prefer: {RESPOND_ASYNC}`, the run in the background has begun",
        "content": {"application/json": {"schema": {"anyOf": [_RESULT, _BACKGROUND]}}},
        "headers": {
            "Location": {
                "description": "The thread, or the run in the background",
                "schema": {"type": "string"},
            }
        },
    },
}

_RUN: dict[int | str, dict[str, Any]] = {
    **_RUN_JSON,
    200: {
        "description": "The run has completed; or, if `Accept` prefers them, its events. The last "
        "is `run_end`, whose data has the `result`. If the run fails, an `error` follows: a "
        "problem document",
        "content": {**_RUN_JSON[200]["content"], MEDIA_TYPE: {"itemSchema": _EVENT}},
    },
}


@router.get("")
async def list_workflows(
    request: Request,
    server: TheServer,
    paging: Paging,
) -> Any:
    """List the workflows of the project in their order, with their inputs and tasks."""
    workflows = await server.project.aworkflows()
    return paging.slice_of({f"{number:06}": row for number, row in enumerate(workflows)})


@router.get("/{workflow_id}")
async def get_workflow(request: Request, server: TheServer, workflow_id: str) -> Any:
    """Return the graph of a workflow: its tasks, and the tasks that may follow each of them."""
    return conditional(request, as_data(await server.project.aworkflow_outline(workflow_id)))


@router.post("/{workflow_id}/runs", responses=_RUN)
async def run_workflow(
    request: Request,
    server: TheServer,
    _: Writer,
    background: InBackground,
    workflow_id: str,
    body: RunRequest | None = None,
) -> Any:
    """Run a workflow: start a new thread, or a new turn of a thread that has completed.

    If you disconnect, the run is cancelled, unless it runs in the background; it can be resumed.
    """
    body = body or RunRequest()
    _check_tasks(server, workflow_id, body.interrupt_before, body.input)
    thread_id = _new_id(body.thread_id)
    arguments = {"inputs": body.input, "interrupt_before": body.interrupt_before}
    run_request = WorkflowRequest(workflow_id, thread_id, "run", arguments)
    return await _answer(request, server, run_request, body, background)


@router.get("/{workflow_id}/threads")
async def list_threads(
    request: Request,
    server: TheServer,
    workflow_id: str,
    paging: Paging,
) -> Any:
    """List the tenant's threads of a workflow; the one with the latest turn comes first."""
    start, limit = paging.start(), paging.limit + 1
    before, after = start.bounds  # by turn, of which the largest comes first
    threads = await server.project.athreads(workflow_id, limit=limit, before=before, after=after)
    threads.sort(key=_turn, reverse=True)
    return paging.page_of(threads, start, _turn, _thread_data)


@router.get("/{workflow_id}/threads/{thread_id:path}")
async def get_thread(request: Request, server: TheServer, workflow_id: str, thread_id: str) -> Any:
    """Return a thread: its status, open questions, finished tasks and stored state."""
    project = server.project
    info = await project.athread(workflow_id, thread_id)
    state = await project.astate(workflow_id, thread_id)
    output = state.pop("output", None)
    history = await project.ahistory(workflow_id, thread_id)
    data = {
        **_thread_data(info),
        "output": output if info.status == "completed" else None,
        "state": state,
        "history": history,
    }
    return conditional(request, data)


@router.post("/{workflow_id}/threads/{thread_id:path}/resume", responses=_RUN)
async def resume_thread(
    request: Request,
    server: TheServer,
    _: Writer,
    background: InBackground,
    workflow_id: str,
    thread_id: str,
    body: ResumeRequest | None = None,
) -> Any:
    """Resume a thread that waits, is paused, failed or was interrupted.

    Finished tasks do not run again.
    """
    body = body or ResumeRequest()
    _check_tasks(server, workflow_id, body.interrupt_before)
    arguments = {"answers": body.answers, "interrupt_before": body.interrupt_before}
    run_request = WorkflowRequest(workflow_id, thread_id, "resume", arguments)
    return await _answer(request, server, run_request, body, background)


@router.post("/{workflow_id}/threads/{thread_id:path}/replay", responses=_RUN)
async def replay_thread(
    request: Request,
    server: TheServer,
    _: Writer,
    background: InBackground,
    workflow_id: str,
    thread_id: str,
    body: ReplayRequest,
) -> Any:
    """Run the last turn of a thread again after a step, as a new thread.

    If you disconnect, the run is cancelled, unless it runs in the background; the new thread can be
    resumed.
    """
    new_id = _new_id(body.thread_id)
    arguments = {"thread_id": thread_id, "step": body.step}
    run_request = WorkflowRequest(workflow_id, new_id, "replay", arguments)
    return await _answer(request, server, run_request, body, background)


async def _answer(
    request: Request,
    server: Server,
    run_request: WorkflowRequest,
    body: Body,
    background: Background | None,
) -> Response:
    """Answer with a run in the background, with the events of a run, or with its result as JSON."""
    if background is not None:
        return await begin_in_background(request, server, run_request, body, background)
    run, thread_id = run_request.stream(server.project), run_request.thread_id
    if prefers_events(request):
        return await answer_with_events(request, server, run)
    place = f"{WORKFLOWS}/{quote(run_request.workflow)}/threads/{quote(thread_id, safe='')}"
    late = (
        "the run took too long for one answer and was cancelled; finished tasks are kept: resume "
        f"it with POST {place}/resume and Prefer: {RESPOND_ASYNC}, for as long as it takes"
    )
    setattr(request.state, LATE, ProblemError("timeout", late, {"thread_id": thread_id}))

    def answer(result: RunResult) -> Response:
        headers = {"Vary": "Accept"}
        if result.status == "completed":
            return json_response(as_data(result), headers=headers)
        return json_response(as_data(result), 202, headers | {"Location": place})

    return await while_connected(
        request, server.connected, run.unread(), stopped(thread_id), answer
    )


def _check_tasks(
    server: Server, workflow_id: str, names: list[str], inputs: dict[str, Any] | None = None
) -> None:
    """Check that a workflow has these tasks.

    Raises:
        NotFoundError: no such workflow.
        ProblemError: the workflow has no such task; the problem includes those of the inputs.
    """
    workflow = server.project.config.workflow(workflow_id)
    task_ids = [task.id for task in workflow.every_task()]
    errors = [
        {
            "pointer": f"/interrupt_before/{number}",
            "message": f"workflow {workflow_id!r} has no task {name!r}",
            "hint": did_you_mean(name, task_ids),
        }
        for number, name in enumerate(names)
        if name not in task_ids
    ]
    if errors:
        try:
            check_inputs(workflow, inputs or {}, need_all=inputs is not None)
        except UsageError as error:
            errors += problem_of(error).more["errors"]
        detail = "the request is not valid; see errors"
        raise ProblemError("invalid_request", detail, {"errors": errors})


def _new_id(thread_id: str | None) -> str:
    return uuid.uuid4().hex if thread_id is None else thread_id


def _turn(thread: ThreadInfo) -> str:
    return thread.turn


def _thread_data(thread: ThreadInfo) -> dict[str, Any]:
    """Convert a thread to data without its fingerprint and its position in the list."""
    return {
        "thread_id": thread.thread_id,
        "workflow": thread.workflow,
        "status": thread.status,
        "updated": thread.updated,
        "waiting": thread.waiting,
        "paused": thread.paused,
        "error": thread.error,
        "command": thread.command,
    }
