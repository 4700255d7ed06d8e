"""JSON that others wrote, which can be anything."""

from __future__ import annotations

import json
from typing import Any

from lorebind_config.errors import SourceError


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
