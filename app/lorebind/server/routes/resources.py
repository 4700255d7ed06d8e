"""`/export` and `/purge`: the project's declarations, and the data of removed ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from lorebind.plain_data import as_data
from lorebind.server.bodies import Body
from lorebind.server.etags import conditional
from lorebind.server.patient_answers import PATIENT, patient_answer
from lorebind.server.server import Admin, Reader, SeenProject, TheServer

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
