"""Plain JSON, the only form of values that tasks pass on and threads store."""

from __future__ import annotations

import math
from typing import Any

from lorebind_config.errors import UsageError

_MAX_DEPTH = 200
"""Maximum depth of nested lists and mappings; also stops values that contain themselves."""
_MAX_BITS = 14_000
"""Maximum size of an integer: Python writes and reads at most 4300 digits by default."""


def checked(value: Any, what: str) -> Any:
    """Return a value as plain JSON, with tuples as lists.

    Raises:
        UsageError: the value is not JSON; the message names the location within it.
    """
    return _checked(value, what, ())


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def _checked(value: Any, what: str, path: tuple[str | int, ...]) -> Any:
    if len(path) > _MAX_DEPTH:
        _refuse(what, path[:3], f"lists and mappings nested deeper than {_MAX_DEPTH}")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        _refuse(what, path, f"an integer of more than {_MAX_BITS:,} bits")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        _refuse(what, path, f"the number {value}")
    if isinstance(value, list | tuple):
        return [_checked(item, what, (*path, at)) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        _refuse(what, path, f"a value of type {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            _refuse(what, path, f"a mapping with the key {key!r} of type {type(key).__name__}")
    return {key: _checked(item, what, (*path, key)) for key, item in value.items()}


def _refuse(what: str, path: tuple[str | int, ...], found: str) -> None:
    at = "".join(f"[{step!r}]" for step in path)
    place = f" at {at}" if at else ""
    raise UsageError(
        f"{what} is not JSON{place}: {found}; expected text, a number, a boolean, null, a list or "
        "a mapping with text keys"
    )
