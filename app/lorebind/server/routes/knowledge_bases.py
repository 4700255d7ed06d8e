"""`/knowledge-bases`: those that the YAML declares, and those that are made here."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from lorebind.server.answers import KnowledgeBase, PageOf
from lorebind.server.etags import check_delete, check_update, conditional, etag_of, json_response
from lorebind.server.made_here import read_made
from lorebind.server.paging import LIMIT, Cursor, CursorParameter, LimitParameter, slice_of
from lorebind.server.problems import ProblemError
from lorebind.server.server import Reader, SeenProject, Server, TheServer, Writer
from lorebind.server.state.knowledge_bases import Made
from lorebind_knowledge.bridge import call
from lorebind_knowledge.declarations.base import within
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.errors import NotFoundError, did_you_mean
from lorebind_knowledge.namespace import current_tenant

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"])


@router.get("", response_model=PageOf[KnowledgeBase])
async def list_knowledge_bases(
    request: Request,
    server: TheServer,
    _: Reader,
    limit: LimitParameter = LIMIT,
    cursor: CursorParameter = None,
    q: Annotated[str | None, Query(max_length=200, description="A part of the id.")] = None,
) -> Any:
    """The knowledge bases of the project, and those that this tenant has made, by id."""
    shown = await _all(server)
    found = [shown[name] for name in sorted(shown) if q is None or q.lower() in name.lower()]
    page = slice_of(found, Cursor.read(cursor), limit, lambda one: str(one["id"]))
    return page.response(request)


@router.get("/{kb_id}", response_model=KnowledgeBase)
async def get_knowledge_base(request: Request, server: TheServer, _: Reader, kb_id: str) -> Any:
    """A knowledge base as it is declared."""
    shown = await _all(server)
    if kb_id not in shown:
        raise _not_found(kb_id, shown)
    return conditional(request, shown[kb_id])


@router.put(
    "/{kb_id}",
    response_model=KnowledgeBase,
    responses={201: {"description": "It was made", "model": KnowledgeBase}},
)
async def put_knowledge_base(
    request: Request,
    server: TheServer,
    caller: Writer,
    kb_id: str,
    body: Annotated[dict[str, Any], Body(description="What the YAML of it would say.")],
) -> Any:
    """Make a knowledge base, or replace one that was made here, which needs its ETag."""
    _refuse_declared(server.project.config, kb_id)
    declared = read_made(server.project.config, kb_id, body)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    made = Made(caller.tenant, kb_id, declared.written(), now)

    def check(before: Made | None) -> None:
        check_update(request, None if before is None else etag_of(_made(before)))

    was_there = await call(server.made.put, made, check)
    shown = _made(made)
    headers = {"ETag": f'"{etag_of(shown)}"'}
    if was_there:
        return json_response(shown, headers=headers)
    return json_response(shown, 201, headers | {"Location": request.url.path})


@router.delete("/{kb_id}", status_code=204)
async def delete_knowledge_base(
    request: Request, server: TheServer, project: SeenProject, caller: Writer, kb_id: str
) -> Response:
    """Delete a knowledge base that was made here, with its index."""
    _refuse_declared(server.project.config, kb_id)

    def check(before: Made) -> None:
        check_delete(request, etag_of(_made(before)))

    made = await call(server.made.find, caller.tenant, kb_id)
    if made is None:
        raise _not_found(kb_id, await _all(server))
    check(made)
    with suppress(NotFoundError):  # its vector database is not declared any more
        await project.adelete(kb_id)
    await call(server.made.delete, caller.tenant, kb_id, check)
    return Response(status_code=204)


async def _all(server: Server) -> dict[str, dict[str, Any]]:
    """What the caller's tenant sees, by id. What the YAML declares comes first."""
    made = await call(server.made.of, current_tenant())
    declared = {kb.id: _declared(kb) for kb in server.project.config.project.knowledge_bases}
    return {one.id: _made(one) for one in made} | declared


def _declared(kb: KnowledgeBaseDeclaration) -> dict[str, Any]:
    return {
        "id": kb.id,
        "origin": "yaml",
        "declared_at": str(kb.position()),
        "knowledge_base": kb.written(),
    }


def _made(made: Made) -> dict[str, Any]:
    return {
        "id": made.id,
        "origin": "api",
        "declared_at": made.declared_at,
        "knowledge_base": dict(made.declared),
    }


def _not_found(kb_id: str, known: dict[str, Any]) -> NotFoundError:
    return NotFoundError(f"there is no knowledge base {kb_id!r}; {did_you_mean(kb_id, known)}")


def _refuse_declared(config: LoadedProject, kb_id: str) -> None:
    """
    Raises:
        ProblemError: the YAML declares it, so that only its file can be changed.
    """
    for kb in config.project.knowledge_bases:
        if kb.id == kb_id:
            where = str(kb.position())
            references = _references(config, kb_id)
            detail = f"knowledge base {kb_id!r} is declared at {where}; change it there"
            more = {"declared_at": where, "references": references}
            raise ProblemError("in_use" if references else "declared_in_yaml", detail, more)


def _references(config: LoadedProject, kb_id: str) -> list[str]:
    """The places of the bindings that name a knowledge base."""
    tops = [config.project, *config.agents.values(), *config.workflows.values()]
    return sorted(
        {
            str(one.position())
            for top in tops
            for one, _ in within(top)
            if isinstance(one, BindingDeclaration) and one.id == kb_id
        }
    )
