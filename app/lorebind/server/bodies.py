"""Request bodies: JSON of a limited size with known keys, without type conversions."""

from __future__ import annotations

import json
import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

    from lorebind_config.declarations.base import Path

B = TypeVar("B", bound="Body")


_LARGEST = 2**53
"""Larger floats are not exact, so they are no integers."""
UNREADABLE = "it is not UTF-8, nested too deeply, or has an integer of too many digits"
"""Why JSON without a syntax error cannot be read."""
_DEEPEST = 200
"""Maximum depth of a body: functions that call themselves on its parts may go 1000 calls deep."""
_MOST_ERRORS = 100


def whole_numbers(value: Any) -> Any:
    """Convert floats without a fraction to integers, because JSON has one type of number."""
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST
    return int(value) if is_whole else value


Whole = BeforeValidator(whole_numbers)
"""Accepts 5.0 as an integer."""


class Body(BaseModel):
    """A request body without unknown keys, type conversions, and texts no database can store."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    @model_validator(mode="wrap")
    @classmethod
    def _storable(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and len(data) > len(cls.model_fields) + _MOST_ERRORS:
            raise ValueError(f"it has {len(data)} keys; known: {', '.join(cls.model_fields)}")
        errors: list[Any] = [
            {"type": PydanticCustomError("text", "{why}", {"why": why}), "loc": path, "input": None}
            for path, why in islice(unstorable(data), _MOST_ERRORS)
        ]
        try:
            body = validate(data)
        except ValidationError as error:
            locations = {error["loc"] for error in errors}
            errors += [
                error for error in error.errors(include_url=False) if error["loc"] not in locations
            ]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return body


def unstorable(data: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the path of each value that cannot be stored, with the reason.

    These are lone surrogates (no encoding has them), NUL (PostgreSQL refuses it), and NaN.

    Raises:
        ValueError: the data is nested too deeply to be read safely.
    """
    if not isinstance(data, dict | list):
        if why := _unstorable(data):
            yield path, why
        return
    if len(path) >= _DEEPEST:
        raise ValueError(f"lists and mappings are nested deeper than {_DEEPEST}")
    for step, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(step, str) and (why := _unstorable(step)):
            yield path, f"a key is wrong: {why}"
        elif isinstance(value, dict | list):
            yield from unstorable(value, (*path, step))
        elif why := _unstorable(value):
            yield (*path, step), why


def _unstorable(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN and infinite numbers are not JSON"
    if isinstance(value, str):
        if "\0" in value:
            return "a text contains the character NUL, which cannot be stored"
        try:
            value.encode()
        except UnicodeEncodeError:
            return "a text is not valid Unicode: it has half a character"
    return ""


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
        raise _broken(0, UNREADABLE) from None


def validated(kind: type[B], data: Any, at: Path = ()) -> B:
    """Validate data as this kind of body, or of a part of one.

    Args:
        kind: the kind.
        data: the data.
        at: the path of the data in the body.

    Raises:
        RequestValidationError: the data is not valid.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise RequestValidationError(
            [{**item, "loc": ("body", *at, *item["loc"])} for item in errors]
        ) from None


def _broken(at: int, words: str) -> RequestValidationError:
    problem = {"type": "json_invalid", "loc": ("body", at), "ctx": {"error": words}}
    return RequestValidationError([problem])


MOST_VALUES = 100_000
"""Maximum number of keys and values in a request."""

_VALUE = re.compile(rb'"[^"]*"?|[\[{]|[^\s\[\]{}:,"]+')

_counting = Threads()


async def has_too_many_values(text: bytes | bytearray, most: int = MOST_VALUES) -> bool:
    """Return whether a JSON text has more than this number of keys and values.

    They are counted before the text is parsed: parsing blocks the whole process, and values can
    take a hundred times the memory of their text.
    """
    # Each of these is followed by at most one key and one value.
    if 2 * (text.count(b",") + text.count(b"[") + text.count(b"{")) < most:
        return False
    with _counting.lane("read"):
        return await call(_has_more, text, most)


def _has_more(text: bytes | bytearray, most: int) -> bool:
    # An escaped quote does not end a text, unless its backslash is escaped.
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return next(islice(_VALUE.finditer(unescaped), most, None), None) is not None
