"""`/bindings`: the bindings in effect, and the files that declare them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from lorebind.plain_data import as_data
from lorebind.server.etags import conditional
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
    `unbound_by` is the location of the `knowledge: []` that removes those of outer scopes, or null.
    """
    project = server.project
    found = await project.aexplain(workflow=workflow, task=task, agent=agent)
    unbound_by = await project.aunbound_by(workflow=workflow, task=task, agent=agent)
    page = {"items": found, "next": None, "previous": None, "unbound_by": unbound_by}
    return conditional(request, as_data(page))
