"""Documents that callers send, either as JSON or as files in a form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.datastructures import UploadFile

from lorebind.server.bodies import Body, check_texts, validated
from lorebind.server.problems import ProblemError, problem_of
from lorebind_knowledge.declarations.sources import DEFAULT_MAX_BYTES
from lorebind_knowledge.documents.reading import LONGEST_ID, read_document
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request

    from lorebind_knowledge.catalog.added import AddedDocument

MOST = 100
"""Maximum number of documents that a request may add."""
_ANY_BYTES = "application/octet-stream"


class NewDocument(Body):
    """A document to add."""

    id: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_ID,
        description="A name with a file extension. By default, the text identifies the document.",
    )
    text: str = Field(min_length=1, description="The text of the document, at most 4 MiB.")
    title: str | None = Field(None, max_length=2000)
    media_type: str | None = Field(None, max_length=200, pattern=r"^[\w.+-]+/[\w.+-]+$")
    metadata: dict[str, Any] = Field({}, description="Added to the metadata of its passages.")


class NewDocuments(Body):
    """Several documents to add."""

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
                        "description": "Several files, instead of `file`; without other fields.",
                    },
                    "id": {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
                    "title": {"type": "string", "maxLength": 2000},
                },
            }
        },
    },
}


def given_as_json(data: Any) -> dict[str, Any]:
    """Convert a document to the form that `Project.add_documents` accepts."""
    document = validated(NewDocument, data).model_dump()
    return {name: value for name, value in document.items() if value is not None}


async def given_as_files(request: Request) -> dict[str, Any] | list[dict[str, Any]]:
    """Read a form: one `file` with an optional id and title, or several `files`."""
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
    """Convert a file and its form fields to the form that `Project.add_documents` accepts."""
    given: dict[str, Any] = {"id": file.filename, "media_type": file.content_type} | about
    if given["media_type"] == _ANY_BYTES:
        del given["media_type"]  # it is not specific, so the name or the content decides
    try:
        check_texts([value for value in given.values() if value])
    except ValueError as error:
        found = {"loc": ("body",), "msg": str(error), "type": "text"}
        raise RequestValidationError([found]) from None
    data = await file.read(DEFAULT_MAX_BYTES + 1)
    return {**{name: value for name, value in given.items() if value}, "data": data}


def checked(given: Any) -> AddedDocument:
    """Return a document after checking that it can be added.

    Raises:
        ProblemError: the document is too large or not valid.
    """
    size = len(given["data"]) if "data" in given else len(given["text"].encode())
    if size > DEFAULT_MAX_BYTES:
        limit = DEFAULT_MAX_BYTES // 1024**2
        raise ProblemError("too_large", f"a document may have at most {limit} MiB")
    try:
        return read_document(given, "document")
    except UsageError as error:
        raise problem_of(error) from None
