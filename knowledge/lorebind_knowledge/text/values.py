"""The values that texts stand for, and the texts within JSON values.

Some formats have only texts, as do paths: there, the form of a text tells whether it is a number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from lorebind_config.errors import SourceError

_MOST_DIGITS = 18
"""A longer number is an identifier, and stores cannot hold it as a number."""


def typed(text: str) -> str | int | bool:
    """Return the value of a text: a whole number without leading zeros, true or false; or itself.

    `1.10` is a version and `007` a name as often as they are numbers, so they stay texts. So do
    dates, which metadata stores as texts.
    """
    if text in ("true", "false"):
        return text == "true"
    is_number = len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit()
    return int(text) if is_number and str(int(text)) == text else text


def parsed_json(text: str, uri: str, number: int | None = None) -> Any:
    """Parse JSON.

    Args:
        text: the whole document, or one line of it.
        uri: the document, for messages.
        number: the line number, if it is one line.

    Raises:
        SourceError: it is not JSON, is nested too deeply, or has a number that is too long.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {number or error.lineno}, column {error.colno}"
        raise SourceError(f"{uri}: {place}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise SourceError(f"{uri}: is nested too deeply to be read as JSON") from error
    except ValueError as error:  # Python limits the digits of integers
        place = f"line {number}: " if number else ""
        raise SourceError(f"{uri}: {place}a number is too long") from error


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with all texts in it changed, also the keys of mappings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): change_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        changed = (change_texts(inner, change) for inner in value)
        return list(changed) if isinstance(value, list) else tuple(changed)
    return value
