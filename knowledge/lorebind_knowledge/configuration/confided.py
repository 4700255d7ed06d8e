"""Texts that hold values of variables, and how they are shown: with the templates of those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Confided(str):
    """What a template of `env` or `secrets` stands for, and each text that it was put into."""

    __slots__ = ("shown", "values")

    shown: str
    """The text as anybody may see it: `https://{{ .env.HOST }}/a` for `https://h.example/a`."""
    values: Mapping[str, str]
    """The values in it, each with its template."""

    def __new__(cls, text: str, shown: str, values: Mapping[str, str]) -> Confided:
        made = super().__new__(cls, text)
        made.shown, made.values = shown, values
        return made


def plain(value: Any) -> Any:
    """A value with ordinary texts in place of confided ones, at any depth of mappings and lists."""
    return _each(value, str)


def shown(value: Any) -> Any:
    """A value as anybody may see it."""
    return _each(value, lambda text: text.shown)


def values_in(value: Any) -> dict[str, str]:
    """The values of variables in a value, each with its template."""
    found: dict[str, str] = {}
    _each(value, lambda text: found.update(text.values))
    return found


def _each(value: Any, change: Callable[[Confided], Any]) -> Any:
    if isinstance(value, Confided):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return value
