"""`…/ingest`, `…/reindex`, `…/retry` and `…/runs`: request, watch and cancel ingests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field
from starlette.responses import Response

from lorebind.knowledge_base import KnowledgeBase
from lorebind.server.answers import IngestRun, PageOf
from lorebind.server.bodies import Body
from lorebind.server.etags import conditional, etag_of, json_response
from lorebind.server.event_streams import PATIENT, deferred_answer
from lorebind.server.every_run import find_run, page_of_runs
from lorebind.server.paging import Paging
from lorebind.server.preferences import IdempotencyKey, PreferWait, key_taken, wait_seconds
from lorebind.server.problems import RETRY_SECONDS, ProblemError
from lorebind.server.routes.reading import storable_name
from lorebind.server.server import (
    FilledByUs,
    SeenKnowledgeBase,
    SeenProject,
    TheServer,
    Writer,
    filled_by_us,
    location,
)
from lorebind.server.state.runs import (
    KeyTakenError,
    RequestedRun,
    RequestedRuns,
    UnderWayError,
)
from lorebind_config.errors import NotFoundError, StoreError
from lorebind_knowledge.ingest.progress import SECONDS as PROGRESS_SECONDS

router = APIRouter(prefix="/knowledge-bases/{kb_id}", tags=["ingestion"])

_NAMES = ("failures", "sources", "without_text", "textless_pages", "textless_parts")
"""The fields of a report with an entry for each document or file."""
_ENDED: dict[int | str, dict[str, Any]] = {200: {"description": "It has ended", "model": IngestRun}}

Workflow = Annotated[
    str | None,
    Field(description="The workflow that declares the knowledge base, if a workflow does."),
]


class ReindexRequest(Body):
    """The settings of a reindex."""

    workflow: Workflow = None
    inputs: dict[str, Any] = Field({}, description="The inputs of that workflow.")


class PlanRequest(ReindexRequest):
    """The ingest to plan."""

    strategy: Literal["upsert", "replace"] = "upsert"


class IngestRequest(PlanRequest):
    """The settings of an ingest."""

    only_failed: bool = Field(
        False, description="Read only documents that failed or were interrupted."
    )
    allow_mass_delete: bool = Field(
        False, description="Allow to remove more than half of the documents."
    )


class _RetryRequest(ReindexRequest):
    document: str


async def _starting(
    request: Request,
    server: TheServer,
    project: SeenProject,
    _: Writer,
    kb_id: str,
    idempotency_key: IdempotencyKey = None,
    prefer: PreferWait = None,
) -> Any:
    """Return a function that starts a run, and answers with it."""

    async def start(action: str, body: ReindexRequest) -> Response:
        settings = {"action": action, **body.model_dump()}
        kb = filled_by_us(project.knowledge_base(kb_id, workflow=body.workflow))
        digest = etag_of([request.url.path, settings])
        try:
            run = await server.ingests.request(
                kb.handle.namespace, settings, idempotency_key, digest
            )
        except KeyTakenError as error:
            raise key_taken(error) from None
        except UnderWayError as error:
            raise _in_the_way(error.run) from None
        waits_for = await server.ingests.why_waiting(run)
        headers = location(kb, f"runs/{run.run_id}")
        if seconds := wait_seconds(prefer):
            run = await server.ingests.ended(run, seconds)
            headers["Preference-Applied"] = f"wait={seconds:g}"
            if failed := run.outcome.get("error"):
                more = {"run_id": run.run_id}
                raise ProblemError(failed["code"], failed["detail"], more, headers)
        data = _run_data(run, waits_for="" if run.finished_at else waits_for)
        return json_response(data, 202 if run.finished_at is None else 200, headers)

    return start


Start = Annotated[Callable[[str, ReindexRequest], Awaitable[Response]], Depends(_starting)]


@router.post("/ingest", status_code=202, response_model=IngestRun, responses=_ENDED)
async def ingest(start: Start, body: IngestRequest | None = None) -> Any:
    """Update the index to the current content of the sources. The answer names the run's URL."""
    return await start("ingest", body or IngestRequest())


@router.post("/reindex", status_code=202, response_model=IngestRun, responses=_ENDED)
async def reindex(start: Start, body: ReindexRequest | None = None) -> Any:
    """Rebuild the index in the background, then swap it in. The answer names the run's URL."""
    return await start("reindex", body or ReindexRequest())


@router.post(
    "/documents/{doc_id}/retry", status_code=202, response_model=IngestRun, responses=_ENDED
)
async def retry_document(
    start: Start, kb: FilledByUs, doc_id: str, workflow: str | None = None
) -> Any:
    """Read one document again, such as one that failed. The answer names the run's URL."""
    document = (await kb.adocument(storable_name(kb, doc_id))).uri
    return await start("retry", _RetryRequest(workflow=workflow, document=document))


@router.post("/plan", responses=PATIENT)
async def plan(
    request: Request,
    server: TheServer,
    project: SeenProject,
    _: Writer,
    kb_id: str,
    body: PlanRequest | None = None,
) -> Any:
    """Return what an ingest would do now; with the strategy `replace`, what a reindex would do.

    It reads the sources and changes nothing.
    """
    settings = (body or PlanRequest()).model_dump()
    kb = project.knowledge_base(kb_id, workflow=settings.pop("workflow"))
    return await deferred_answer(request, server, kb.aplan(**settings))


