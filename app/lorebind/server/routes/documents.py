"""`…/documents`: what a knowledge base holds, to be listed, added to and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.responses import Response

from lorebind.plain_data import as_data
from lorebind.server.answers import Additions, Chunk, PageOf
from lorebind.server.bodies import Body, check_texts, read_json, validated
from lorebind.server.etags import conditional, json_response
from lorebind.server.failures import invalid_request
from lorebind.server.paging import LIMIT, Cursor, CursorParameter, LimitParameter, Page, page_of
from lorebind.server.problems import ProblemError, problem_of
from lorebind.server.server import Reader, SeenProject, TheServer, Writer, check_filled_by_us
from lorebind_knowledge.declarations.sources import DEFAULT_MAX_BYTES
from lorebind_knowledge.documents.changing import of_source, read_document
from lorebind_knowledge.documents.listing import DocumentInfo
from lorebind_knowledge.errors import NotFoundError, UsageError

router = APIRouter(prefix="/knowledge-bases/{kb_id}/documents", tags=["documents"])

State = Annotated[
    Literal["ready", "pending", "failed"] | None, Query(description="Only those in this state.")
]

_MOST = 100
"""How many documents a request may add."""
_ANY_BYTES = "application/octet-stream"


class NewDocument(Body):
    """A document that is to be added."""

    id: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="Its name, with the ending of its format. By default it is known by its text.",
    )
    text: str = Field(min_length=1, description="What it says, at most 4 MiB.")
    title: str | None = Field(None, max_length=2000)
    media_type: str | None = Field(None, max_length=200, pattern=r"^[\w.+-]+/[\w.+-]+$")
    metadata: dict[str, Any] = Field({}, description="Added to the metadata of its passages.")


class NewDocuments(Body):
    """Several of them."""

    documents: list[Any] = Field(min_length=1, max_length=_MOST)


_REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"oneOf": [NewDocument.model_json_schema(), NewDocuments.model_json_schema()]}
        },
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "file": {"type": "string", "format": "binary"},
                    "files": {
                        "type": "array",
                        "items": {"type": "string", "format": "binary"},
                        "description": "Several, instead of `file`; with no other field.",
                    },
                    "id": {"type": "string", "minLength": 1, "maxLength": 500},
                    "title": {"type": "string", "maxLength": 2000},
                },
            }
        },
    },
}


@router.get("", response_model=PageOf[DocumentInfo])
async def list_documents(
    request: Request,
    project: SeenProject,
    _: Reader,
    kb_id: str,
    state: State = None,
    workflow: str | None = None,
    limit: LimitParameter = LIMIT,
    cursor: CursorParameter = None,
) -> Any:
    """The documents of a knowledge base by uri, those that failed among them."""
    at = Cursor.read(cursor)
    place = {"before" if at.backwards else "after": at.key}
    found = await project.adocuments(
        kb_id, state=state, limit=limit + 1, workflow=workflow, **place
    )
    return page_of(found, at, limit, lambda one: str(one.uri)).response(request)


@router.post(
    "",
    status_code=201,
    response_model=DocumentInfo,
    responses={
        200: {"description": "It was there", "model": DocumentInfo | Additions},
        202: {"description": "An ingest is under way", "model": DocumentInfo | Additions},
    },
    openapi_extra={"requestBody": _REQUEST_BODY},
)
async def add_documents(
    request: Request,
    server: TheServer,
    project: SeenProject,
    _: Writer,
    kb_id: str,
    workflow: str | None = None,
) -> Any:
    """Add a document, or several; one with the id of another takes its place.

    They are kept by every ingest until they are deleted. Where another ingest is under way, they
    are `pending` until it has ended.
    """
    check_filled_by_us(project, kb_id, workflow)
    if request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        files = await _files(request)
        if isinstance(files, list):
            return await _add_several(server, project, kb_id, workflow, files, lambda one: one)
        return await _add_one(request, server, project, kb_id, workflow, files)
    data = await read_json(request)
    if isinstance(data, dict) and "documents" in data:
        several = validated(NewDocuments, data).documents
        return await _add_several(server, project, kb_id, workflow, several, _given)
    given = _given(data)
    return await _add_one(request, server, project, kb_id, workflow, given)


@router.delete("", status_code=204)
async def delete_documents(
    project: SeenProject, _: Writer, kb_id: str, workflow: str | None = None
) -> Response:
    """Delete the whole index: every document, those that were added among them, and its runs.

    The knowledge base itself stays; the next ingest begins anew.
    """
    check_filled_by_us(project, kb_id, workflow)
    await project.adelete(kb_id, workflow=workflow)
    return Response(status_code=204)


@router.get("/{doc_id}", response_model=DocumentInfo)
async def get_document(
    request: Request,
    project: SeenProject,
    _: Reader,
    kb_id: str,
    doc_id: str,
    workflow: str | None = None,
) -> Any:
    """A document as of its last ingest."""
    return conditional(request, as_data(await _find(project, kb_id, doc_id, workflow)))


@router.delete(
    "/{doc_id}",
    status_code=204,
    responses={202: {"description": "An ingest is under way", "model": DocumentInfo}},
)
async def delete_document(
    server: TheServer,
    project: SeenProject,
    _: Writer,
    kb_id: str,
    doc_id: str,
    workflow: str | None = None,
) -> Response:
    """Delete a document that was added. Where an ingest is under way, it may be found a while."""
    check_filled_by_us(project, kb_id, workflow)
    found = await _find(project, kb_id, doc_id, workflow)
    if found.origin == "source":
        raise ProblemError("document_of_source", of_source(found.uri, kb_id))
    deleting = project.adelete_document(kb_id, found.uri, workflow=workflow)
    if await server.changes.in_time(deleting) is None:
        return json_response(as_data(found), 202)
    return Response(status_code=204)


@router.get("/{doc_id}/chunks", response_model=PageOf[Chunk])
async def list_chunks(
    request: Request,
    project: SeenProject,
    _: Reader,
    kb_id: str,
    doc_id: str,
    workflow: str | None = None,
    limit: LimitParameter = LIMIT,
    cursor: CursorParameter = None,
) -> Any:
    """The chunks of a document that searches find, in its order."""
    first = _offset(Cursor.read(cursor))
    uri = (await _find(project, kb_id, doc_id, workflow)).uri
    found = await project.achunks(kb_id, uri, limit=limit + 1, after=first, workflow=workflow)
    following = str(Cursor(str(first + limit))) if len(found) > limit else None
    before = str(Cursor(str(max(0, first - limit)))) if first else None
    return Page(list(found[:limit]), following, before).response(request)


def _offset(cursor: Cursor) -> int:
    key = cursor.key or "0"
    if cursor.backwards or not key.isdecimal() or len(key) > 9:
        raise ProblemError("invalid_cursor", "no page of this list has this cursor")
    return int(key)


async def _find(project: Any, kb_id: str, doc_id: str, workflow: str | None) -> Any:
    if "\0" in doc_id:
        raise NotFoundError(f"knowledge base {kb_id!r} has no document {doc_id!r}")
    return await project.adocument(kb_id, doc_id, workflow=workflow)


def _given(data: Any) -> dict[str, Any]:
    """A document as `Project.add_documents` takes it."""
    document = validated(NewDocument, data).model_dump()
    return {name: value for name, value in document.items() if value is not None}


async def _files(request: Request) -> dict[str, Any] | list[dict[str, Any]]:
    """The document of a form, its `file` and perhaps an id and a title; or several `files`."""
    async with request.form(max_files=_MOST, max_fields=3) as form:
        several = form.getlist("files")
        if several and set(form) == {"files"}:
            return [await _document(one, {}) for one in several if isinstance(one, UploadFile)]
        file = form.get("file")
        unknown = [name for name in form if name not in ("file", "id", "title")]
        if not isinstance(file, UploadFile) or unknown:
            where, words = (unknown[0], "unknown field") if unknown else ("file", "send a file")
            raise RequestValidationError([{"loc": ("body", where), "msg": words, "type": "form"}])
        about = {name: str(form[name]) for name in ("id", "title") if form.get(name)}
        return await _document(file, about)


async def _document(file: UploadFile, about: dict[str, str]) -> dict[str, Any]:
    """A file as `Project.add_documents` takes it, with what the form says about it."""
    given: dict[str, Any] = {"id": file.filename, "media_type": file.content_type} | about
    if given["media_type"] == _ANY_BYTES:
        del given["media_type"]  # it says nothing, so that the name or the bytes do
    try:
        check_texts([value for value in given.values() if value])
    except ValueError as error:
        found = {"loc": ("body",), "msg": str(error), "type": "text"}
        raise RequestValidationError([found]) from None
    data = await file.read(DEFAULT_MAX_BYTES + 1)
    return {**{name: value for name, value in given.items() if value}, "data": data}


async def _add_one(
    request: Request, server: Any, project: Any, kb_id: str, workflow: str | None, given: Any
) -> Response:
    added = _checked(given)
    was_there = await _was_there(project, kb_id, added.uri, workflow)
    report = await server.changes.add(project, kb_id, [given], workflow)
    found = await _find(project, kb_id, added.uri, workflow)
    where = {"Location": f"{request.url.path}/{found.id}"}
    return json_response(as_data(found), _status(report, was_there), where)


async def _add_several(
    server: Any,
    project: Any,
    kb_id: str,
    workflow: str | None,
    given: list[Any],
    read: Callable[[Any], dict[str, Any]],
) -> Response:
    """Each has a result of its own: those that can be added are, whatever the others are.

    Beside the results is the report of the ingest, null if it has not ended.
    """
    results: list[dict[str, Any]] = []
    good: dict[int, _Good] = {}
    for number, one in enumerate(given):
        try:
            document = read(one)
            uri = _checked(document).uri
        except RequestValidationError as error:
            results.append(_failed(invalid_request(error)))
        except ProblemError as problem:
            results.append(_failed(problem))
        else:
            was_there = await _was_there(project, kb_id, uri, workflow)
            good[number] = _Good(document, uri, was_there)
            results.append({})
    report = None
    if good:
        documents = [one.given for one in good.values()]
        report = await server.changes.add(project, kb_id, documents, workflow)
    for number, (_, uri, was_there) in good.items():
        found = await _find(project, kb_id, uri, workflow)
        status = _status(report, was_there)
        results[number] = {"status": status, "document": as_data(found)}
    answer = {"results": results, "report": as_data(report)}
    return json_response(answer, 202 if good and report is None else 200)


class _Good(NamedTuple):
    """A document that can be added."""

    given: dict[str, Any]
    uri: str
    was_there: bool


def _failed(problem: ProblemError) -> dict[str, Any]:
    return {"status": problem.status, "error": problem.document()}


def _status(report: Any, was_there: bool) -> int:
    if report is None:
        return 202
    return 200 if was_there else 201


async def _was_there(project: Any, kb_id: str, uri: str, workflow: str | None) -> bool:
    try:
        await project.adocument(kb_id, uri, workflow=workflow)
    except NotFoundError:
        return False
    return True


def _checked(given: Any) -> Any:
    """A document that can be added.

    Raises:
        ProblemError: it is too large, or nothing that can be added.
    """
    size = len(given["data"]) if "data" in given else len(given["text"].encode())
    if size > DEFAULT_MAX_BYTES:
        limit = DEFAULT_MAX_BYTES // 1024**2
        raise ProblemError("too_large", f"a document may have {limit} MiB")
    try:
        return read_document(given, "document")
    except UsageError as error:
        raise problem_of(error) from None
