"""Redaction: which keys hold secrets, and text without secrets, since errors may quote a key."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from lorebind_config.errors import text_of

HIDDEN = "[secret]"
SECRET_NAMES = (
    r"(api_?key|(access|private|secret)_?key|token|password|passwd|passphrase|dsn|auth"
    r"|authorization|secret|credentials?|connection_?string)"
)
"""The names of keys that hold secrets, as a regular expression."""
_SECRET_NAME = re.compile(rf"(^|_){SECRET_NAMES}$")

_WITHIN = re.compile("(?:AccountKey|sig)=([^;&]+)")
"""Secrets within a secret: parts of an Azure connection string or signature are quoted alone."""
_SHORT = 4
"""Shorter values are removed only as whole words: `eu` in `eu-1`, but not in `queue`."""
_HALF = 2000
"""Characters at the start and at the end of a message that are always shown."""


def is_secret_name(name: str) -> bool:
    """Check whether a key holds a secret by its name: `api_key`, `authToken`, not `max_tokens`."""
    return bool(_SECRET_NAME.search(snake_case(name)))


def snake_case(name: str) -> str:
    """Return a name in lower case, with `_` between its words: `auth_token` for `authToken`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.sub(r"[^a-z0-9]+", "_", snake)


def is_secret_path(path: Iterable[str | int]) -> bool:
    """Check whether the value at a path must never be shown."""
    return any(isinstance(step, str) and is_secret_name(step) for step in path)


def without(text: str, values: Mapping[str, str]) -> str:
    """Return a text without some values, in any encoding and case.

    Args:
        text: the text to show.
        values: the values to remove, each with its replacement.
    """
    if not values:
        return text
    places, pattern = _places(tuple(values.items()))
    return pattern.sub(lambda match: places.get(match[0].lower(), HIDDEN), text)


@functools.lru_cache(maxsize=64)
def _places(values: tuple[tuple[str, str], ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the replacement of each form of the values, and a pattern that finds the forms."""
    places = {
        form.lower(): mask for value, mask in values for form in _forms(value) if _tells(form)
    }
    longest_first = sorted(places, key=len, reverse=True)  # one may be a prefix of another
    nothing = "(?!)"
    return places, re.compile("|".join(map(_pattern, longest_first)) or nothing, re.IGNORECASE)


def redacted_message(
    error: BaseException,
    *,
    holder: object = None,
    written: Any = None,
    resolved: Any = None,
    values: Mapping[str, str] | None = None,
) -> str:
    """Return an exception's class and message without secrets.

    Args:
        error: the exception.
        holder: the object that raised it; its `SecretStr` attributes are removed.
        written: the settings of that object, as written in the configuration.
        resolved: the same settings with templates filled in; the filled-in values are removed.
        values: further values to remove, as for `without`.
    """
    secrets = {*_held(holder), *filled_in(written, resolved)}
    hidden = dict.fromkeys(filter(None, secrets), HIDDEN)
    return f"{type(error).__name__}: {message_of(error, {**hidden, **(values or {})})}"


def message_of(error: BaseException, values: Mapping[str, str]) -> str:
    """Return an exception's message without some values, see `without`.

    The middle of a long message is omitted.
    """
    text = without(text_of(error), values)
    if (omitted := len(text) - 2 * _HALF) <= 0:
        return text
    return f"{text[:_HALF]} [{omitted} characters omitted] {text[-_HALF:]}"


def _tells(form: str) -> bool:
    """Return whether a form is more than a few marks, which any message may contain."""
    return len(form) >= _SHORT or any(map(str.isalnum, form))


def _pattern(form: str) -> str:
    escaped = re.escape(form)
    return rf"(?<![^\W_]){escaped}(?![^\W_])" if len(form) < _SHORT else escaped


def _forms(value: str) -> set[str]:
    """Return the value and its parts, each in the forms that messages, URLs and JSON use."""
    import html  # takes 1 ms, and most processes have nothing to redact

    forms: set[str] = set()
    for text in filter(None, (value, *_WITHIN.findall(value), *_of_an_address(value))):
        forms |= {text, " ".join(text.split()), quote(text), quote_plus(text), unquote(text)}
        forms |= {quote(text, safe=""), quote(quote(text, safe="")), html.escape(text)}
        forms |= {repr(text)[1:-1], json.dumps(text)[1:-1]}
        with suppress(UnicodeError):
            forms.add(text.encode("idna").decode())
    return forms - {""}


def _of_an_address(value: str) -> Iterator[str]:
    """Yield the parts of a URL that clients may quote alone; nothing for other values."""
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


def filled_in(written: Any, resolved: Any) -> Iterator[str]:
    """Yield the texts of settings that templates have changed.

    Args:
        written: the settings as written in the configuration.
        resolved: the same settings with templates filled in.
    """
    if isinstance(resolved, dict):
        for key, value in resolved.items():
            yield from filled_in(written[key], value)
    elif isinstance(resolved, list):
        for before, value in zip(written, resolved, strict=True):
            yield from filled_in(before, value)
    elif isinstance(resolved, str) and resolved != written:
        yield resolved
