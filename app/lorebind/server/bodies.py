"""Request bodies: JSON with known keys, without type conversions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

if TYPE_CHECKING:
    from starlette.requests import Request

B = TypeVar("B", bound="Body")


def _whole(value: Any) -> Any:
    """Convert a float without a fraction, because JSON has one kind of number: 5.0 is 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Body(BaseModel):
    """A request body without unknown keys, type conversions, and texts no database can store."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, data: Any) -> Any:
        check_texts(data)
        return data


_DEEPEST = 200


def check_texts(data: Any, depth: int = 0) -> None:
    """Refuse lone surrogates (no encoding has them), NUL (PostgreSQL refuses it), and NaN.

    Data that is nested too deeply to be read safely is refused, too.

    Raises:
        ValueError: the data is refused.
    """
    if depth > _DEEPEST:
        raise ValueError(f"lists and mappings are nested deeper than {_DEEPEST}")
    if isinstance(data, str):
        if "\0" in data:
            raise ValueError("a text contains the character NUL, which cannot be stored")
        try:
            data.encode()
        except UnicodeEncodeError:
            raise ValueError("a text is not valid Unicode: it has half a character") from None
    elif isinstance(data, float):
        if data != data or data in (float("inf"), float("-inf")):
            raise ValueError("NaN and infinite numbers are not JSON")
    elif isinstance(data, dict):
        for key, value in data.items():
            check_texts(key, depth + 1)
            check_texts(value, depth + 1)
    elif isinstance(data, list):
        for value in data:
            check_texts(value, depth + 1)


async def read_json(request: Request) -> Any:
    """Read the JSON body of a request, for routes that accept other media types, too.

    Raises:
        RequestValidationError: the body is not JSON.
    """
    text = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if text and media_type != "application/json":
        raise RequestValidationError([], body=text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _broken(error.pos, error.msg) from None
    except (ValueError, RecursionError):
        words = "it is not UTF-8, nested too deeply, or has an integer of too many digits"
        raise _broken(0, words) from None


def validated(kind: type[B], data: Any) -> B:
    """Validate data as this kind of body.

    Raises:
        RequestValidationError: the data is not valid.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in found]
        ) from None


def _broken(at: int, words: str) -> RequestValidationError:
    found = {"type": "json_invalid", "loc": ("body", at), "ctx": {"error": words}}
    return RequestValidationError([found])
