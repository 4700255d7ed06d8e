"""Documents that callers send, as JSON or as files of a form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.datastructures import UploadFile

from lorebind.server.bodies import Body, check_texts, validated
from lorebind.server.problems import ProblemError, problem_of
from lorebind_knowledge.declarations.sources import DEFAULT_MAX_BYTES
from lorebind_knowledge.documents.changing import read_document
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request

    from lorebind_knowledge.catalog.added import AddedDocument

MOST = 100
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

    documents: list[Any] = Field(min_length=1, max_length=MOST)


REQUEST_BODY = {
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


def given_as_json(data: Any) -> dict[str, Any]:
    """A document as `Project.add_documents` takes it."""
    document = validated(NewDocument, data).model_dump()
    return {name: value for name, value in document.items() if value is not None}


async def given_as_files(request: Request) -> dict[str, Any] | list[dict[str, Any]]:
    """The document of a form, its `file` and perhaps an id and a title; or several `files`."""
    async with request.form(max_files=MOST, max_fields=3) as form:
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


def checked(given: Any) -> AddedDocument:
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
