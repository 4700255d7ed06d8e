"""`…/documents`: list, add and delete the documents of a knowledge base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.responses import Response

from lorebind.knowledge_base import KnowledgeBase
from lorebind.plain_data import as_data
from lorebind.server.answers import Additions, Chunk, PageBoxes, PageOf
from lorebind.server.bodies import Body, read_json, validated
from lorebind.server.etags import conditional, json_response
from lorebind.server.event_streams import PATIENT, PATIENT_DELETE, deferred_answer, prefers_events
from lorebind.server.failures import invalid_request
from lorebind.server.new_documents import (
    REQUEST_BODY,
    NewDocuments,
    checked,
    given_as_files,
    given_as_json,
    refused,
)
from lorebind.server.paging import Cursor, Paging
from lorebind.server.problems import ProblemError
from lorebind.server.routes.reading import FiltersInUrl, storable_name
from lorebind.server.server import (
    FilledByUs,
    SeenKnowledgeBase,
    SeenProject,
    Server,
    TheServer,
    Writer,
    filled_by_us,
    location,
)
from lorebind.server.state.runs import RequestedRun
from lorebind_config.declarations.retrieval import Filters
from lorebind_config.errors import NotFoundError
from lorebind_knowledge.catalog.added import AddedDocument
from lorebind_knowledge.documents.changing import id_is_taken, keep_documents, of_source
from lorebind_knowledge.documents.listing import DocumentInfo

SearchedText = Annotated[
    str,
    Query(max_length=500, description="A part of the uri or title, in any case of letters."),
]
DocumentFormat = Annotated[
    str | None,
    Query(max_length=100, description="Only documents that were read as it, such as `markdown`."),
]

PNG = "image/png"
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The picture",
        # Generators of clients take the first type that they know, which is not that of a picture.
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}}
            for media_type in ("application/octet-stream", PNG)
        },
    }
}

PageNumber = Annotated[int, Path(description="The number of the page, from 1.")]

router = APIRouter(prefix="/knowledge-bases/{kb_id}/documents", tags=["documents"])

State = Annotated[
    Literal["ready", "pending", "failed"] | None,
    Query(description="Only documents in this state."),
]


@router.get("", response_model=PageOf[DocumentInfo])
async def list_documents(
    request: Request,
    paging: Paging,
    kb: SeenKnowledgeBase,
    state: State = None,
    q: SearchedText = "",
    format: DocumentFormat = None,
    filters: FiltersInUrl = None,
) -> Any:
    """List the documents of a knowledge base by uri, including those that failed.

    With `filters`, only documents are listed of which at least one passage passes.
    """
    start = paging.start()
    after, before = start.bounds
    rows = await kb.adocuments(
        state=state,
        q=q,
        format=format,
        filters=filters,
        limit=paging.limit + 1,
        after=after,
        before=before,
    )
    return paging.page_of(rows, start, lambda row: str(row.uri))


@router.post(
    "",
    status_code=201,
    response_model=DocumentInfo,
    responses={
        200: {"description": "The document was replaced", "model": DocumentInfo | Additions},
        202: {"description": "Another ingest is running", "model": DocumentInfo | Additions},
    },
    openapi_extra={"requestBody": REQUEST_BODY},
)
async def add_documents(request: Request, server: TheServer, _: Writer, kb: FilledByUs) -> Any:
    """Add one or several documents; a document with an existing id replaces that one.

    If several documents have the same id and are different, only the first is added.

    Every ingest keeps them until they are deleted. If another ingest is running, the answer is 202:
    the documents are `pending`, and a separate run ingests them after the other one has ended.
    """
    if request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        files = await given_as_files(request)
        if isinstance(files, list):
            return await _add_several(server, kb, files, "files")
        return await _add_one(server, kb, files)
    data = await read_json(request)
    if isinstance(data, dict) and "documents" in data:
        several = validated(NewDocuments, data).documents
        return await _add_several(server, kb, several, "documents")
    document = given_as_json(data)
    return await _add_one(server, kb, document)


@router.delete("", status_code=204, responses=PATIENT_DELETE)
async def delete_documents(
    request: Request, server: TheServer, _: Writer, kb: FilledByUs
) -> Response:
    """Delete the whole index: every document, including added ones, and its runs.

    The knowledge base itself stays; the next ingest builds a new index.
    """
    return await deferred_answer(request, server, kb.adelete())


class DeleteRequest(Body):
    """The documents to delete."""

    filters: Filters = Field(
        min_length=1, description="Conditions that the metadata of a document must meet."
    )
    dry_run: bool = Field(False, description="Only list the documents.")
    workflow: str | None = Field(
        None, description="The workflow that declares the knowledge base, if a workflow does."
    )


@router.post("/delete", responses=PATIENT)
async def delete_by_filter(
    request: Request,
    server: TheServer,
    project: SeenProject,
    _: Writer,
    kb_id: str,
    body: DeleteRequest,
) -> Response:
    """Delete the added documents that pass a filter.

    Documents of sources are not deleted; the answer says what excludes each of them.
    """
    kb = filled_by_us(project.knowledge_base(kb_id, workflow=body.workflow))
    deleting = kb.adelete_documents(body.filters, dry_run=body.dry_run)
    return await deferred_answer(request, server, deleting)


@router.get("/{doc_id}", response_model=DocumentInfo)
async def get_document(request: Request, kb: SeenKnowledgeBase, doc_id: str) -> Any:
    """Return a document with its state after the last ingest."""
    return conditional(request, as_data(await _find(kb, doc_id)))


@router.delete(
    "/{doc_id}",
    status_code=204,
    responses={
        **PATIENT_DELETE,
        202: {"description": "Another ingest is running", "model": DocumentInfo},
    },
)
async def delete_document(
    request: Request, server: TheServer, _: Writer, kb: FilledByUs, doc_id: str
) -> Response:
    """Delete an added document. If an ingest is running, searches may find it until that has
    ended."""
    document = await _find(kb, doc_id)
    if document.origin == "source":
        raise ProblemError("document_of_source", of_source(document.uri, kb.id))
    deleting = kb.adelete_document(document.uri)
    if prefers_events(request):
        return await deferred_answer(request, server, deleting, lambda _: None)
    if await server.changes.in_time(deleting) is None:
        return json_response(as_data(document), 202)
    return Response(status_code=204)


@router.post("/{doc_id}/exclude", response_model=DocumentInfo)
async def exclude_document(_: Writer, kb: FilledByUs, doc_id: str) -> Any:
    """Take a document out of searches at once, without deleting it.

    It stays so through every ingest and rebuild, until it is included again.
    """
    return json_response(as_data(await kb.aexclude_document(storable_name(kb, doc_id))))


@router.post("/{doc_id}/include", response_model=DocumentInfo)
async def include_document(_: Writer, kb: FilledByUs, doc_id: str) -> Any:
    """Let searches find a document again that was excluded."""
    return json_response(as_data(await kb.ainclude_document(storable_name(kb, doc_id))))


@router.get("/{doc_id}/chunks", response_model=PageOf[Chunk])
async def list_chunks(
    request: Request,
    kb: SeenKnowledgeBase,
    doc_id: str,
    paging: Paging,
    first_line: Annotated[
        int, Query(ge=1, le=2**31, description="Only chunks that hold this line or a later one.")
    ] = 1,
    last_line: Annotated[
        int | None,
        Query(ge=1, le=2**31, description="Only chunks that hold this line or an earlier one."),
    ] = None,
) -> Any:
    """List the chunks of a document in order, each with what was embedded with it."""
    lines = None
    if first_line > 1 or last_line is not None:
        lines = first_line, 2**31 if last_line is None else last_line
    first, limit = int(paging.start("[0-9]{1,9}").key or 0), paging.limit
    uri = (await _find(kb, doc_id)).uri
    chunks = await kb.achunks(uri, limit=limit + 1, after=first, lines=lines)
    following = str(Cursor(str(first + limit))) if len(chunks) > limit else None
    previous = str(Cursor(str(max(0, first - limit)))) if first else None
    return paging.response(as_data(chunks[:limit]), following, previous)


@router.get("/{doc_id}/pages/{page}", response_class=Response, responses=_PICTURE)
async def draw_page(
    kb: SeenKnowledgeBase,
    doc_id: str,
    page: PageNumber,
) -> Response:
    """Return a page of a PDF or of an image as a picture.

    The document is read again from its source. If it has changed since it was ingested, the answer
    is 409.
    """
    picture = await kb.apage_picture(storable_name(kb, doc_id), page)
    return Response(picture, headers={"Cache-Control": "private, no-cache"}, media_type=PNG)


@router.get("/{doc_id}/pages/{page}/boxes", response_model=PageBoxes)
async def list_page_boxes(
    kb: SeenKnowledgeBase,
    doc_id: str,
    page: PageNumber,
    start: Annotated[
        int, Query(ge=0, le=2**31, description="The first character, as in a passage's metadata.")
    ] = 0,
    end: Annotated[
        int | None,
        Query(ge=0, le=2**31, description="The end, as in a passage's metadata."),
    ] = None,
) -> Any:
    """Return where words of a document are on the picture of a page, such as those of a passage.

    The ends of each box are shares of the picture's width and height, from 0 to 1, counted from the
    upper left. Without a start and an end, the words of all passages are returned. Words are found
    by their text, in the text layer of a PDF or in the lines that OCR recognized; those that cannot
    be found have no box. The document is read again, as for the picture.
    """
    boxes = await kb.apage_boxes(storable_name(kb, doc_id), page, start=start, end=end)
    return json_response({"items": as_data(boxes)})


async def _find(kb: KnowledgeBase, doc_id: str) -> DocumentInfo:
    return await kb.adocument(storable_name(kb, doc_id))


async def _add_one(server: Server, kb: KnowledgeBase, document: Any) -> Response:
    added = checked(document)
    was_there = await _was_there(kb, added.uri)
    run = await _add(server, kb, [document])
    info = await _find(kb, added.uri)
    where = location(kb, f"documents/{info.id}")
    return json_response(as_data(info), _status(run, was_there), where)


async def _add(
    server: Server, kb: KnowledgeBase, documents: Sequence[Mapping[str, Any]]
) -> RequestedRun:
    """Store documents and begin the run that ingests them.

    Raises:
        LorebindError, ProblemError: the run failed. The documents are stored nevertheless.
    """
    uris = await keep_documents(kb.handle.kb, documents)
    settings = {"action": "add", "workflow": kb.workflow, "uris": uris}
    run = await server.ingests.add(kb.handle.namespace, settings)
    if failed := run.outcome.get("error"):
        raise ProblemError(failed["code"], failed["detail"], {"run_id": run.run_id})
    return run


async def _add_several(
    server: Server,
    kb: KnowledgeBase,
    items: list[Any],
    key: Literal["documents", "files"],
) -> Response:
    """Add all valid documents of the list `key` of a body, and return one result per document.

    The answer also has the id of the run that ingests them, and its report if it has ended.
    """
    results: list[dict[str, Any]] = []
    good: dict[int, _Good] = {}
    by_uri: dict[str, AddedDocument] = {}
    for number, item in enumerate(items):
        at = (key, number)
        try:
            document = given_as_json(item, at) if key == "documents" else item
            added = checked(document, at)
            if by_uri.setdefault(added.uri, added) != added:
                raise refused(id_is_taken(added, "document"), document, at)
        except RequestValidationError as error:
            results.append(_failed(invalid_request(error)))
        except ProblemError as problem:
            results.append(_failed(problem))
        else:
            was_there = await _was_there(kb, added.uri)
            good[number] = _Good(document, added.uri, was_there)
            results.append({})
    if not good:
        return json_response({"results": results, "report": None, "run_id": None})
    run = await _add(server, kb, [entry.document for entry in good.values()])
    for number, (_, uri, was_there) in good.items():
        info = await _find(kb, uri)
        results[number] = {"status": _status(run, was_there), "document": as_data(info)}
    report = run.outcome.get("report")
    answer = {"results": results, "report": report, "run_id": run.run_id}
    return json_response(answer, 202 if report is None else 200)


class _Good(NamedTuple):
    """A document that can be added."""

    document: dict[str, Any]
    uri: str
    was_there: bool


def _failed(problem: ProblemError) -> dict[str, Any]:
    return {"status": problem.status, "error": problem.document()}


def _status(run: RequestedRun, was_there: bool) -> int:
    if "report" not in run.outcome:
        return 202
    return 200 if was_there else 201


async def _was_there(kb: KnowledgeBase, uri: str) -> bool:
    try:
        await kb.adocument(uri)
    except NotFoundError:
        return False
    return True
