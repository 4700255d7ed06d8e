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
    """The settings of a purge."""

    dry_run: bool = Field(True, description="Only list the data that would be removed.")


@router.get("/export")
async def export(
    request: Request,
    project: SeenProject,
    _: Reader,
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


@router.post("/purge", responses=PATIENT)
async def purge(
    request: Request, server: TheServer, _: Admin, body: PurgeRequest | None = None
) -> Any:
    """Remove the data of knowledge bases that are neither declared nor created over the API."""
    work = server.project.apurge(dry_run=(body or PurgeRequest()).dry_run)
    return await patient_answer(request, server, work, lambda found: {"items": as_data(found)})
