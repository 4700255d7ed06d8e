"""`/export`, `/bindings`, `/purge`, `/doctor`, `/workers` and `/changes`: the whole project."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field

from lorebind.plain_data import as_data
from lorebind.server.answers import WorkersOf
from lorebind.server.bodies import Body
from lorebind.server.etags import conditional
from lorebind.server.event_streams import MEDIA_TYPE, PATIENT, deferred_answer, prefers_events
from lorebind.server.problems import ProblemError
from lorebind.server.server import Admin, SeenProject, TheServer
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import call

router = APIRouter(tags=["project"])
bindings = APIRouter(prefix="/bindings", tags=["bindings"])


class PurgeRequest(Body):
    """The settings of a purge."""

    dry_run: bool = Field(True, description="Only list the data that would be removed.")


@router.get("/export")
async def export(
    request: Request,
    project: SeenProject,
    knowledge_base: Annotated[
        str | None,
        Query(description="Export only this knowledge base and the resources it uses."),
    ] = None,
    workflow: Annotated[str | None, Query(description="The workflow that declares it.")] = None,
) -> Any:
    """Export embedders, vector databases and knowledge bases for `lorebind knowledge apply`.

    Templates are not filled in, so the export contains no variables of the server.
    """
    return conditional(request, await project.aexport(knowledge_base, workflow=workflow))


@bindings.get("")
async def explain_bindings(
    request: Request,
    server: TheServer,
    workflow: Annotated[str | None, Query(description="A workflow.")] = None,
    task: Annotated[str | None, Query(description="A task of the workflow.")] = None,
    agent: Annotated[
        str | None, Query(description="An agent. By default, the agent of the task.")
    ] = None,
) -> Any:
    """Return the bindings in effect: every setting with the scope, file and line that set it.

    Without parameters, these are the bindings of the project. All bindings are on one page.
    `unbound_by` is the location of the `knowledge: []` that removes those of outer scopes, or null.
    """
    rows = await server.project.aexplain(workflow=workflow, task=task, agent=agent)
    page = {"items": rows, "next": None, "previous": None, "unbound_by": rows.unbound_by}
    return conditional(request, as_data(page))


@router.post("/purge", responses=PATIENT)
async def purge(
    request: Request, server: TheServer, _: Admin, body: PurgeRequest | None = None
) -> Any:
    """Remove the data of knowledge bases that are neither declared nor created over the API."""
    work = server.project.apurge(dry_run=(body or PurgeRequest()).dry_run)
    return await deferred_answer(request, server, work, lambda orphans: {"items": as_data(orphans)})


@router.get("/doctor", responses=PATIENT)
async def doctor(
    request: Request,
    server: TheServer,
    _: Admin,
    deep: Annotated[
        bool, Query(description="Check every vector, instead of their number and a sample.")
    ] = False,
) -> Any:
    """Try each embedder, vector database, index and model, and return a finding for each.

    Chat models answer with one word. Nothing is written.
    """
    work = server.project.adoctor(deep=deep)
    return await deferred_answer(request, server, work, lambda tried: {"findings": as_data(tried)})


@router.get("/workers", response_model=WorkersOf)
async def list_workers(request: Request, server: TheServer, _: Admin) -> Any:
    """List the live workers of the project: those that embed texts, and those that take ingests.

    They work for all tenants. All of them are on one page.
    """
    embedding = await call(server.project.knowledge.workers)
    return conditional(request, as_data({"items": embedding + await server.ingests.live_workers()}))


async def _watchfiles(request: Request) -> Any:
    if not prefers_events(request):  # such a client would read an answer that never ends
        raise ProblemError("invalid_header", f"changes are events; send Accept: {MEDIA_TYPE}")
    return import_extra("watchfiles", extra="watch", purpose="watching the files of a server")


@router.get("/changes", response_class=EventSourceResponse)
async def changes(
    server: TheServer,
    watchfiles: Annotated[Any, Depends(_watchfiles)],
    every: Annotated[
        float | None,
        Query(ge=1, description="Seconds after which an event comes without a change."),
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Send an event `change` now and whenever files of the project change.

    No change after the first event is missed. Files that no source can name are ignored.
    """
    from lorebind.watching import WatchedFiles

    files, due = WatchedFiles(server.project.config), 0.0
    async for changed in watchfiles.awatch(files.root, **files.options):
        if server.is_draining:
            return
        if changed or time.monotonic() >= due:
            due = time.monotonic() + (every or math.inf)
            yield ServerSentEvent(event="change", data={"files": len(changed)})
