"""`/bindings`: the bindings in effect, and the files that declare them."""

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
    workflow: Annotated[str | None, Query(description="A workflow.")] = None,
    task: Annotated[str | None, Query(description="A task of the workflow.")] = None,
    agent: Annotated[
        str | None, Query(description="An agent. By default, the agent of the task.")
    ] = None,
) -> Any:
    """Return the bindings in effect: every setting with the scope, file and line that set it.

    Without parameters, these are the bindings of the project. All bindings are on one page.
    """
    found = await server.project.aexplain(workflow=workflow, task=task, agent=agent)
    return Page(found, None, None).response(request)
