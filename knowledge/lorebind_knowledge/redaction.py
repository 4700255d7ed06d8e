"""What is said and shown without the values that it must not hold: some quote a refused key."""

from __future__ import annotations

import functools
import html
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HIDDEN = "[secret]"

_WITHIN = re.compile("(?:AccountKey|sig)=([^;&]+)")
"""Secrets within a secret: a connection string or a signature of Azure is quoted in parts too."""
_SHORT = 4
"""What is shorter is taken out only where it is a word: `eu` of `eu-1`, but not of `queue`."""


def without(text: str, values: Mapping[str, str]) -> str:
    """A text without some values, however they are encoded in it, in capitals or not.

    Args:
        text: what is to be shown.
        values: what must not be, each with what is shown in its place.
    """
    if not values:
        return text
    places, found = _places(tuple(values.items()))
    return found.sub(lambda match: places.get(match[0].lower(), HIDDEN), text)


@functools.lru_cache(maxsize=64)
def _places(values: tuple[tuple[str, str], ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    """By their forms what is shown for values, and what finds those; made once for many texts."""
    places = {form.lower(): shown for value, shown in values for form in _forms(value)}
    longest_first = sorted(places, key=len, reverse=True)  # one may be the beginning of another
    nothing = "(?!)"
    return places, re.compile("|".join(map(_pattern, longest_first)) or nothing, re.IGNORECASE)


def said_by(
    error: BaseException,
    *,
    holder: object = None,
    written: Any = None,
    resolved: Any = None,
    values: Mapping[str, str] | None = None,
) -> str:
    """An exception's kind and words, to be shown to anybody.

    Args:
        error: what was raised.
        holder: the object that raised it; what it keeps as `SecretStr` is taken out.
        written: the settings it was made with, as they stand in the configuration.
        resolved: the same with their templates filled in: what those gave is taken out.
        values: what else is taken out, as for `without`.
    """
    secrets = {*_held(holder), *_filled_in(written, resolved)}
    hidden = dict.fromkeys(filter(None, secrets), HIDDEN)
    return without(f"{type(error).__name__}: {error}", {**hidden, **(values or {})})


def _pattern(form: str) -> str:
    escaped = re.escape(form)
    return rf"(?<![^\W_]){escaped}(?![^\W_])" if len(form) < _SHORT else escaped


def _forms(value: str) -> set[str]:
    """The value and its parts, each as it is and as messages, addresses and JSON write it."""
    forms: set[str] = set()
    for text in filter(None, (value, *_WITHIN.findall(value), *_of_an_address(value))):
        forms |= {text, " ".join(text.split()), quote(text), quote_plus(text), unquote(text)}
        forms |= {quote(text, safe=""), quote(quote(text, safe="")), html.escape(text)}
        forms |= {repr(text)[1:-1], json.dumps(text)[1:-1]}
        with suppress(UnicodeError):
            forms.add(text.encode("idna").decode())
    return forms - {""}


def _of_an_address(value: str) -> Iterator[str]:
    """Where the value is an address, the parts of it that clients name alone."""
    try:
        parts = urlsplit(value)
        if parts.scheme and parts.netloc:
            yield from (parts.netloc, parts.hostname or "", parts.query)
            yield from (parts.username or "", parts.password or "")
            yield parts.path if len(parts.path) > _SHORT else ""
    except ValueError:
        return


def _held(holder: object) -> Iterator[str]:
    for value in getattr(holder, "__dict__", {}).values():
        if reveal := getattr(value, "get_secret_value", None):
            yield reveal()


def _filled_in(written: Any, resolved: Any) -> Iterator[str]:
    if isinstance(resolved, dict):
        for key, value in resolved.items():
            yield from _filled_in(written[key], value)
    elif isinstance(resolved, list):
        for before, value in zip(written, resolved, strict=True):
            yield from _filled_in(before, value)
    elif isinstance(resolved, str) and resolved != written:
        yield resolved
