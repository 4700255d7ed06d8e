"""`/knowledge-bases`: those that the YAML declares, and those that are created here."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from lorebind.declaration_methods import described
from lorebind.plain_data import as_data
from lorebind.server.answers import KnowledgeBase, PageOf
from lorebind.server.bodies import has_too_many_values
from lorebind.server.etags import check_delete, check_update, conditional, etag_of, json_response
from lorebind.server.event_streams import PATIENT_DELETE, deferred_answer
from lorebind.server.made_here import read_made
from lorebind.server.openapi import IF_ABSENT, IF_MATCH
from lorebind.server.paging import Paging
from lorebind.server.problems import ProblemError
from lorebind.server.server import SeenProject, Server, TheServer, Writer
from lorebind.server.state.knowledge_bases import StoredKB
from lorebind.server.tenant_projects import read_stored
from lorebind_config.declarations.base import within
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.errors import NotFoundError
from lorebind_config.namespace import PROJECT_SCOPE
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_config.reading.loaded import LoadedProject

_MOST_VALUES = 5000
"""Maximum number of values in a declaration, each of which can have several problems."""

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"])


@router.get("", response_model=PageOf[KnowledgeBase])
async def list_knowledge_bases(
    request: Request,
    server: TheServer,
    paging: Paging,
    q: Annotated[str | None, Query(max_length=200, description="A part of the id.")] = None,
    workflow: Annotated[
        str | None, Query(description="Those that this workflow declares; `*`: any workflow.")
    ] = None,
) -> Any:
    """List the knowledge bases of the project in their order, then those that this tenant
    created."""
    config = server.project.config
    if workflow is None:
        rows = list((await _all(server)).values())
    else:
        if workflow != "*":
            config.workflow(workflow)
        rows = [
            _declared(config, kb, owner)
            for kb, owner in config.every_knowledge_base()
            if owner is not None and workflow in (owner, "*")
        ]
    part = (q or "").lower()
    keyed = {_key(number, row): row for number, row in enumerate(rows)}
    return paging.slice_of({key: row for key, row in keyed.items() if part in row["id"].lower()})


@router.get("/{kb_id}", response_model=KnowledgeBase)
async def get_knowledge_base(
    request: Request,
    server: TheServer,
    project: SeenProject,
    kb_id: str,
    workflow: str | None = None,
) -> Any:
    """Return the declaration of a knowledge base, which a workflow may override."""
    if workflow is not None:
        declared, scope = project.config.knowledge_base(kb_id, workflow)
        if scope != PROJECT_SCOPE:
            return conditional(request, _declared(project.config, declared, workflow))
    rows = await _all(server)
    if kb_id not in rows:
        raise project.config.no_knowledge_base(kb_id, rows)
    return conditional(request, rows[kb_id])


@router.put(
    "/{kb_id}",
    response_model=KnowledgeBase,
    responses={201: {"description": "The knowledge base was created", "model": KnowledgeBase}},
    openapi_extra={"parameters": [IF_MATCH, IF_ABSENT]},
)
async def put_knowledge_base(
    request: Request,
    server: TheServer,
    _: Writer,
    kb_id: str,
    body: Annotated[
        dict[str, Any], Body(description="The declaration, with the keys of the YAML.")
    ],
) -> Any:
    """Create a knowledge base, or replace one that was created here, which requires its ETag."""
    _refuse_declared(server.project.config, kb_id)
    if await has_too_many_values(await request.body(), _MOST_VALUES):
        detail = f"a declaration may have at most {_MOST_VALUES:,} values; add documents instead"
        raise ProblemError("too_large", detail)
    declared = await call(read_made, server.project.config, kb_id, body)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    owner = server.project.config.tenant
    stored = StoredKB(owner, kb_id, declared.written(), now)

    def check(before: StoredKB | None) -> None:
        check_update(request, None if before is None else etag_of(_stored(server, before)))

    was_there = await call(server.stored.put, stored, check)
    server.invalidate(owner)
    row = _stored(server, stored)
    headers = {"ETag": f'"{etag_of(row)}"'}
    if was_there:
        return json_response(row, headers=headers)
    return json_response(row, 201, headers | {"Location": request.url.path})


@router.delete(
    "/{kb_id}",
    status_code=204,
    responses=PATIENT_DELETE,
    openapi_extra={"parameters": [IF_MATCH]},
)
async def delete_knowledge_base(
    request: Request, server: TheServer, project: SeenProject, _: Writer, kb_id: str
) -> Response:
    """Delete a knowledge base that was created here, with its index."""
    _refuse_declared(server.project.config, kb_id)

    def check(before: StoredKB) -> None:
        check_delete(request, etag_of(_stored(server, before)))

    owner = server.project.config.tenant
    stored = await call(server.stored.find, owner, kb_id)
    if stored is None:
        raise server.project.config.no_knowledge_base(kb_id, await _all(server))
    check(stored)  # before the index is gone; the row is checked again when it is deleted

    async def deleting() -> None:
        with suppress(NotFoundError):  # its vector database is no longer declared
            await project.knowledge_base(kb_id).adelete()
        await call(server.stored.delete, owner, kb_id, check)
        server.invalidate(owner)

    return await deferred_answer(request, server, deleting())


def _key(number: int, row: dict[str, Any]) -> str:
    """Return a sort key that keeps the order of a list when knowledge bases are created later."""
    # `~` comes after all digits.
    return f"{number:06}" if row["origin"] == "yaml" else f"~{row['id']}"


async def _all(server: Server) -> dict[str, dict[str, Any]]:
    """Return the knowledge bases that the caller's tenant sees, by id; declared ones come first."""
    stored = await call(server.stored.of, server.project.config.tenant)
    config = server.project.config
    declared = {kb.id: _declared(config, kb, None) for kb in config.project.knowledge_bases}
    return declared | {kb.id: _stored(server, kb) for kb in stored if kb.id not in declared}


def _declared(
    config: LoadedProject, kb: KnowledgeBaseDeclaration, workflow: str | None
) -> dict[str, Any]:
    row = as_data(described(config, kb, workflow))
    return {**row, "origin": "yaml", "declared_at": str(kb.position())}


def _stored(server: Server, stored: StoredKB) -> dict[str, Any]:
    row: dict[str, Any] = {"id": stored.id}
    kb = read_stored(stored.declared)
    if kb is not None:
        with suppress(NotFoundError):  # its vector database is no longer declared
            row = as_data(described(server.project.config, kb, None))
    row |= {"knowledge_base": dict(stored.declared)}
    return {**row, "origin": "api", "declared_at": stored.declared_at}


def _refuse_declared(config: LoadedProject, kb_id: str) -> None:
    """Refuse to change a knowledge base that the YAML declares.

    Raises:
        ProblemError: the YAML declares it, so only the file can be changed.
    """
    for kb in config.project.knowledge_bases:
        if kb.id == kb_id:
            where = str(kb.position())
            detail = f"knowledge base {kb_id!r} is declared at {where}; change it there"
            more = {"declared_at": where, "references": _references(config, kb_id)}
            raise ProblemError("declared_in_yaml", detail, more)


def _references(config: LoadedProject, kb_id: str) -> list[str]:
    """Return the locations of the bindings that name a knowledge base."""
    tops = [config.project, *config.agents.values(), *config.workflows.values()]
    return sorted(
        {
            str(binding.position())
            for top in tops
            for binding, _ in within(top)
            if isinstance(binding, BindingDeclaration) and binding.id == kb_id
        }
    )
