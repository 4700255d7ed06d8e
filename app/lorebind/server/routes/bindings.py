"""`/bindings`: which knowledge is bound where, and which file says so."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from lorebind.server.paging import Page
from lorebind.server.server import Reader, TheServer

router = APIRouter(prefix="/bindings", tags=["bindings"])


@router.get("")
async def explain_bindings(
    request: Request,
    server: TheServer,
    _: Reader,
    workflow: Annotated[str | None, Query(description="Seen from this one.")] = None,
    task: Annotated[str | None, Query(description="Of the workflow.")] = None,
    agent: Annotated[str | None, Query(description="The task's, if left out.")] = None,
) -> Any:
    """What is bound at a place: every setting, and the scope, file and line that set it.

    Without a place it is what the project itself binds. All bindings are on one page.
    """
    found = await server.project.aexplain(workflow=workflow, task=task, agent=agent)
    return Page(found, None, None).response(request)
