"""What requests may say: JSON of known keys, without conversions."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Body(BaseModel):
    """Nothing unknown, no conversions, and no text that no database takes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, data: Any) -> Any:
        check_texts(data)
        return data


_DEEPEST = 200


def check_texts(data: Any, depth: int = 0) -> None:
    """Refuse lone surrogates, which no encoding has, NUL, which PostgreSQL has not, and NaN.

    What is nested so deeply that reading it may fail is refused too.

    Raises:
        ValueError: there is one.
    """
    if depth > _DEEPEST:
        raise ValueError(f"lists and mappings are nested deeper than {_DEEPEST}")
    if isinstance(data, str):
        if "\0" in data:
            raise ValueError("a text holds the character NUL, which cannot be stored")
        try:
            data.encode()
        except UnicodeEncodeError:
            raise ValueError("a text is not valid Unicode: it has half a character") from None
    elif isinstance(data, float):
        if data != data or data in (float("inf"), float("-inf")):
            raise ValueError("NaN and infinite numbers are no JSON")
    elif isinstance(data, dict):
        for key, value in data.items():
            check_texts(key, depth + 1)
            check_texts(value, depth + 1)
    elif isinstance(data, list):
        for value in data:
            check_texts(value, depth + 1)
