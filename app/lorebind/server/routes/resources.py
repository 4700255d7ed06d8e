"""`/export`, `/purge` and `/changes`: the project's declarations, its leftovers and its files."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field

from lorebind.plain_data import as_data
from lorebind.server.bodies import Body
from lorebind.server.etags import conditional
from lorebind.server.event_streams import MEDIA_TYPE, prefers_events
from lorebind.server.patient_answers import PATIENT, patient_answer
from lorebind.server.problems import ProblemError
from lorebind.server.server import Admin, Reader, SeenProject, TheServer
from lorebind_knowledge.extras import import_extra

router = APIRouter(tags=["project"])


class PurgeRequest(Body):
    """Whether to remove anything."""

    dry_run: bool = Field(True, description="Only list what would be removed.")


@router.get("/export")
async def export(
    request: Request,
    project: SeenProject,
    _: Reader,
    knowledge_base: Annotated[
        str | None, Query(description="Only this one, and what it names.")
    ] = None,
    workflow: Annotated[str | None, Query(description="The workflow that declares it.")] = None,
) -> Any:
    """Embedders, vector databases and knowledge bases as a file for `lorebind knowledge apply`.

    Templates are as they were written, so that no variable of the server is told.
    """
    return conditional(request, await project.aexport(knowledge_base, workflow=workflow))


@router.post("/purge", responses=PATIENT)
async def purge(
    request: Request, server: TheServer, _: Admin, body: PurgeRequest | None = None
) -> Any:
    """Remove what is left of knowledge bases that are neither declared nor made over the API."""
    work = server.project.apurge(dry_run=(body or PurgeRequest()).dry_run)
    return await patient_answer(request, server, work, lambda found: {"items": as_data(found)})


async def _watchfiles(request: Request) -> Any:
    if not prefers_events(request):  # such a client would read an answer that never ends
        raise ProblemError("invalid_header", f"changes are events; send Accept: {MEDIA_TYPE}")
    return import_extra("watchfiles", extra="watch", purpose="watching the files of a server")


@router.get("/changes", response_class=EventSourceResponse)
async def changes(
    server: TheServer,
    _: Reader,
    watchfiles: Annotated[Any, Depends(_watchfiles)],
    every: Annotated[
        float | None,
        Query(ge=1, description="Seconds after which an event comes without a change."),
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Tell when files of the project change, by server-sent events `change`; the first comes soon.

    Changes after that first one are not missed. Files that no source can name are left out.
    """
    from lorebind.watching import WatchedFiles

    files, due = WatchedFiles(server.project.config), 0.0
    async for changed in watchfiles.awatch(files.root, **files.options):
        if server.is_draining:
            return
        if changed or time.monotonic() >= due:
            due = time.monotonic() + (every or math.inf)
            yield ServerSentEvent(event="change", data={"files": len(changed)})
