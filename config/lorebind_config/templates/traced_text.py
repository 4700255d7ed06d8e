"""Strings that contain values of variables, and that are shown with templates in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class TracedText(str):
    """The value of an `env` or `secrets` template, or a string that such a value was put into."""

    __slots__ = ("shown", "values")

    shown: str
    """The string for display: `https://{{ .env.HOST }}/a` for `https://h.example/a`."""
    values: Mapping[str, str]
    """The variables' values in the string, each mapped to its template."""

    def __new__(cls, text: str, shown: str, values: Mapping[str, str]) -> TracedText:
        made = super().__new__(cls, text)
        made.shown, made.values = shown, values
        return made


def plain(value: Any) -> Any:
    """Return a value with `TracedText` as plain strings, at any depth of mappings and lists."""
    return _each(value, str)


def shown(value: Any) -> Any:
    """Return a value with templates in place of the values of variables, for display."""
    return _each(value, lambda text: text.shown)


def values_in(value: Any) -> dict[str, str]:
    """Return the variables' values that a value contains, each mapped to its template."""
    found: dict[str, str] = {}
    _each(value, lambda text: found.update(text.values))
    return found


def _each(value: Any, change: Callable[[TracedText], Any]) -> Any:
    if isinstance(value, TracedText):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return value
