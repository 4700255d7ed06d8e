"""`…/find`, `…/fetch`, `…/fields` and `…/skipped`: exact words, lines and metadata, and the files
that the last ingest skipped."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Json, TypeAdapter, ValidationError

from lorebind.knowledge_base import KnowledgeBase
from lorebind.plain_data import as_data
from lorebind.server.answers import DocumentText, Fields, FoundLines, PageOf
from lorebind.server.etags import conditional
from lorebind.server.paging import Paging
from lorebind.server.server import SeenKnowledgeBase
from lorebind_config.declarations.retrieval import Filters
from lorebind_config.errors import NotFoundError
from lorebind_knowledge.ingest.report import Skipped

router = APIRouter(prefix="/knowledge-bases/{kb_id}", tags=["documents"])

Pattern = Annotated[
    str,
    Query(description="The text, or the regular expression, of 1 to 1000 characters."),
]
IsRegex = Annotated[
    bool, Query(description="Whether the pattern is a regular expression, with RE2's syntax.")
]
Limit = Annotated[int, Query(ge=1, le=1000, description="The maximum number of passages.")]
FirstLine = Annotated[int, Query(ge=1, description="The first line to return.")]
LastLine = Annotated[
    int | None, Query(ge=1, description="The last line to return; by default the end.")
]

_JSON: TypeAdapter[dict[str, Any]] = TypeAdapter(Json[Filters])
_IN_URL = ("query", "filters")


def _filters(
    filters: Annotated[
        str | None,
        Query(
            max_length=20_000,
            description="Conditions on the metadata of passages, as a JSON object.",
            examples=['{"team": "sales"}'],
        ),
    ] = None,
) -> dict[str, Any] | None:
    if filters is None:
        return None
    try:
        return _JSON.validate_python(filters)
    except ValidationError as error:
        # With the type of broken JSON, the error would be reported as one of the body.
        raise RequestValidationError(
            [
                {**problem, "type": "value_error", "loc": (*_IN_URL, *problem["loc"])}
                for problem in error.errors()
            ]
        ) from None


FiltersInUrl = Annotated[dict[str, Any] | None, Depends(_filters)]
"""The filter of a request; None if it has none."""


@router.get("/find", response_model=FoundLines)
async def find(
    request: Request,
    kb: SeenKnowledgeBase,
    pattern: Pattern,
    regex: IsRegex = False,
    document: Annotated[
        str | None, Query(description="The id or the uri of the only document to search.")
    ] = None,
    filters: FiltersInUrl = None,
    limit: Limit = 100,
) -> Any:
    """Return the lines that contain a text, or match a regular expression, in any case of letters.

    Each line of the index is compared on its own. Without `filters`, those that the knowledge base
    declares apply.
    """
    if document is not None:
        storable_name(kb, document)
    result = await kb.afind(pattern, regex=regex, document=document, filters=filters, limit=limit)
    return conditional(request, as_data(result))


@router.get("/fetch", response_model=DocumentText)
async def fetch(
    request: Request,
    kb: SeenKnowledgeBase,
    document: Annotated[str, Query(description="The id or the uri of the document.")],
    first_line: FirstLine = 1,
    last_line: LastLine = None,
    filters: FiltersInUrl = None,
) -> Any:
    """Return the text of a document, or of some of its lines, as the index has it.

    Without `filters`, those that the knowledge base declares apply.
    """
    name = storable_name(kb, document)
    lines = await kb.afetch(name, first_line=first_line, last_line=last_line, filters=filters)
    return conditional(request, as_data(lines))


@router.get("/fields", response_model=Fields)
async def list_fields(request: Request, kb: SeenKnowledgeBase) -> Any:
    """List the keys of the documents' metadata with their types and most frequent values."""
    return conditional(request, {"items": as_data(await kb.afields())})


@router.get("/skipped", response_model=PageOf[Skipped])
async def list_skipped(request: Request, paging: Paging, kb: SeenKnowledgeBase) -> Any:
    """List the files and folders that the last ingest found and did not read, by uri.

    Each has the reason, and the setting of the source with which it is read, if there is one.
    """
    start = paging.start()
    after, before = start.bounds
    rows = await kb.askipped(limit=paging.limit + 1, after=after, before=before)
    return paging.page_of(rows, start, lambda row: str(row.uri))


def storable_name(kb: KnowledgeBase, document: str) -> str:
    """Return the name of a document; raise `NotFoundError` for one that no database can store."""
    if "\0" in document:
        raise NotFoundError(f"knowledge base {kb.id!r} has no document {document!r}")
    return document