@router.get("/runs", response_model=PageOf[IngestRun])
async def list_runs(
    request: Request,
    server: TheServer,
    kb: SeenKnowledgeBase,
    paging: Paging,
    brief: Annotated[
        bool, Query(description="Omit the names of documents and files from the reports.")
    ] = False,
) -> Any:
    """List all runs, newest first, also those that Python and the command line have started."""
    start = paging.start(RequestedRuns.KEY)
    rows = await page_of_runs(server.ingests.runs, kb, start, paging.limit + 1)
    progress = {run.run_id: await _progress(kb, run) for run in rows if run.finished_at is None}

    def data(run: RequestedRun) -> dict[str, Any]:
        data = _run_data(run, progress.get(run.run_id))
        if brief and (report := data["report"]):
            counts = {key: value for key, value in report.items() if key not in _NAMES}
            data["report"] = counts | {key: [] for key in ("failures", "sources", "without_text")}
        return data

    return paging.page_of(rows, start, RequestedRuns.key, data)


async def _run(server: TheServer, kb: SeenKnowledgeBase, run_id: str) -> RequestedRun:
    return await find_run(server.ingests.runs, kb, run_id)


TheRun = Annotated[RequestedRun, Depends(_run)]
"""The run that the path names."""


@router.get("/runs/{run_id}", response_model=IngestRun)
async def get_run(request: Request, server: TheServer, kb: SeenKnowledgeBase, run: TheRun) -> Any:
    """Return the status of a run and how far it is, and after its end the report or the error."""
    progress = await _progress(kb, run) if run.finished_at is None else None
    waits_for = await server.ingests.why_waiting(run)
    return conditional(request, _run_data(run, progress, waits_for))


@router.delete("/runs/{run_id}", response_model=IngestRun)
async def cancel_run(server: TheServer, kb: SeenKnowledgeBase, _: Writer, run: TheRun) -> Any:
    """Cancel a running ingest. Finished documents are kept.

    One that Python or the command line has started can only be cancelled there.
    """
    if run.finished_at is None:
        if run.was_requested:
            await server.ingests.cancel(run)
            run = await find_run(server.ingests.runs, kb, run.run_id)
        elif run.status != "interrupted":
            detail = f"run {run.run_id} was started by another program; stop it there"
            raise ProblemError("started_elsewhere", detail)
    return json_response(_run_data(run))


@router.get("/runs/{run_id}/events", response_class=EventSourceResponse)
async def run_events(
    server: TheServer,
    kb: SeenKnowledgeBase,
    run: TheRun,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**63)] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of a run as server-sent events named after the extension hooks; then `end`.

    A client that reconnects sends the id of its last event, and gets all events since then, up to
    the last 1024. Of a run that another server works on, or that ended long ago, only
    `ingest_progressed` and `end` are sent. If it waits because there is no worker for it, `waiting`
    says so.
    """
    last = last_event_id or 0
    waits_for = ""
    progress: Mapping[str, int] | None = None
    while True:
        events = server.ingests.events(run)
        if events is not None:
            async for number, hook, data in events.after(last):
                yield ServerSentEvent(id=str(number), event=hook, data=data)
                last = number
        elif (latest := await _progress(kb, run)) not in (None, progress):
            progress = latest
            last = max(last + 1, time.time_ns() // 1000)
            yield ServerSentEvent(id=str(last), event="ingest_progressed", data=progress)
        elif (why := await server.ingests.why_waiting(run)) != waits_for:
            waits_for = why
            last = max(last + 1, time.time_ns() // 1000)
            yield ServerSentEvent(id=str(last), event="waiting", data={"waits_for": why})
        if run.finished_at is not None:
            break
        if run.was_requested:
            run = await server.ingests.ended(run, PROGRESS_SECONDS)
        elif run.status == "interrupted":
            break
        else:
            await asyncio.sleep(PROGRESS_SECONDS)
            run = await find_run(server.ingests.runs, kb, run.run_id)
        if server.is_draining:
            return
    ended = max(last + 1, round((run.finished_at or time.time()) * 1e6))
    yield ServerSentEvent(id=str(ended), event="end", data=_run_data(run))


async def _progress(kb: KnowledgeBase, run: RequestedRun) -> Mapping[str, int] | None:
    """Return how far a run is; None if it has not begun, or if its catalog does not answer."""
    with suppress(NotFoundError, StoreError):
        return (await kb.arun(run.run_id)).progress
    return None


def _in_the_way(run: RequestedRun) -> ProblemError:
    return ProblemError(
        "ingest_running",
        f"an ingest of knowledge base {run.namespace.kb!r} is already running: run {run.run_id}",
        {"run_id": run.run_id},
        {"Retry-After": str(RETRY_SECONDS)},
    )


def _run_data(
    run: RequestedRun, progress: Mapping[str, int] | None = None, waits_for: str = ""
) -> dict[str, Any]:
    """Convert a run to data: its id, status and request, then its progress, report or error."""
    return {
        "run_id": run.run_id,
        "kb_id": run.namespace.kb,
        "origin": "server" if run.was_requested else "elsewhere",
        "status": run.status,
        "request": dict(run.request),
        "requested_at": run.requested_at,
        "finished_at": run.finished_at,
        "waits_for": waits_for or None,
        "progress": progress,
        "report": run.outcome.get("report"),
        "error": run.outcome.get("error"),
    }
