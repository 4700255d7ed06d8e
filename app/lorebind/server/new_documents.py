"""Documents that callers send, either as JSON or as files in a form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import Field
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile

from lorebind.server.bodies import MOST_VALUES, Body, has_too_many_values, unstorable, validated
from lorebind.server.problems import ProblemError, problem_of
from lorebind_config.document_sizes import DEFAULT_MAX_BYTES
from lorebind_config.errors import UsageError
from lorebind_knowledge.documents.changing import LONGEST_ID, read_document

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request

    from lorebind_config.declarations.base import Path
    from lorebind_knowledge.catalog.added import AddedDocument

MOST = 100
"""Maximum number of documents that a request may add."""
_ANY_BYTES = "application/octet-stream"
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1")
_ONE = ("file", "id", "title", "metadata")
"""The fields of a form with one file."""


class AboutDocument(Body):
    """The name and metadata of a document to add."""

    id: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_ID,
        description="A name with a file extension. By default, the text identifies the document.",
    )
    title: str | None = Field(None, max_length=2000)
    metadata: dict[str, Any] = Field({}, description="Added to the metadata of its passages.")


class NewDocument(AboutDocument):
    """A document to add."""

    text: str = Field(min_length=1, description="The text of the document, at most 4 MiB.")
    media_type: str | None = Field(None, max_length=200, pattern=r"^[\w.+-]+/[\w.+-]+$")


class NewDocuments(Body):
    """Several documents to add."""

    documents: list[Any] = Field(min_length=1, max_length=MOST)


_FILE = {"type": "string", "format": "binary", "description": "At most 4 MiB."}

REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"oneOf": [NewDocument.model_json_schema(), NewDocuments.model_json_schema()]}
        },
        "multipart/form-data": {
            "schema": {
                "oneOf": [
                    {
                        "type": "object",
                        "required": ["file"],
                        "additionalProperties": False,
                        "properties": {
                            "file": _FILE,
                            "id": {
                                "type": "string",
                                "minLength": 1,
                                "maxLength": LONGEST_ID,
                                "description": "By default, the name of the file.",
                            },
                            "title": {"type": "string", "maxLength": 2000},
                            "metadata": {
                                "type": "string",
                                "contentMediaType": "application/json",
                                "contentSchema": {"type": "object"},
                                "description": "Added to the metadata of its passages.",
                            },
                        },
                    },
                    {
                        "type": "object",
                        "required": ["files"],
                        "additionalProperties": False,
                        "properties": {
                            "files": {
                                "type": "array",
                                "items": _FILE,
                                "minItems": 1,
                                "maxItems": MOST,
                            }
                        },
                    },
                ]
            }
        },
    },
}


def given_as_json(data: Any, at: Path = ()) -> dict[str, Any]:
    """Convert a document to the form that `Project.add_documents` accepts.

    Args:
        data: the document.
        at: its path in the body.
    """
    document = validated(NewDocument, data, at).model_dump()
    return {name: value for name, value in document.items() if value is not None}


async def given_as_files(request: Request) -> dict[str, Any] | list[dict[str, Any]]:
    """Read a form: one `file` with an optional id, title and metadata, or several `files`.

    Raises:
        RequestValidationError: the form has other fields; the error lists all mistakes.
    """
    _check_charset(request)
    async with request.form(max_files=MOST, max_fields=MOST) as form:
        several = form.getlist("files")
        errors = [
            _error((name,), "send it with one 'file'" if name in _ONE else "unknown field")
            for name in form
            if name not in (("files",) if several else _ONE)
        ]
        parts: dict[Path, Any]
        if several:
            parts = {("files", number): part for number, part in enumerate(several)}
        else:
            parts = {("file",): form.get("file")}
            repeated = [name for name in _ONE if len(form.getlist(name)) > 1]
            errors += [
                _error((name,), "send it once; several files are 'files'") for name in repeated
            ]
        files: list[dict[str, Any]] = []
        for at, part in parts.items():
            if isinstance(part, UploadFile):
                files.append(await _file(part))
                errors += [_error(at, why) for _, why in unstorable([*files[-1].values()])]
            else:
                errors.append(_error(at, "send a file"))
        about = {} if several else await _about(form, errors)
    if errors:
        raise RequestValidationError(errors)
    return files if several else files[0] | about


def _check_charset(request: Request) -> None:
    """Refuse encodings other than those of ordinary forms: some take quadratic time to read.

    Raises:
        ProblemError: the form is in another encoding.
    """
    _, parameters = parse_options_header(request.headers["content-type"])
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in _CHARSETS:
        detail = f"a form in the charset {charset[:40]!r} cannot be read; send it as UTF-8"
        raise ProblemError("unsupported_media_type", detail)


async def _file(part: UploadFile) -> dict[str, Any]:
    kind = part.content_type
    if kind == _ANY_BYTES:
        kind = None  # it is not specific, so the name or the content decides
    about = {"id": part.filename, "media_type": kind}
    data = await part.read(DEFAULT_MAX_BYTES + 1)
    return {name: value for name, value in about.items() if value} | {"data": data}


async def _about(form: FormData, errors: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields beside a file, and add what is wrong with them to `errors`."""
    about: dict[str, Any] = {name: form[name] for name in ("id", "title") if form.get(name)}
    try:
        if metadata := form.get("metadata"):
            if await has_too_many_values(str(metadata).encode()):
                raise ValueError
            about["metadata"] = json.loads(str(metadata))
    except (ValueError, RecursionError):
        message = f"expected a JSON object with at most {MOST_VALUES:,} values"
        errors.append(_error(("metadata",), message))
    try:
        return validated(AboutDocument, about).model_dump(exclude_unset=True)
    except RequestValidationError as error:
        errors += error.errors()
        return {}


def _error(path: Path, message: str) -> dict[str, Any]:
    return {"loc": ("body", *path), "msg": message, "type": "form"}


def checked(document: Any, at: Path = ()) -> AddedDocument:
    """Return a document after checking that it can be added.

    Args:
        document: the document, in the form that `Project.add_documents` accepts.
        at: its path in the body.

    Raises:
        ProblemError: the document is too large or not valid.
    """
    size = len(document["data"]) if "data" in document else len(document["text"].encode())
    if size > DEFAULT_MAX_BYTES:
        limit = DEFAULT_MAX_BYTES // 1024**2
        raise ProblemError("too_large", f"a document may have at most {limit} MiB")
    try:
        return read_document(document, "document")
    except UsageError as error:
        raise refused(error, document, at) from None


def refused(error: UsageError, document: Any, at: Path = ()) -> ProblemError:
    """Return the problem of a document at a path in the body; a file has no fields of its own."""
    error.at = (*at, *error.at) if "text" in document else at or ("file",)
    return problem_of(error)
